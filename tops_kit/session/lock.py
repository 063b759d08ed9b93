"""One writer at a time: a lock file that the system lets go of when its holder ends, however it ends."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

_TRIES = 5
_PROBE_S = 0.01


class FolderLock:
    """An exclusive lock on a file. `acquire` returns False when another process (or another lock here) holds
    it.

    Linux and macOS use flock, Windows locks the file's first byte. A system that has neither is trusted to
    have one writer. The file stays when the lock is released: removing it would let two processes lock two
    different files of one name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting for its holder. Raises OSError when the file can't be made."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        for _ in range(_TRIES):
            if _try_lock(descriptor):
                break
            time.sleep(_PROBE_S)  # `locked` of another process holds it for a moment
        else:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        text = f"{os.getpid()}\n".encode()
        # The byte that Windows locks lies past the text, so that others can read it.
        os.ftruncate(descriptor, 0)
        os.write(descriptor, text)
        return True

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def holder(self) -> int | None:
        """Process number that the lock file names, None when unknown; for messages only."""
        try:
            return int(self.path.read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            return None


def locked(path: Path) -> bool:
    """Whether someone holds the lock on `path` now."""
    if not path.exists():
        return False
    lock = FolderLock(path)
    try:
        descriptor = os.open(lock.path, os.O_RDWR)
    except OSError:
        return False  # not writable for us: whoever could hold it isn't ours to know
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def is_running(process: int) -> bool:
    """Whether a process of that number runs. Where that can't be told without harm, it is assumed."""
    if os.name != "posix":
        return True  # os.kill would end it on Windows
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _try_lock(descriptor: int) -> bool:
    fcntl = _module("fcntl")
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
    msvcrt = _module("msvcrt")
    if msvcrt is not None:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
    return True
