"""Asking the collector for a snapshot: a small file in the session folder."""

from __future__ import annotations

import os

from topstx._process import _json_list

_FOLDER = "snapshots"  # of a session that keeps its last seconds only, see tops_kit.collect.flight.plan
_NAME_CHARACTERS = 200


def ask(session: str | None, name: str) -> None:
    """Ask for a snapshot called `name`; of several of one name before the collector looks, one is made."""
    if session is None:
        return
    name = str(name)[:_NAME_CHARACTERS]
    path = os.path.join(session, _FOLDER, f"{os.getpid()}-{hash(name) & 0xFFFFFFFF:08x}")  # noqa: PTH118 - pathlib is too heavy here
    label = _json_list([name.encode("utf-8", "backslashreplace").decode()])[1:-1]
    try:
        descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, f'{{"who": "program", "label": {label}}}'.encode())
        finally:
            os.close(descriptor)
        os.replace(path + ".new", path + ".request")  # noqa: PTH105
    except OSError:  # no such folder: everything is kept; a full disk: no reason for the program to fail
        pass
