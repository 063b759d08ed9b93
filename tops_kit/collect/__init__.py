"""The collector: a process of its own that takes records out of the rings of recorded programs and writes
the session.

    handle = start(folder, command=["python", "train.py"])   # returns when programs may record
    ...
    handle.stop()                                            # takes what is left, closes the session

`control` holds the switches that recorded programs read, `recovery.recover` completes a recording that
crashed.
"""

from __future__ import annotations

from tops_kit.collect.handle import CollectorHandle, start

__all__ = ["CollectorHandle", "start"]
