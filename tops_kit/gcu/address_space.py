"""Host memory that stands for a device's: reserved in large pieces, real only where it was touched.

Blocks have sizes of a class each (eight for each doubling), with a gap behind them. A freed block is used
again by its class alone, the one that was freed longest ago first and not before some others wait, so that a
pointer to it can be told from one that is valid. What is freed goes back to the system.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import sys
import weakref
from bisect import bisect_right, insort
from collections import deque

from tops_kit.errors import UserError
from tops_kit.gcu.shared_memory import SharedFile
from tops_kit.gcu.system import (
    MAP_FIXED_NOREPLACE,
    MAP_NORESERVE,
    discard_memory,
    map_memory,
    unmap_memory,
)

ALIGNMENT = 256
PAGE_SHIFT = 16
_PAGE = 1 << PAGE_SHIFT  # a multiple of every system's page
PAGE_MASK = _PAGE - 1
_SMALL = 16_384  # blocks up to here share pages
_ARENA_BYTES = 1 << 38
_LEAST_ARENA_BYTES = 1 << 26
_WAIT_BLOCKS = 64  # freed blocks of a class before one of them is used again
_WAIT_BYTES = 1 << 33
_ATTEMPTS = 8


class DeviceMemoryError(UserError):
    """Something is wrong with a use of device memory."""


class HostMemoryError(DeviceMemoryError):
    """The host has no room for the device's memory, although the device has."""


