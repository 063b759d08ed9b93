"""A device's memory: blocks with exact limits that all processes share, and what is wrong with a pointer."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from typing import NamedTuple

from tops_kit.gcu.address_space import PAGE_MASK, PAGE_SHIFT, AddressSpace, DeviceMemoryError, HostMemoryError
from tops_kit.gcu.state import claims
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state.claims import Claim, Holder


class Allocation(NamedTuple):
    """A block of device memory: where it begins (a host address), its bytes, its number, who asked for it."""

    address: int
    size_bytes: int
    serial: int
    note: str


class OutOfDeviceMemory(DeviceMemoryError):  # noqa: N818 - the name that the vendor's error has
    """The device has not so many bytes left: how many were wanted and are free, and who has the others."""

    def __init__(
        self, name: str, requested_bytes: int, free_bytes: int, total_bytes: int, holders: list[Holder]
    ) -> None:
        self.requested_bytes = requested_bytes
        self.free_bytes = free_bytes
        self.total_bytes = total_bytes
        self.holders = holders
        who = "; ".join(
            f"process {h.pid}{' (this one)' if h.pid == os.getpid() else f' ({_short(h.command)})'} has "
            f"{_size(h.size_bytes)}"
            for h in holders
        )
        super().__init__(
            f"out of memory on {name}: {_size(requested_bytes)} wanted, {_size(free_bytes)} of "
            f"{_size(total_bytes)} free; {who or 'nobody has any'}"
        )


class UnknownAddress(DeviceMemoryError):  # noqa: N818
    """An address that is in no block of this device, or not at the beginning of one."""


class FreedAddress(UnknownAddress):
    """An address in a block that was freed: `allocation` tells what it was, `freed_note` where that was."""

    def __init__(self, message: str, allocation: Allocation, freed_note: str) -> None:
        super().__init__(message)
        self.allocation = allocation
        self.freed_note = freed_note


class DeviceMemory:
    """The memory of a device, or of a slice, for this process. Sizes are exact: nothing is rounded up."""

    def __init__(self, claim: Claim, total_bytes: int, base: int) -> None:
        self.total_bytes = total_bytes
        self._claim = claim
        self._base = base
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._inherited: AddressSpace | None = None
        self._start()

    def allocate(self, size_bytes: int, *, note: str = "") -> Allocation:
        """A block of so many bytes (at least 1), beginning at a multiple of 256.

        `note` says where it was asked for. Raises OutOfDeviceMemory, HostMemoryError, DeviceLostError.
        """
        if size_bytes <= 0:
            raise ValueError(f"a block of {size_bytes} bytes")
        if self._pid != os.getpid():
            self._after_fork()
        with self._mutex:
            self._claim.take()
            self._charge(size_bytes)
            try:
                address = self._space.take(size_bytes)
                self._serial += 1
                block = Allocation(address, size_bytes, self._serial, note)
                self._freed.pop(address, None)
                self._blocks[address] = block
            except BaseException:
                self._give_back(size_bytes)
                raise
            return block

    def free(self, address: int, *, note: str = "") -> Allocation:
        """Give a block back, by its beginning; returns what it was. Raises UnknownAddress, FreedAddress."""
        if self._pid != os.getpid():
            self._after_fork()
        with self._mutex:
            block = self._blocks.pop(address, None)
            if block is None:
                raise self._wrong(address, "free")
            self._freed[address] = (block, note)
            self._space.give(address, block.size_bytes)
            self._give_back(block.size_bytes)
            return block

    def clear(self, *, note: str = "") -> list[Allocation]:
        """Give all blocks back; returns what they were."""
        if self._pid != os.getpid():
            self._after_fork()
        with self._mutex:
            blocks = self.blocks()
            self._blocks.clear()
            for block in blocks:
                self._freed[block.address] = (block, note)
                self._space.give(block.address, block.size_bytes)
            if blocks:
                self._give_back(sum(block.size_bytes for block in blocks), len(blocks))
            return blocks

    def find(self, address: int) -> Allocation | None:
        """The block in use that an address lies in; None where there is none."""
        blocks = self._blocks
        block = blocks.get(address)
        if block is not None:
            return block
        # as AddressSpace.begin_of, which would take half of the time
        space = self._space
        small = space.slab_class.get(address >> PAGE_SHIFT)
        if small is not None:
            block = blocks.get(address - (address & PAGE_MASK) % small)
        else:
            index = bisect_right(space.large, address)
            block = blocks.get(space.large[index - 1]) if index else None
        if block is None or address >= block[0] + block[1]:
            return None
        return block

    def owns(self, address: int) -> bool:
        """Whether an address is one of this device, in use or not; else the host's, or another's."""
        return self._space.owns(address)

    def resolve(self, address: int, size_bytes: int) -> Allocation:
        """The block that so many bytes at an address lie in. Raises UnknownAddress, FreedAddress."""
        if self._pid != os.getpid():
            self._after_fork()
        block = self.find(address)
        if block is None:
            raise self._wrong(address, "use")
        beyond = address + size_bytes - block.address - block.size_bytes
        if beyond > 0:
            raise UnknownAddress(
                f"{size_bytes:,} bytes at 0x{address:x} go {beyond:,} bytes beyond the end of {_told(block)}"
            )
        return block

    def share(self, address: int) -> tuple[bytes, int, Allocation]:
        """Let other processes use a block, by its beginning: where they find it, and the block.

        Raises UnknownAddress, SharedMemoryError.
        """
        with self._mutex:
            block = self._blocks.get(address)
            if block is None:
                raise self._wrong(address, "share")
            return *self._space.share(address, block.size_bytes, block.serial), block

    def view(self, address: int, size_bytes: int) -> memoryview:
        """The bytes themselves, for a range that `resolve` accepts."""
        self.resolve(address, size_bytes)
        return self._space.view(address, size_bytes)

    def blocks(self) -> list[Allocation]:
        """What this process has, in the order of its requests."""
        with self._mutex:
            return sorted(self._blocks.values(), key=lambda block: block.serial)

    @property
    def used_bytes(self) -> int:
        """What this process has."""
        return int(self._claim.state.words[self._claim.slot + at.S_USED]) if self._claim.held else 0

    @property
    def peak_bytes(self) -> int:
        """The most that this process had at once."""
        return int(self._claim.state.words[self._claim.slot + at.S_PEAK]) if self._claim.held else 0

    def info(self) -> tuple[int, int]:
        """Free and total bytes, all processes taken together."""
        return self.total_bytes - sum(holder.size_bytes for holder in self.holders()), self.total_bytes

    def holders(self) -> list[Holder]:
        """Who has memory of it, the largest first. Processes that died have none any more."""
        claim = self._claim
        return claim.state.look(lambda words: claims.holders(words, claim.state.layout, claim.share)) or []

    def _start(self) -> None:
        self._blocks: dict[int, Allocation] = {}
        self._freed: dict[int, tuple[Allocation, str]] = {}
        self._foreign: dict[int, Allocation] = {}
        self._space = AddressSpace(self._base, self.total_bytes)
        self._serial = 0

    def _charge(self, size_bytes: int) -> None:
        claim, state = self._claim, self._claim.state
        words, share = state.words, claim.share

        def change() -> None:
            claim.check(self._held)
            total = at.H_USED + share
            if words[total] + size_bytes > self.total_bytes:
                claims.reap(state)
                if words[total] + size_bytes > self.total_bytes:
                    holders = claims.holders(words, state.layout, share)
                    free = self.total_bytes - words[total]
                    raise OutOfDeviceMemory(claim.name, size_bytes, free, self.total_bytes, holders)
            words[total] += size_bytes
            slot = claim.slot
            words[slot + at.S_USED] += size_bytes
            words[slot + at.S_BLOCKS] += 1
            words[slot + at.S_PEAK] = max(words[slot + at.S_PEAK], words[slot + at.S_USED])

        state.locked(change)

    def _give_back(self, size_bytes: int, blocks: int = 1) -> None:
        claim, words = self._claim, self._claim.state.words

        def change() -> None:
            if words[claim.slot] != claim.serial:
                return  # reset: nothing is counted any more
            words[at.H_USED + claim.share] -= size_bytes
            words[claim.slot + at.S_USED] -= size_bytes
            words[claim.slot + at.S_BLOCKS] -= blocks

        claim.state.locked(change)

    def _held(self) -> tuple[int, int]:
        """Bytes and blocks that this process has, as it knows itself."""
        return sum(block.size_bytes for block in self._blocks.values()), len(self._blocks)

    def _after_fork(self) -> None:
        """Device memory does not come along into a forked child; its parent's addresses are told apart."""
        foreign, self._inherited = self._blocks, self._space  # still mapped, so that addresses differ
        self._pid = os.getpid()
        self._mutex = threading.RLock()
        self._start()
        self._foreign = foreign

    def _wrong(self, address: int, what: str) -> UnknownAddress:
        """Why an address can't be used, or can't be freed."""
        for block in self._foreign.values():
            if block.address <= address < block.address + block.size_bytes:
                return UnknownAddress(
                    f"can't {what} 0x{address:x}: it belongs to the process that this one was forked from"
                )
        inside = self.find(address)
        if inside is not None:
            return UnknownAddress(
                f"can't {what} 0x{address:x}: it is {address - inside.address:,} bytes inside {_told(inside)}"
            )
        begin = self._space.begin_of(address)
        freed = self._freed.get(begin)
        if freed is not None and address < begin + max(freed[0].size_bytes, 1):
            block, where = freed
            twice = what == "free" and address == begin
            return FreedAddress(
                f"can't {what} 0x{address:x}: {_told(block)} was freed {'already' if twice else 'before'}"
                f"{f' at {where}' if where else ''}",
                block,
                where,
            )
        near = self._blocks.get(begin)
        if near is not None:
            beyond = address - near.address - near.size_bytes
            return UnknownAddress(
                f"can't {what} 0x{address:x}: it is {beyond:,} bytes beyond the end of {_told(near)}"
            )
        return UnknownAddress(f"can't {what} 0x{address:x}: it is no address of {self._claim.name}")


def _told(block: Allocation) -> str:
    return f"block {block.serial} ({block.size_bytes:,} bytes{f', from {block.note}' if block.note else ''})"


def _short(command: str) -> str:
    return command if len(command) <= 40 else command[:37] + "..."


def _size(size_bytes: int) -> str:
    """Bytes as people read them, exact where they are few."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.2f} {unit}"
    return f"{size_bytes:,} bytes"


__all__ = [
    "Allocation",
    "DeviceMemory",
    "DeviceMemoryError",
    "FreedAddress",
    "Holder",
    "HostMemoryError",
    "OutOfDeviceMemory",
    "UnknownAddress",
]
