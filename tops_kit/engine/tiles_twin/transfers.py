"""Transfers of the DTE, as if all of the source were read before anything is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from tops_kit.engine.tiles_twin.checks import BOUNDS, SHAPE, SPACE, TYPE, fault_unless
from tops_kit.engine.tiles_twin.numbers import canonical, narrow, scalar_raw, widen
from tops_kit.engine.tiles_twin.tile import SPACE_L1, SPACE_NONE, Tile


def _pair_axes(d: Tile, a: Tile) -> list[int]:
    """Which axis of `a` goes with each axis of `d`; -1: none, `a` is broadcast."""
    shift = d.rank - a.rank
    if all(n == 1 or (axis + shift >= 0 and n == d.n[axis + shift]) for axis, n in enumerate(a.n)):
        return [axis - shift if axis >= shift else -1 for axis in range(d.rank)]
    fault_unless(shift != 0, SHAPE)
    # one has axes of extent 1 between the other's
    longer, shorter = (d, a) if shift > 0 else (a, d)
    partner: dict[int, int] = {}
    for axis, n in enumerate(longer.n):
        if len(partner) < shorter.rank and n == shorter.n[len(partner)]:
            partner[axis] = len(partner)
        else:
            fault_unless(n == 1, SHAPE)
    fault_unless(len(partner) == shorter.rank, SHAPE)
    if longer is a:
        partner = {own: axis for axis, own in partner.items()}
    return [partner.get(axis, -1) for axis in range(d.rank)]


def _check(d: Tile, a: Tile, *, d_reaches: bool = False, a_reaches: bool = False) -> list[int]:
    fault_unless(SPACE_NONE not in (d.space, a.space), SPACE)
    fault_unless((d.inside or d_reaches) and (a.inside or a_reaches), BOUNDS)
    fault_unless(d.dtype == a.dtype, TYPE)
    return _pair_axes(d, a)


def _expanded(d: Tile, a: Tile, partners: list[int]) -> Tile:
    """`a` with the axes of `d`: stride 0 where it is broadcast."""
    out = a.copy()
    out.n = list(d.n)
    out.stride = [0 if k < 0 or a.n[k] == 1 else a.stride[k] for k in partners]
    return out


def _cut(tile: Tile, axis: int, low: int, high: int) -> None:
    tile.offset += low * tile.stride[axis]
    tile.n[axis] = high - low


def _existing(tile: Tile, axis: int) -> tuple[int, int]:
    """The part of [0, n) that exists along an axis."""
    n = tile.n[axis]
    if tile.inside:
        return 0, n
    low = min(max(tile.lo[axis], 0), n)
    return low, max(min(tile.hi[axis], n), low)


def dma_copy(d: Tile, a: Tile) -> None:
    """d = a."""
    source = _expanded(d, a, _check(d, a))
    d.raw()[...] = source.raw().copy()


def dma_set(d: Tile, value: Any) -> None:
    """One value everywhere."""
    fault_unless(d.space != SPACE_NONE, SPACE)
    fault_unless(d.inside, BOUNDS)
    d.raw()[...] = scalar_raw(value, d.dtype)


def dma_pad(d: Tile, a: Tile, value: Any) -> None:
    """d = a; what of `a` lies outside becomes `value`."""
    partners = _check(d, a, a_reaches=True)
    to, source = d.copy(), _expanded(d, a, partners)
    there = all(n != 1 or low < high for n, (low, high) in ((a.n[k], _existing(a, k)) for k in range(a.rank)))
    for axis, k in enumerate(partners):
        if k >= 0 and a.n[k] != 1:
            low, high = _existing(a, k)
            _cut(to, axis, low, high)
            _cut(source, axis, low, high)
    elements = source.raw().copy() if there else None
    d.raw()[...] = scalar_raw(value, d.dtype)
    if elements is not None:
        to.raw()[...] = elements


def dma_clip(d: Tile, a: Tile) -> None:
    """d = a; what of `d` lies outside is left out."""
    partners = _check(d, a, d_reaches=True)
    to, source = d.copy(), _expanded(d, a, partners)
    for axis in range(d.rank):
        low, high = _existing(d, axis)
        _cut(to, axis, low, high)
        _cut(source, axis, low, high)
    to.raw()[...] = source.raw().copy()


def atomic_add(d: Tile, a: Tile) -> None:
    """d += a by elements; `a` lies in L1."""
    fault_unless(a.space == SPACE_L1 and d.space != SPACE_NONE, SPACE)
    source = _expanded(d, a, _check(d, a))
    left, right = widen(d.raw(), d.dtype), widen(source.raw(), d.dtype)
    with np.errstate(all="ignore"):
        if d.dtype.is_float:
            total = canonical(left + right)
        else:
            total = (left.astype(np.int64) + right).astype(np.int32)
    d.raw()[...] = narrow(total, d.dtype)
