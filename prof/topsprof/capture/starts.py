"""Tells when a Python starts that looks for the recorder: it opens the folder of `inject`, and the kernel
says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
from pathlib import Path
from types import TracebackType
from typing import Final

SIGNAL: Final = signal.SIGIO
"""What this process gets when one starts. It has to be blocked or handled before: its default is the end."""

_IN_OPEN: Final = 0x20
_EVENT_BYTES: Final = 4096


class PythonStarts:
    """Use as a context manager. Where the kernel can't tell (no inotify, or its limits) none is seen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def __enter__(self) -> PythonStarts:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            return self
        if descriptor < 0:
            return self
        self._descriptor = descriptor
        if libc.inotify_add_watch(descriptor, os.fsencode(self._folder), _IN_OPEN) < 0:
            self._close()
            return self
        with contextlib.suppress(OSError):  # then they are seen when we look, and do not wake us
            fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def seen(self) -> bool:
        """Whether one has started since the last call."""
        if self._descriptor is None:
            return False
        found = False
        with contextlib.suppress(BlockingIOError):  # nothing more
            while os.read(self._descriptor, _EVENT_BYTES):
                found = True
        return found

    def _close(self) -> None:
        if self._descriptor is not None:
            # A forked child of ours may hold it as well: closing it would not end the signals.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._descriptor, fcntl.F_SETFL, os.O_NONBLOCK)
            os.close(self._descriptor)
            self._descriptor = None
