"""What tile operations check first, in the order of the C library: spaces, reach, types, extents, values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tops_kit.engine.tiles_twin.numbers import Array, narrow, widen
from tops_kit.engine.tiles_twin.tile import SPACE_L1, Tile, TileFault
from tops_kit.isa.faults import BY_NAME

BOUNDS, SHAPE, DIVIDE, GATHER, SPACE, TYPE, INDEX, VIEW = (
    BY_NAME[name].number for name in ("bounds", "shape", "divide", "gather", "space", "type", "index", "view")
)


def fault_unless(condition: object, number: int) -> None:
    """Raise TileFault(number) where the condition is false."""
    if not condition:
        raise TileFault(number)


def check_l1(*tiles: Tile) -> None:
    """All operands lie in L1, and none reaches outside."""
    fault_unless(all(tile.space == SPACE_L1 for tile in tiles), SPACE)
    fault_unless(all(tile.inside for tile in tiles), BOUNDS)


def is_index(tile: Tile) -> bool:
    """Whether its elements can be indices."""
    return tile.dtype.is_int


def aligned(extents: Sequence[int], rank: int) -> list[int]:
    """Extents with leading 1s up to `rank` axes."""
    return [1] * (rank - len(extents)) + list(extents)


def broadcast_raw(tile: Tile, extents: Sequence[int]) -> Array:
    """Raw elements of a source, broadcast as numpy does to the destination's extents; else FAULT_SHAPE."""
    own = tile.n
    extra = len(own) - len(extents)
    if extra > 0:
        fault_unless(all(n == 1 for n in own[:extra]), SHAPE)
    for n, to in zip(aligned(own, len(extents))[max(extra, 0) :], extents, strict=True):
        fault_unless(n in (1, to), SHAPE)
    raw = tile.raw()
    if extra > 0:
        raw = raw.reshape(own[extra:])
    return np.broadcast_to(raw, tuple(extents))


def broadcast_values(tile: Tile, extents: Sequence[int]) -> Array:
    """As broadcast_raw, widened to float32 or int32."""
    return widen(broadcast_raw(tile, extents), tile.dtype)


def write(d: Tile, values: Array) -> None:
    """Narrow and store float32 or int32 values of d's extents."""
    d.raw()[...] = narrow(values, d.dtype)
