"""Single elements: scalar loads and stores, atomics. The rules stand in engine/access.h."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tops_kit.engine.oracle.scalars import MASK, as_float, as_int, from_arithmetic, from_typed
from tops_kit.engine.oracle.trap import INDEX, SHAPE, SPACE, TYPE, Trap
from tops_kit.engine.tiles_twin import Tile, numbers
from tops_kit.engine.tiles_twin.tile import SPACE_L1, SPACE_L2, SPACE_NONE
from tops_kit.isa.dtypes import DType

MAX_INDICES = 3


def address(a: Tile, indices: Sequence[int]) -> int:
    """Where the element lies in the view's memory. Trap: not L1 or L2, too many axes, an index outside."""
    if a.space not in (SPACE_L1, SPACE_L2):
        raise Trap(SPACE, a)
    if a.rank > MAX_INDICES:
        raise Trap(SHAPE, a, shapes=(tuple(a.n), tuple(a.n)))
    offset = a.offset
    for axis in range(a.rank):
        at = indices[axis]
        if not a.lo[axis] <= at < a.hi[axis]:
            raise Trap(INDEX, a, (axis, at, a.lo[axis], a.hi[axis]))
        offset += at * a.stride[axis]
    return offset


def load(a: Tile, offset: int) -> int:
    """The element at an offset of the view's memory, as the bits of a scalar register."""
    return widened(a.memory.data[offset : offset + a.dtype.size_bytes], a.dtype)


def store(a: Tile, offset: int, bits: int) -> None:
    """A scalar register into the element at an offset of the view's memory."""
    a.memory.data[offset : offset + a.dtype.size_bytes] = narrowed(bits, a.dtype)


def widened(element: np.ndarray[Any, np.dtype[np.uint8]], dtype: DType) -> int:
    """The bytes of an element as the bits of a scalar register."""
    raw = element.view(numbers.RAW[dtype.name])
    return from_typed(numbers.widen(raw, dtype)[0], dtype)


def narrowed(bits: int, dtype: DType) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bits of a scalar register as the bytes of an element."""
    value = as_float(bits) if dtype.is_float else np.int32(as_int(bits))
    return np.atleast_1d(numbers.narrow(np.asarray([value]), dtype)).view(np.uint8)


_INTS: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, b: old + b,
    "min": min,
    "max": max,
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
}
_BITWISE = ("and", "or", "xor")
_FLOATS: dict[str, Callable[[np.float32, np.float32], np.float32]] = {
    "add": lambda old, b: old + b,
    "min": lambda old, b: old if old < b or np.isnan(old) else b,
    "max": lambda old, b: old if old > b or np.isnan(old) else b,
}


def check_atomic(a: Tile) -> None:
    """Trap: no view, or one with axes."""
    if a.space == SPACE_NONE:
        raise Trap(SPACE, a)
    if a.rank:
        raise Trap(SHAPE, a, shapes=(tuple(a.n), None))


def atomic(a: Tile, operation: str, bits: int) -> int:
    """`operation` (a name of the table without `atomic_`) on an element; the old value. Trap: float bits."""
    if operation in _BITWISE and a.dtype.is_float:
        raise Trap(TYPE, a, (a.dtype.code, -1, -1))
    old = load(a, a.offset)
    if operation == "exchange":
        new = bits
    elif a.dtype.is_float:
        with np.errstate(all="ignore"):
            new = from_arithmetic(_FLOATS[operation](as_float(old), as_float(bits)))
    else:
        new = _INTS[operation](as_int(old), as_int(bits)) & MASK
    store(a, a.offset, new)
    return old


def compare_and_set(a: Tile, expected: int, bits: int) -> int:
    """`bits` into the element if it is `expected`, narrowed to its type; the old value."""
    old = load(a, a.offset)
    if np.array_equal(a.memory.data[a.offset : a.offset + a.dtype.size_bytes], narrowed(expected, a.dtype)):
        store(a, a.offset, bits)
    return old
