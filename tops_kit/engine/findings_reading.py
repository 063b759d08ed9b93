"""Makes the sanitizer's report from what the C machine gives: numbers become names, places and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tops_kit.engine.fault import SPACES, KernelFault, RawFault, places, raw_fault
from tops_kit.engine.findings import Access, Finding, Memory, Report, told_who
from tops_kit.engine.packing import Argument, GlobalArray
from tops_kit.isa.faults import BY_NUMBER
from tops_kit.isa.program import Program

_WHAT = ("read", "write", "atomic")
_FIRST_FOUND = 32  # faults from this number on are found by the sanitizer and end no thread

# LIMIT_* of findings.h
_LIMITS = {
    1: "some accesses: the host has no memory to keep them",
    2: "races: too many separate accesses to L2 and L3 to keep; those beyond the limit are missing",
    4: "races: too many accesses lie among each other to compare them all",
    8: "more than 1000 different mistakes: the others are missing",
    16: "what would have run after a fault: it ended its thread, and the block at the next barrier",
}
_SHARED = "uninitialised reads of {}: the buffers share memory, and each is taken by itself"


class Reader:
    """Reads the findings of one launch."""

    def __init__(self, program: Program, arguments: Sequence[Argument], block_threads: int) -> None:
        self._program = program
        self._block_threads = block_threads
        pairs = zip(program.parameters, arguments, strict=True)
        arrays = {p.index: a for p, a in pairs if p.kind == "pointer" and isinstance(a, GlobalArray)}
        self._arrays = [arrays[index] for index in sorted(arrays)]

    def report(self, raw: tuple[list[tuple[Any, ...]], int]) -> Report:
        """The report from (findings, limits) of the C module."""
        findings, bits = raw
        limits = [text for bit, text in _LIMITS.items() if bits & bit]
        shared = shared_buffers(self._program)
        if shared:
            limits.append(_SHARED.format(", ".join(shared)))
        found = tuple(self._finding(one) for one in findings)
        return Report(self._program.name, found, tuple(limits), checked=True)

    def _finding(self, found: tuple[Any, ...]) -> Finding:
        raw, first, second, slot, start, stop, count = found
        fault = raw_fault(raw)
        access = self._access(first or (fault.pc, fault.thread, fault.block, 0, 0, 0))
        if fault.kind < _FIRST_FOUND:
            told = KernelFault(self._program, fault)
            access = Access(told.location, fault.thread, fault.block, access.sip)
            memory = Memory(told.space, told.buffer) if told.buffer else None
            return Finding(told.kind.name, told.what, access, memory, None, count, True, told.detail)
        kind = BY_NUMBER[fault.kind].name
        other = None if second is None else self._access(second)
        memory = self._memory(fault, slot, start, stop)
        message = _message(kind, access, memory, other)
        return Finding(kind, message, access, memory, other, count, False, {})

    def _access(self, raw: tuple[int, ...]) -> Access:
        pc, thread, block, what, transfer, is_open = raw
        return Access(
            places(self._program, pc),
            thread,
            block,
            thread % self._block_threads if thread >= 0 else -1,
            _WHAT[what],
            bool(transfer),
            not is_open,
        )

    def _memory(self, fault: RawFault, slot: int, start: int, stop: int) -> Memory | None:
        if fault.object < 0:
            return None
        if fault.space == 3:
            array = self._arrays[fault.object]
            name, size = self._program.pointers[fault.object].name, array.dtype.size_bytes
            shape, strides = array.shape, array.strides_bytes
            address: int | None = array.address + start
            of_slot, slots = None, 1
        else:
            buffer = self._program.buffers[fault.object]
            name, size, shape = buffer.name, buffer.dtype.size_bytes, buffer.shape
            strides, address = _dense(shape, size), None
            of_slot, slots = slot, buffer.slots
        if start >= stop:
            return Memory(SPACES[fault.space], name, of_slot, slots=slots)
        first, last = (index_at(offset, shape, strides) for offset in (start, stop - size))
        return Memory(SPACES[fault.space], name, of_slot, first, last, start, stop - start, address, slots)


def index_at(offset: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The index of the element that lies `offset` bytes from the array's element 0."""
    # counted from the lowest address, along the axes with the longest strides first
    rest = offset - sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    index = [0] * len(shape)
    for axis in sorted(range(len(shape)), key=lambda k: -abs(strides[k])):
        step = abs(strides[axis])
        if step:
            index[axis] = min(rest // step, shape[axis] - 1)
            rest -= index[axis] * step
        if strides[axis] < 0:
            index[axis] = shape[axis] - 1 - index[axis]
    return tuple(index)


def shared_buffers(program: Program) -> list[str]:
    """Names of a kernel's own buffers that lie in the same memory as others."""
    own = [b for b in program.buffers if not b.temporary]
    ranges = [(b.space, b.offset_bytes, b.offset_bytes + b.slots * b.slot_bytes, b.name) for b in own]
    return [
        a[3]
        for i, a in enumerate(ranges)
        if any(i != j and a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for j, b in enumerate(ranges))
    ]


def _dense(shape: Sequence[int], size: int) -> tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def _transfer(access: Access) -> str:
    line = f" of line {access.location[0].line}" if access.location else ""
    return f"the transfer{line}"


def _message(kind: str, access: Access, memory: Memory | None, second: Access | None) -> str:
    what = str(memory) if memory else "memory"
    who = told_who(access)
    if second is None:
        if kind == "left-open":
            return f"{who} ends and never awaited this transfer to {memory.name if memory else 'memory'}"
        return f"{who} reads {what}, which nothing has written"
    match kind:
        case "not-awaited":
            return f"{who} reads {what}, which {_transfer(second)} is still writing{_WAIT}"
        case "in-use":
            doing = "writing" if second.what == "write" else "reading"
            return f"{who} writes {what}, which {_transfer(second)} is still {doing}{_WAIT}"
        case _:
            return _race(what, access, second)


_WAIT = ": wait for its event first"
_DOES = {"read": "reads", "write": "writes", "atomic": "changes"}


def _race(what: str, access: Access, second: Access) -> str:
    pairs = f"{told_who(access)} {_DOES[access.what]} {what}, {told_who(second)} {_DOES[second.what]} it"
    still_open = next((x for x in (access, second) if x.transfer and not x.awaited), None)
    if still_open is not None:
        return f"{pairs}, and {_transfer(still_open)} was not awaited"
    barrier = "barrier" if access.block == second.block else "grid barrier"
    return f"{pairs}, and no {barrier} lies between"
