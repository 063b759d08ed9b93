"""Extents of results: result tiles get them, others are compared. TileFault(SHAPE) where they do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from tops_kit.engine.tiles_twin.checks import SHAPE, aligned, fault_unless
from tops_kit.engine.tiles_twin.tile import Tile


def _give(d: Tile, extents: Sequence[int]) -> None:
    fault_unless(len(extents) <= d.rank, SHAPE)
    full = aligned(extents, d.rank)
    if d.result:
        fault_unless(all(n <= most for n, most in zip(full, d.capacity, strict=True)), SHAPE)
        d.set_extents(full)
    else:
        fault_unless(full == list(d.n), SHAPE)


def joined(shapes: Sequence[Sequence[int]]) -> list[int]:
    """Extents that all of the shapes broadcast to."""
    rank = max(len(shape) for shape in shapes)
    out = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(aligned(shape, rank)):
            if out[axis] == 1:
                out[axis] = n
            else:
                fault_unless(n in (1, out[axis]), SHAPE)
    return out


def broadcast_extents(sources: Sequence[Tile]) -> list[int]:
    """Extents that all sources broadcast to."""
    return joined([source.n for source in sources])


def reduce_extents(a: Tile, axis: int) -> list[int]:
    """Those of `a`, with 1 along the axis."""
    fault_unless(0 <= axis < a.rank, SHAPE)
    return [1 if k == axis else n for k, n in enumerate(a.n)]


def matmul_extents(a: Tile, b: Tile) -> list[int]:
    """Rows of `a` by columns of `b`; a third axis, the first, is a batch, broadcast."""
    fault_unless(2 <= a.rank <= 3 and 2 <= b.rank <= 3 and a.n[-1] == b.n[-2], SHAPE)
    return [*joined([a.n[:-2], b.n[:-2]]), a.n[-2], b.n[-1]]


def gather_extents(a: Tile, b: Tile, axis: int) -> list[int]:
    """Along the axis those of the index tile `b`, else what a and b broadcast to."""
    rank = max(a.rank, b.rank)
    fault_unless(0 <= axis < rank, SHAPE)
    rest, index = aligned(a.n, rank), aligned(b.n, rank)
    rest[axis] = 1
    out = joined([rest, index])
    out[axis] = index[axis]
    return out


def shape_broadcast(d: Tile, sources: Sequence[Tile]) -> None:
    """Extents that all sources broadcast to."""
    _give(d, broadcast_extents(sources))


def shape_same(d: Tile, a: Tile) -> None:
    """The extents of `a`."""
    _give(d, a.n)


def shape_reduce(d: Tile, a: Tile, axis: int) -> None:
    """The extents of `a`, with 1 along the axis."""
    _give(d, reduce_extents(a, axis))


def shape_matmul(d: Tile, a: Tile, b: Tile) -> None:
    """The extents of a matrix product."""
    _give(d, matmul_extents(a, b))


def shape_gather(d: Tile, a: Tile, b: Tile, axis: int) -> None:
    """The extents of a gather."""
    _give(d, gather_extents(a, b, axis))


def shape_extent(d: Tile, extents: Sequence[int]) -> None:
    """Extents of a result tile, as given."""
    fault_unless(d.result and len(extents) == d.rank and all(n >= 0 for n in extents), SHAPE)
    _give(d, extents)


def exactly(d: Tile, extents: Sequence[int]) -> None:
    """Compare, whether d is a result tile or not."""
    fault_unless(len(extents) <= d.rank and aligned(extents, d.rank) == list(d.n), SHAPE)