class AddressSpace:
    """Blocks of host memory for one device. Not for several threads at once."""

    def __init__(self, base: int, device_bytes: int) -> None:
        self._hint = base
        self._arena_bytes = max(_LEAST_ARENA_BYTES, min(_ARENA_BYTES, _up(device_bytes, _PAGE)))
        self._arenas: list[tuple[int, int, memoryview]] = []  # begin, end, bytes; by begin
        self._next = self._end = 0  # of the arena that is used up from its beginning
        self._slab: dict[int, tuple[int, int]] = {}  # class -> next place, end
        self.slab_class: dict[int, int] = {}  # page -> size of its blocks
        self.large: list[int] = []  # beginnings of the blocks that are no small ones, in order
        self._class_of: dict[int, int] = {}  # of each of those
        self._waiting: dict[int, deque[int]] = {}
        self._files: dict[int, SharedFile] = {}  # what other processes may map, by where it begins

    def take(self, size_bytes: int) -> int:
        """The address of a block. Raises HostMemoryError."""
        size = _class(size_bytes)
        waiting = self._waiting.get(size)
        if waiting and len(waiting) > min(_WAIT_BLOCKS, _WAIT_BYTES // size):
            return waiting.popleft()
        if size > _SMALL:
            address = self._cut(size)
            self._class_of[address] = size
            if self.large and address < self.large[-1]:
                insort(self.large, address)
            else:
                self.large.append(address)
            return address
        place, end = self._slab.get(size, (0, 0))
        if place + size > end:
            place = self._cut(_PAGE)
            self.slab_class[place // _PAGE] = size
            end = place + _PAGE
        self._slab[size] = (place + size, end)
        return place

    def give(self, address: int, size_bytes: int) -> None:
        """Take a block back; its contents are gone where it has pages of its own."""
        size = _class(size_bytes)
        self._waiting.setdefault(size, deque()).append(address)
        if size <= _SMALL:
            file = self._files.get(address & ~PAGE_MASK)
            if file is not None:
                file.say((address & PAGE_MASK) // ALIGNMENT, 0)
            return
        file = self._files.pop(address, None)
        if file is None:
            _discard(address, size)
        else:
            file.close()

    def share(self, address: int, size_bytes: int, serial: int) -> tuple[bytes, int]:
        """Let other processes map a block: where they find its file, and where in that it begins.

        They see its neighbours on the same page, too. `serial` is what the file says of it while it is in
        use. Raises SharedMemoryError.
        """
        size = _class(size_bytes)
        begin = address if size > _SMALL else address & ~PAGE_MASK
        file = self._files.get(begin)
        if file is None:
            file = self._files[begin] = SharedFile(max(size, _PAGE), begin)
        file.say((address - begin) // ALIGNMENT, serial)
        return file.place, address - begin

    def begin_of(self, address: int) -> int:
        """Where the block around an address begins, in use or not; -1 for an address of no block."""
        size = self.slab_class.get(address // _PAGE)
        if size is not None:
            return address - (address % _PAGE) % size
        index = bisect_right(self.large, address) - 1
        if index < 0:
            return -1
        begin = self.large[index]
        return begin if address < begin + self._class_of[begin] else -1

    def owns(self, address: int) -> bool:
        """Whether an address is one of this device, in use or not."""
        return any(begin <= address < end for begin, end, _ in self._arenas)

    def view(self, address: int, size_bytes: int) -> memoryview:
        """The bytes there. The memory stays mapped as long as any view is in use."""
        index = bisect_right(self._arenas, address, key=lambda arena: arena[0]) - 1
        if index >= 0:
            begin, end, content = self._arenas[index]
            if address + size_bytes <= end:
                return content[address - begin : address - begin + size_bytes]
        raise ValueError(f"0x{address:x} + {size_bytes} bytes is no device memory")

    def _cut(self, size: int) -> int:
        if self._next + size > self._end:
            self._grow(size)
        address = self._next
        self._next += size
        return address

    def _grow(self, size: int) -> None:
        wanted = max(self._arena_bytes, size + _PAGE)
        while True:
            try:
                begin, content = _reserve(self._hint, wanted)
                break
            except OSError:
                # a limit of the process (ulimit -v), or a host that promises no more than it has
                if wanted <= max(_LEAST_ARENA_BYTES, size + _PAGE):
                    raise HostMemoryError(
                        f"the host can't reserve {wanted:,} bytes for the simulated device: free some "
                        "memory, or raise the process's limit (ulimit -v)"
                    ) from None
                wanted = self._arena_bytes = max(wanted // 4, _LEAST_ARENA_BYTES, size + _PAGE)
        self._arenas.append((begin, begin + wanted, content))
        self._arenas.sort(key=lambda arena: arena[0])
        self._hint = begin + wanted
        self._next, self._end = _up(begin, _PAGE), begin + wanted


def _class(size_bytes: int) -> int:
    """The size of the block for so many bytes and a gap behind them."""
    size = (size_bytes + ALIGNMENT) & -ALIGNMENT
    step = max(ALIGNMENT, 1 << max((size - 1).bit_length() - 4, 0))
    size = (size + step - 1) & -step
    return size if size <= _SMALL else (size + _PAGE - 1) & -_PAGE


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


if sys.platform == "linux":

    def _reserve(hint: int, size: int) -> tuple[int, memoryview]:
        """Addresses for so many bytes, at the hint when that is free: the same ones in every run."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        places = [(hint + size * attempt, flags | MAP_FIXED_NOREPLACE) for attempt in range(_ATTEMPTS)]
        for place, flag in (*places, (hint, flags)):
            try:
                address = map_memory(place, size, flag, -1)
                break
            except OSError as error:
                if error.errno == errno.ENOMEM:
                    raise
                failed = error
        else:
            raise failed
        whole = (ctypes.c_ubyte * size).from_address(address)
        weakref.finalize(whole, unmap_memory, address, size).atexit = False
        return address, memoryview(whole).cast("B")

    _discard = discard_memory

else:

    def _reserve(hint: int, size: int) -> tuple[int, memoryview]:
        """Addresses for so many bytes, wherever the system has them."""
        del hint
        mapping = mmap.mmap(-1, size)
        whole = (ctypes.c_ubyte * size).from_buffer(mapping)
        return ctypes.addressof(whole), memoryview(mapping)

    def _discard(address: int, size: int) -> None:
        """Pages stay until the arena goes."""
