"""The folder of a new session: of several recordings that want one name, one gets it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

from tops_kit.errors import UserError
from tops_kit.session.lock import CLAIM_LOCK, FolderLock
from topsprof import naming
from topsprof.capture.options import RecordOptions


class Claim:
    """A session folder that is ours until `release`: nobody who overwrites sessions removes it."""

    def __init__(self, folder: Path, lock: FolderLock) -> None:
        self.folder = folder
        self.replaced: Path | None = None  # where the session lies that had the name before
        self._lock = lock

    @property
    def in_place(self) -> bool:
        """Whether the folder still is where we made it."""
        return self._lock.in_place

    def settle(self) -> None:
        """The recording has begun: the session that it replaces goes."""
        if self.replaced is not None:
            shutil.rmtree(self.replaced, ignore_errors=True)
            self.replaced = None

    def release(self) -> None:
        """Leave the folder to whoever wants it."""
        self.settle()
        if self._lock.in_place:
            with contextlib.suppress(OSError):  # then an empty file stays
                self._lock.path.unlink()
        self._lock.release()

    def discard(self) -> None:
        """Remove the folder, as nothing was recorded into it; what it replaced is there again."""
        if self._lock.in_place:
            with contextlib.suppress(OSError):  # what can't be removed stays
                self._lock.remove_folder()
        self._lock.release()
        if self.replaced is not None:
            with contextlib.suppress(OSError):  # someone else took the name
                self.replaced.rename(self.folder)
            self.replaced = None


def claim_folder(options: RecordOptions, pid: int) -> Claim:
    """Make the folder of a new session, named by `-o`. Where -f allows it an old session there is set aside,
    until `settle`.

    Raises UserError when the name is taken or the folder can't be made.
    """
    pattern = options.output
    for path in naming.candidates(pattern, pid=pid):
        try:
            naming.check_parent(path)
            claim = _made(path)
            if claim is None and naming.has_counter(pattern or naming.DEFAULT_PATTERN):
                continue
            if claim is None and options.force:
                claim = _made_again(path)
            if claim is None:
                raise naming.taken(path)
            return claim
        except OSError as error:
            raise UserError(
                f"'{path}' can't be made ({error.strerror}): name another place with -o NAME"
            ) from None
    raise AssertionError("candidates never ends without a path")


def _made(path: Path) -> Claim | None:
    """Make the folder; None when there is something.

    It gets its name when it is locked already, as another recording with -f would take it for an old one.
    """
    if os.path.lexists(path):
        return None
    start = path.with_name(f".{path.name[:200]}.{os.getpid()}.new")
    shutil.rmtree(start, ignore_errors=True)  # of an earlier process with the same number
    start.mkdir()
    lock = FolderLock(start / CLAIM_LOCK)
    try:
        if not lock.acquire():
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        start.rename(path)  # fails when someone else was faster: then the folder there is not empty
    except OSError as error:
        lock.release()
        shutil.rmtree(start, ignore_errors=True)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return None
        raise
    lock.path = path / CLAIM_LOCK
    return Claim(path, lock)


def _made_again(path: Path) -> Claim:
    """Make the folder in place of an old session. Raises UserError."""
    from tops_kit.session.in_use import occupied
    from tops_kit.session.removal import set_session_aside

    old: Path | None = None
    with contextlib.suppress(FileNotFoundError):  # removed meanwhile
        old = set_session_aside(path)
    claim = _made(path)
    if claim is None:
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
        raise occupied(path)
    claim.replaced = old
    return claim
