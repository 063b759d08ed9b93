"""Memory that two processes see: a range of addresses becomes a file without a name, which others map.

The file goes with the last process that has it. Another process of the same user finds it by the process that
made it and its number there. Behind the contents are as many words as there may be blocks: what each is now.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import weakref
from pathlib import Path
from typing import Final

from tops_kit.gcu.system import MAP_FIXED, MAP_NORESERVE, map_memory, unmap_memory

_NAME: Final = "topskit"
_PIECE_BYTES = 1 << 20
_WORD = struct.Struct("<q")
WORDS_BYTES: Final = 4096
PLACE: Final = struct.Struct("<iiQq")  # of a file: process, number there, inode, bytes of contents


class SharedMemoryError(Exception):
    """Memory can't be shared, or is not there any more: why, in a line."""


class SharedFile:
    """Memory of `size_bytes` at `address` that others may map. Raises SharedMemoryError."""

    def __init__(self, size_bytes: int, address: int | None = None) -> None:
        create = getattr(os, "memfd_create", None)
        if create is None or sys.platform != "linux":
            raise SharedMemoryError("memory is shared between processes on Linux only")
        self.size_bytes = size_bytes
        try:
            self.fd: int = create(_NAME)
            try:
                os.ftruncate(self.fd, size_bytes + WORDS_BYTES)
                if address is not None:
                    self._fill(address)
                self.address = map_memory(
                    address, size_bytes, mmap.MAP_SHARED | (0 if address is None else MAP_FIXED), self.fd
                )
            except BaseException:
                os.close(self.fd)
                raise
        except OSError as error:
            raise SharedMemoryError(f"memory can't be shared: {error.strerror}") from None
        self._inode = os.fstat(self.fd).st_ino
        self._in_place = address is not None
        own = None if self._in_place else self.address
        self._close = weakref.finalize(self, _give_back, own, size_bytes, self.fd)
        self._close.atexit = False

    def _fill(self, address: int) -> None:
        """Write what is at an address, but for zeros."""
        whole = (ctypes.c_ubyte * self.size_bytes).from_address(address)
        content = memoryview(whole).cast("B")
        zeros = bytes(_PIECE_BYTES)
        for begin in range(0, self.size_bytes, _PIECE_BYTES):
            piece = bytes(content[begin : begin + _PIECE_BYTES])
            if piece != zeros[: len(piece)]:
                os.pwrite(self.fd, piece, begin)

    @property
    def place(self) -> bytes:
        """Where others find it, for OpenedFile."""
        return PLACE.pack(os.getpid(), self.fd, self._inode, self.size_bytes)

    def say(self, index: int, word: int) -> None:
        """What a block of it is now; `index` from 0 to 511."""
        os.pwrite(self.fd, _WORD.pack(word), self.size_bytes + index * _WORD.size)

    def close(self) -> None:
        """Memory that was there before is this process's alone again, and empty; who has it mapped keeps what
        was there."""
        if not self._close.alive:
            return
        if self._in_place:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED
            map_memory(self.address, self.size_bytes, flags, -1)
        self._close()


class OpenedFile:
    """Another process's SharedFile, mapped here at `address`. Raises SharedMemoryError."""

    def __init__(self, place: bytes) -> None:
        pid, number, inode, size_bytes = PLACE.unpack(place)
        path = f"/proc/{pid}/fd/{number}"
        gone = SharedMemoryError(f"process {pid}, which shared it, has ended or has given it back")
        try:
            # nothing else is opened, whatever a handle says
            if not str(Path(path).readlink()).startswith(f"/memfd:{_NAME}"):
                raise gone
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            raise gone from None
        except OSError as error:
            raise SharedMemoryError(f"memory of process {pid} can't be opened: {error.strerror}") from None
        try:
            found = os.fstat(fd)
            if found.st_ino != inode or found.st_size != size_bytes + WORDS_BYTES or size_bytes <= 0:
                raise gone
            self.address = map_memory(None, size_bytes, mmap.MAP_SHARED, fd)
        except OSError as error:
            os.close(fd)
            raise SharedMemoryError(f"the host has no room for it: {error.strerror}") from None
        except BaseException:
            os.close(fd)
            raise
        self.size_bytes = size_bytes
        self._fd = fd
        self._close = weakref.finalize(self, _give_back, self.address, size_bytes, fd)
        self._close.atexit = False

    def word(self, index: int) -> int:
        """What a block is now."""
        (out,) = _WORD.unpack(os.pread(self._fd, _WORD.size, self.size_bytes + index * _WORD.size))
        return int(out)

    def close(self) -> None:
        """Give the mapping back."""
        self._close()


def _give_back(address: int | None, size_bytes: int, fd: int) -> None:
    if address is not None:
        unmap_memory(address, size_bytes)
    os.close(fd)
