"""Matrix products of tiles."""

from __future__ import annotations

import numpy as np

from tops_kit.engine.tiles_twin.checks import TYPE, check_l1, fault_unless
from tops_kit.engine.tiles_twin.numbers import fma
from tops_kit.engine.tiles_twin.shapes import exactly, matmul_extents
from tops_kit.engine.tiles_twin.tile import Tile
from tops_kit.isa.dtypes import BOOL, accumulator


def _multiply(d: Tile, a: Tile, b: Tile, zero: bool) -> None:
    check_l1(d, a, b)
    fault_unless(a.dtype == b.dtype != BOOL and d.dtype == accumulator(a.dtype), TYPE)
    exactly(d, matmul_extents(a, b))
    left, right = a.values(), b.values()
    values = d.values()
    if zero:
        values[...] = 0
    if values.size == 0:
        return
    total = values.reshape(list(d.n)[-max(a.rank, b.rank) :])
    if a.dtype.is_float:
        for k in range(left.shape[-1]):
            total = fma(left[..., :, k, None], right[..., k, None, :], total)
    else:
        # 64 bits wrap, and their low half is that of products and sums of 32 bits
        products = np.matmul(left.astype(np.uint64), right.astype(np.uint64))
        total = (products + total.astype(np.uint64)).astype(np.uint32).astype(np.int32)
    d.raw()[...] = total.reshape(d.n).view(d.raw().dtype)


def mma(d: Tile, a: Tile, b: Tile) -> None:
    """d += a @ b, in order of k, with one fused accumulator an element."""
    _multiply(d, a, b, zero=False)


def matmul(d: Tile, a: Tile, b: Tile) -> None:
    """d = a @ b."""
    _multiply(d, a, b, zero=True)
