"""One writer at a time: a lock file that the system lets go of when its holder ends, however it ends."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

CLAIM_LOCK = ".claim.lock"
"""Lock file of a session folder that is held from before a recording begins until all of it is written."""

_TRIES = 5
_PROBE_S = 0.01


class FolderLock:
    """An exclusive lock on a file. `acquire` returns False when another process (or another lock here) holds
    it.

    Linux and macOS use flock, Windows locks the file's first byte. A system that has neither is trusted to
    have one writer. The file stays when the lock is released. A lock counts only on the file that is at its
    path: whoever took it on one that was removed or renamed meanwhile, tries again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting for its holder. Raises OSError when the file can't be made."""
        for _ in range(_TRIES):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            if not _try_lock(descriptor):
                os.close(descriptor)
                time.sleep(_PROBE_S)  # `locked` of another process holds it for a moment
                continue
            if _is_file(descriptor, self.path):
                break
            os.close(descriptor)  # its holder removed or renamed the folder meanwhile
        else:
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

    @property
    def in_place(self) -> bool:
        """Whether the lock is held, and its file is still the one at its path."""
        return self._descriptor is not None and _is_file(self._descriptor, self.path)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def remove_folder(self) -> None:
        """Remove the folder that the lock file lies in, and release the lock.

        It is renamed aside while the lock is held, so whoever makes a folder of that name meanwhile keeps
        it. OSError when it can't be removed; then nothing of it is gone.
        """
        shutil.rmtree(self.set_folder_aside("gone"))

    def set_folder_aside(self, ending: str = "old") -> Path:
        """Give the folder that the lock file lies in a hidden name, which is returned; release the lock.

        The name is .NAME.PID.ENDING. OSError when it can't be renamed.
        """
        folder = self.path.parent
        aside = folder.with_name(f".{folder.name[:200]}.{os.getpid()}.{ending}")
        if os.name != "posix":  # a folder with an open file can't be renamed there
            self.release()
        try:
            folder.rename(aside)
        finally:
            self.release()
        return aside

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
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False  # not writable for us: whoever could hold it isn't ours to know
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _is_file(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


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
