"""Vector registers: 128 bytes each (arrays of uint8), the lanes of a type. `dtype` is the type's code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.tiles_twin import operations as op_numbers
from tops_kit.engine.tiles_twin.checks import BOUNDS, INDEX, SPACE, TYPE, VIEW, fault_unless
from tops_kit.engine.tiles_twin.elementwise import COMPARE, combine, fma_values, unary_values
from tops_kit.engine.tiles_twin.numbers import RAW, Array, narrow, scalar_raw, widen
from tops_kit.engine.tiles_twin.reductions import reduce_last
from tops_kit.engine.tiles_twin.tile import SPACE_L1, Tile
from tops_kit.isa.dtypes import DTYPES, VECTOR_BYTES, DType

Vector = npt.NDArray[np.uint8]


def _type(code: int) -> DType:
    fault_unless(0 <= code < len(DTYPES), TYPE)
    return DTYPES[code]


def _raw(v: Vector, dtype: DType) -> Array:
    return v.view(RAW[dtype.name])


def _values(v: Vector, dtype: DType) -> Array:
    return widen(_raw(v, dtype), dtype)


def _put(d: Vector, values: Array, dtype: DType) -> None:
    _raw(d, dtype)[:] = narrow(values, dtype)


def _place(tile: Tile, i: int) -> slice:
    fault_unless(tile.space == SPACE_L1, SPACE)
    fault_unless(tile.inside, BOUNDS)
    size = dense = tile.dtype.size_bytes
    for n, stride in zip(reversed(tile.n), reversed(tile.stride), strict=True):
        fault_unless(n == 1 or stride == dense, VIEW)
        dense *= n
    start = tile.offset + i * size
    fault_unless(i >= 0 and i * size + VECTOR_BYTES <= dense, INDEX)
    return slice(start, start + VECTOR_BYTES)


def vload(d: Vector, a: Tile, i: int) -> None:
    """128 bytes of a dense view from element i."""
    d[:] = a.memory.data[_place(a, i)]


def vstore(d: Tile, i: int, a: Vector) -> None:
    """128 bytes to a dense view from element i."""
    d.memory.data[_place(d, i)] = a


def vsplat(d: Vector, a: Any, dtype: int) -> None:
    """One value in all lanes."""
    kind = _type(dtype)
    _raw(d, kind)[:] = scalar_raw(a, kind)


def viota(d: Vector, dtype: int) -> None:
    """0, 1, 2, ... in the lanes."""
    kind = _type(dtype)
    count = np.arange(VECTOR_BYTES // kind.size_bytes)
    _put(d, count.astype(np.float32 if kind.is_float else np.int32), kind)


def vbinary(op: int, d: Vector, a: Vector, b: Vector, dtype: int) -> None:
    """d = a op b by lanes."""
    kind = _type(dtype)
    _put(d, combine(op_numbers.NAMES[op], _values(a, kind), _values(b, kind), kind), kind)


def vcompare(op: int, d: Vector, a: Vector, b: Vector, dtype: int) -> None:
    """1 in lanes where a op b, else 0, in the same type."""
    kind = _type(dtype)
    truth = COMPARE[op_numbers.NAMES[op]](_values(a, kind), _values(b, kind))
    _put(d, truth.astype(np.float32 if kind.is_float else np.int32), kind)


def vunary(op: int, d: Vector, a: Vector, dtype: int) -> None:
    """d = op(a) by lanes."""
    kind = _type(dtype)
    _put(d, unary_values(op_numbers.NAMES[op], _values(a, kind), kind), kind)


def vfma(d: Vector, a: Vector, b: Vector, c: Vector, dtype: int) -> None:
    """d = a * b + c by lanes, rounded once in f32."""
    kind = _type(dtype)
    _put(d, fma_values(_values(a, kind), _values(b, kind), _values(c, kind), kind), kind)


def vselect(d: Vector, c: Vector, a: Vector, b: Vector, dtype: int) -> None:
    """d = a where c's lane is not 0, else b."""
    kind = _type(dtype)
    _raw(d, kind)[:] = np.where(_values(c, kind) != 0, _raw(a, kind), _raw(b, kind))


def vreduce(op: int, a: Vector, dtype: int) -> np.float32 | int:
    """SUM, MAX or MIN of the lanes, as along a row of a tile: f32 for floats, int for the rest."""
    kind = _type(dtype)
    result = reduce_last(op_numbers.NAMES[op], _values(a, kind), kind)
    return np.float32(result) if kind.is_float else int(result)
