"""A lock between processes that its holder's death releases."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from tops_kit import deferral

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # a byte that nobody reads: Windows' locks keep readers out
    _BUSY = (errno.EACCES, errno.EDEADLOCK)

    def try_lock(descriptor: int) -> bool:
        """Take the lock when it is free; whether it was."""
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _BUSY:
                return False
            raise
        return True

    def unlock(descriptor: int) -> None:
        """Give the lock back; nothing happens where it is not held."""
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        except OSError as error:
            if error.errno not in _BUSY:
                raise

else:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

    def try_lock(descriptor: int) -> bool:
        """Take the lock when it is free; whether it was."""
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        return True

    def unlock(descriptor: int) -> None:
        """Give the lock back; nothing happens where it is not held."""
        flock(descriptor, LOCK_UN)


def holder(descriptor: int) -> int | None:
    """The pid of the process that has a file's lock; None: nobody, or the system does not tell."""
    found = os.fstat(descriptor)
    try:
        lines = Path("/proc/locks").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    pids = {}
    for line in lines:
        fields = line.split()
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[4].isdecimal():
            device, _, inode = fields[5].rpartition(":")
            if inode == str(found.st_ino):
                pids[device] = int(fields[4])
    # some file systems show another device there than in fstat
    own = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    return pids.get(own, next(iter(pids.values())) if len(pids) == 1 else None) or None


def lock_within(descriptor: int, seconds: float) -> bool:
    """Take the lock, or give up after so long; whether it was taken."""
    if try_lock(descriptor):
        return True
    until = time.monotonic() + seconds
    pause_s = 0.0  # others hold it for microseconds
    while not try_lock(descriptor):
        if time.monotonic() >= until:
            return False
        deferral.outside(time.sleep, pause_s)
        pause_s = min(pause_s + 0.00002, 0.002)
    return True
