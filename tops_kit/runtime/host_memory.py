"""Pinned memory of the host: what the bus can move by itself while the host goes on."""

from __future__ import annotations

import itertools
import math
import operator
from bisect import bisect_right, insort
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.isa.dtypes import DType
from tops_kit.runtime import activity as acts
from tops_kit.runtime import callers
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, shown
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.process import RUNTIME

_PAGE_BYTES = 4096


class PinnedMemory:
    """Which of the host's memory is pinned: blocks by address, and what keeps each alive."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._blocks: dict[int, tuple[int, Any, bool, str, int]] = {}
        """By address: bytes, owner, made by us, where, number."""
        self._serials = itertools.count(1)
        self.in_use_bytes = 0

    def holds(self, address: int, size_bytes: int) -> bool:
        """Whether so many bytes at an address are pinned."""
        index = bisect_right(self._begins, address) - 1
        if index < 0:
            return False
        begin = self._begins[index]
        return address + size_bytes <= begin + self._blocks[begin][0]

    def add(self, address: int, size_bytes: int, owner: Any, made: bool) -> None:
        """Pin memory. Raises TopsError: some of it is pinned."""
        index = bisect_right(self._begins, address + max(size_bytes, 1) - 1) - 1
        if index >= 0 and self._begins[index] + max(self._blocks[self._begins[index]][0], 1) > address:
            fail(Code.topsErrorHostMemoryAlreadyRegistered, f"0x{address:x} is pinned already")
        note = callers.where()
        insort(self._begins, address)
        serial = next(self._serials)
        self._blocks[address] = (size_bytes, owner, made, note, serial)
        self._tell(acts.MEMORY_ALLOC, address, size_bytes, note, serial)

    def remove(self, address: int, made: bool) -> None:
        """Unpin memory by its beginning. Raises TopsError."""
        found = self._blocks.get(address)
        if found is None or found[2] != made:
            what = "host_malloc gave" if made else "is registered"
            fail(
                Code.topsErrorInvalidValue if made else Code.topsErrorHostMemoryNotRegistered,
                f"0x{address:x} is no beginning of memory that {what}",
            )
        self._begins.remove(address)
        del self._blocks[address]
        self._tell(acts.MEMORY_FREE, address, found[0], found[3], found[4])

    def _tell(self, operation: int, address: int, size_bytes: int, note: str, serial: int) -> None:
        self.in_use_bytes += size_bytes if operation == acts.MEMORY_ALLOC else -size_bytes
        session = RUNTIME.told_memory
        wanted = HOOKS.kinds and HOOKS.wants(acts.MEMORY)
        if wanted or (session and operation == acts.MEMORY_FREE):
            thread = HOOKS.thread
            now_ns = RUNTIME.clock.now_ns()
            device_id, context_id = RUNTIME.place()
            told = acts.MemoryActivity(
                operation, acts.MEMORY_PINNED, address, size_bytes, self.in_use_bytes,
                thread.begin_ns or now_ns, now_ns, device_id, context_id, 0, thread.correlation_id,
                thread.thread_id, serial, note=note,
            )  # fmt: skip
            if wanted:
                HOOKS.emit(acts.MEMORY, told)
            if session is not None:
                session.note(told)


PINNED = PinnedMemory()  # of this process


@api("topsHostFree")
def host_free(memory: npt.NDArray[Any]) -> None:
    """Give back what `host_malloc` gave. Raises TopsError."""
    if not isinstance(memory, np.ndarray):
        fail(
            Code.topsErrorInvalidValue, f"host_free takes what host_malloc gave, not {type(memory).__name__}"
        )
    PINNED.remove(memory.ctypes.data, True)


@api("topsHostMalloc", undo=host_free)
def host_malloc(shape: Any, dtype: Any = np.uint8) -> npt.NDArray[Any]:
    """Pinned host memory as a numpy array: so many bytes, or a shape of a type. `host_free` gives it back."""
    RUNTIME.current().check()
    try:
        kind = np.dtype(dtype.numpy if isinstance(dtype, DType) else dtype)
    except Exception:  # numpy shows what it refuses: whatever that raises
        fail(Code.topsErrorInvalidValue, f"host_malloc of type {shown(dtype)}: give a type of numpy")
    if kind.hasobject or not kind.itemsize:
        fail(Code.topsErrorInvalidValue, f"host_malloc of type {shown(dtype)}: it has no bytes of its own")
    try:
        given = np.atleast_1d(shape).tolist() if isinstance(shape, np.ndarray) else shape
        extents = tuple(operator.index(n) for n in (given if isinstance(given, tuple | list) else (given,)))
        if min(extents, default=0) < 0:
            raise ValueError
        count = math.prod(extents)
        raw = np.zeros(count * kind.itemsize + _PAGE_BYTES, np.uint8)
        skip = -raw.ctypes.data % _PAGE_BYTES
        whole = raw[skip : skip + count * kind.itemsize].view(kind)
        out: npt.NDArray[Any] = whole.reshape(extents)
    except (TypeError, ValueError, OverflowError):
        fail(Code.topsErrorInvalidValue, f"host_malloc of shape {shown(shape)}")
    except MemoryError:
        fail(Code.topsErrorOutOfMemory, f"the host has no {shown(shape)} x {kind.itemsize} bytes left")
    PINNED.add(out.ctypes.data, out.nbytes, raw, True)
    return out


@api("topsHostRegister")
def host_register(memory: npt.NDArray[Any]) -> None:
    """Pin memory that is there already: a contiguous numpy array. Raises TopsError."""
    if not isinstance(memory, np.ndarray) or not (memory.flags.c_contiguous or memory.flags.f_contiguous):
        fail(Code.topsErrorInvalidValue, "host_register takes a contiguous numpy array")
    PINNED.add(memory.ctypes.data, memory.nbytes, memory, False)


@api("topsHostUnregister")
def host_unregister(memory: npt.NDArray[Any]) -> None:
    """Unpin what `host_register` pinned. Raises TopsError."""
    if not isinstance(memory, np.ndarray):
        fail(Code.topsErrorInvalidValue, f"host_unregister takes a numpy array, not {type(memory).__name__}")
    PINNED.remove(memory.ctypes.data, False)
