"""Gather and scatter along an axis."""

from __future__ import annotations

import numpy as np

from tops_kit.engine.tiles_twin.checks import GATHER, SHAPE, TYPE, aligned, check_l1, fault_unless, is_index
from tops_kit.engine.tiles_twin.elementwise import combine
from tops_kit.engine.tiles_twin.numbers import narrow, widen
from tops_kit.engine.tiles_twin.shapes import exactly, gather_extents, joined
from tops_kit.engine.tiles_twin.tile import Tile
from tops_kit.isa.dtypes import accumulator


def gather(d: Tile, a: Tile, b: Tile, axis: int) -> None:
    """d[i] = a[b[i]] along an axis; the other axes broadcast."""
    check_l1(d, a, b)
    fault_unless(d.dtype == a.dtype and is_index(b), TYPE)
    extents = gather_extents(a, b, axis)
    exactly(d, extents)
    if 0 in d.n:
        return
    rank = len(extents)
    source, index = a.raw().reshape(aligned(a.n, rank)), b.values().reshape(aligned(b.n, rank))
    fault_unless(np.all((index >= 0) & (index < source.shape[axis])), GATHER)
    along = [source.shape[axis] if k == axis else n for k, n in enumerate(extents)]
    taken = np.take_along_axis(np.broadcast_to(source, along), np.broadcast_to(index, extents), axis)
    d.raw()[...] = taken.reshape(d.n)


def _scatter(d: Tile, b: Tile, a: Tile, axis: int, adds: bool) -> None:
    check_l1(d, b, a)
    fault_unless(d.dtype == a.dtype and is_index(b), TYPE)
    rank = max(a.rank, b.rank)
    fault_unless(0 <= axis < rank <= d.rank, SHAPE)
    extents = joined([a.n, b.n])
    more = d.rank - rank
    fits = (n == 1 if k < more else k - more == axis or n == extents[k - more] for k, n in enumerate(d.n))
    fault_unless(all(fits), SHAPE)
    if 0 in extents:
        return
    index = np.broadcast_to(b.values().reshape(aligned(b.n, rank)), extents)
    fault_unless(np.all((index >= 0) & (index < d.n[axis + more])), GATHER)
    values = np.broadcast_to(a.raw().reshape(aligned(a.n, rank)), extents).copy()
    raw = d.raw()
    target = raw if more == 0 else raw[(0,) * more]
    wide = accumulator(d.dtype)
    for place in np.ndindex(*extents):  # in order: the last one stays, sums are rounded one by one
        to = (*place[:axis], int(index[place]), *place[axis + 1 :])
        if adds:
            pair = np.array([target[to], values[place]], raw.dtype)
            left, right = widen(pair, d.dtype).reshape(2, 1)
            target[to] = narrow(combine("add", left, right, wide), d.dtype)[0]
        else:
            target[to] = values[place]


def scatter(d: Tile, b: Tile, a: Tile, axis: int) -> None:
    """d[b[i]] = a[i] along an axis, in order."""
    _scatter(d, b, a, axis, adds=False)


def scatter_add(d: Tile, b: Tile, a: Tile, axis: int) -> None:
    """d[b[i]] += a[i] along an axis, in order."""
    _scatter(d, b, a, axis, adds=True)
