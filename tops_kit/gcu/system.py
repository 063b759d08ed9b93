"""The system's calls for memory at addresses of our choice (Linux)."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Final

MAP_FIXED: Final = 0x10
MAP_NORESERVE: Final = 0x4000
MAP_FIXED_NOREPLACE: Final = 0x100000  # kernels before 4.17 take it for a hint
_MADV_DONTNEED = 4


class _System:
    """The calls with their types."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self.mmap = library.mmap
        self.mmap.restype = ctypes.c_void_p
        self.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
        self.munmap = library.munmap
        self.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self.madvise = library.madvise
        self.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@cache
def _system() -> _System:
    return _System()


def map_memory(address: int | None, size_bytes: int, flags: int, fd: int) -> int:
    """Memory to read and write, at an address where one is given; where it is. Raises OSError."""
    out = _system().mmap(address, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if out is None or out == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(out)


def unmap_memory(address: int, size_bytes: int) -> None:
    """Give it back."""
    _system().munmap(address, size_bytes)


def discard_memory(address: int, size_bytes: int) -> None:
    """Its contents are gone, and its pages go back to the system."""
    _system().madvise(address, size_bytes, _MADV_DONTNEED)
