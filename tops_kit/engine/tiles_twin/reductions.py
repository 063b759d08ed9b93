"""Reductions and running sums along an axis."""

from __future__ import annotations

import numpy as np

from tops_kit.engine.tiles_twin import operations as op_numbers
from tops_kit.engine.tiles_twin.checks import SHAPE, TYPE, check_l1, fault_unless, write
from tops_kit.engine.tiles_twin.elementwise import combine
from tops_kit.engine.tiles_twin.numbers import Array, canonical
from tops_kit.engine.tiles_twin.shapes import exactly, reduce_extents
from tops_kit.engine.tiles_twin.tile import Tile
from tops_kit.isa.dtypes import BOOL, F32, I32, DType, accumulator

LANES = 32
_COMBINED_BY = {"sum": "add", "max": "max", "min": "min"}


def _identity(name: str, dtype: DType) -> float | int:
    if name == "sum":
        return 0
    if dtype.is_float:
        return -np.inf if name == "max" else np.inf
    return -(2**31) if name == "max" else 2**31 - 1


def reduce_last(name: str, x: Array, dtype: DType) -> Array:
    """Along the last axis, by 32 lanes that are folded onto each other at the end; `x` is widened."""
    wide = F32 if dtype.is_float else I32
    by = _COMBINED_BY[name]
    lanes = np.full([*x.shape[:-1], LANES], _identity(name, dtype), x.dtype)
    for start in range(0, x.shape[-1], LANES):
        part = x[..., start : start + LANES]
        count = part.shape[-1]
        lanes[..., :count] = combine(by, lanes[..., :count], part, wide)
    half = LANES // 2
    while half:
        lanes[..., :half] = combine(by, lanes[..., :half], lanes[..., half : 2 * half], wide)
        half //= 2
    return lanes[..., 0]


def _reduce_across(name: str, x: Array, axis: int, dtype: DType) -> Array:
    wide = F32 if dtype.is_float else I32
    rows = np.moveaxis(x, axis, 0)
    total = np.zeros(rows.shape[1:], x.dtype) if name == "sum" else rows[0]
    for row in rows if name == "sum" else rows[1:]:
        total = combine(_COMBINED_BY[name], total, row, wide)
    return canonical(total) if dtype.is_float else total


def _reduced(name: str, x: Array, axis: int, dtype: DType) -> Array:
    if name in ("any", "all"):
        return np.asarray((np.any if name == "any" else np.all)(x != 0, axis=axis), np.int32)
    if name in ("argmax", "argmin"):
        return np.asarray((np.argmax if name == "argmax" else np.argmin)(x, axis=axis), np.int32)
    if axis == x.ndim - 1:
        return reduce_last(name, x, dtype)
    return _reduce_across(name, x, axis, dtype)


def _result_type(name: str, a: DType) -> DType:
    if name == "sum":
        return accumulator(a)
    if name in ("argmax", "argmin"):
        return I32
    return BOOL if name in ("any", "all") else a


def reduce(op: int, d: Tile, a: Tile, axis: int) -> None:
    """Along one axis of `a`, whose extent in `d` is 1."""
    check_l1(d, a)
    name = op_numbers.NAMES[op]
    fault_unless(d.dtype == _result_type(name, a.dtype), TYPE)
    exactly(d, reduce_extents(a, axis))
    fault_unless(a.n[axis] or name in ("sum", "any", "all"), SHAPE)
    x = a.values()
    if d.raw().size:
        write(d, _reduced(name, x, axis, a.dtype).reshape(d.n))


def cumsum(d: Tile, a: Tile, axis: int) -> None:
    """Running sum along an axis, in order; kept in 32 bits, narrowed by elements."""
    check_l1(d, a)
    fault_unless(d.dtype in (a.dtype, accumulator(a.dtype)), TYPE)
    exactly(d, a.n)
    fault_unless(0 <= axis < a.rank, SHAPE)
    out = a.values()
    wide = accumulator(a.dtype)
    rows = np.moveaxis(out, axis, 0)
    for k in range(len(rows)):
        if k == 0:
            rows[0] = canonical(rows[0]) if a.dtype.is_float else rows[0]
        else:
            rows[k] = combine("add", rows[k - 1], rows[k], wide)
    write(d, out.reshape(d.n))
