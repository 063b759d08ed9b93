"""Faults inside the oracle: what cannot be done raises a Trap, which becomes the launch's fault."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tops_kit.engine.tiles_twin import Tile, TileFault
from tops_kit.engine.tiles_twin.checks import aligned
from tops_kit.engine.tiles_twin.tile import SPACE_L1, SPACE_NONE
from tops_kit.isa.dtypes import VECTOR_BYTES
from tops_kit.isa.faults import BY_NAME

SLOT, VIEW, BOUNDS, INDEX, SHAPE, GATHER, DIVIDE, ASSERT, SPACE, TYPE, EVENT, BARRIER, TIMEOUT = (
    BY_NAME[name].number
    for name in (
        "slot", "view", "bounds", "index", "shape", "gather", "divide", "assert", "space", "type", "event",
        "barrier", "timeout",
    )
)  # fmt: skip

Values = tuple[int, int, int, int]
Shape = tuple[int, ...] | None


class Trap(Exception):  # noqa: N818 - a fault of the kernel, not an error of the oracle
    """What is wrong, in the numbers of outcome.Fault. `pc`: where it is not the instruction that runs."""

    def __init__(
        self,
        kind: int,
        view: Tile | None = None,
        values: Sequence[int] = (),
        shapes: tuple[Shape, Shape] = (None, None),
        pc: int | None = None,
    ) -> None:
        super().__init__(f"fault {kind}")
        self.kind = kind
        self.object = view.object if view is not None and view.space != SPACE_NONE else -1
        self.space = view.space if view is not None else SPACE_NONE
        first, second, third, fourth = [*values, 0, 0, 0, 0][:4]
        self.values: Values = (first, second, third, fourth)
        self.shapes = shapes
        self.pc = pc


def shapes_trap(view: Tile, extents: Sequence[int]) -> Trap:
    """The fault of extents that do not fit a view."""
    return Trap(SHAPE, view, shapes=(tuple(view.n), tuple(extents)))


def tiles_trap(fault: TileFault, views: Sequence[Tile | None], pc: int | None = None) -> Trap:
    """The fault of a tile operation, with what can be told of it from its views: the written one first."""
    kind = fault.number
    d, a, b = [*views, None, None, None][:3]
    concerned = _concerned(kind, (d, a, b)) or d or a
    if kind == SHAPE:
        return Trap(kind, concerned, shapes=(_extents(d), _extents(a)), pc=pc)
    if kind == TYPE:
        return Trap(kind, concerned, [-1 if x is None else x.dtype.code for x in (d, a, b)], pc=pc)
    if kind == BOUNDS and concerned is not None:
        for axis, extent in enumerate(concerned.n):
            if (concerned.lo[axis], concerned.hi[axis]) != (0, extent):
                return Trap(kind, concerned, (axis, concerned.lo[axis], concerned.hi[axis], extent), pc=pc)
    return Trap(kind, concerned, pc=pc)


def sources_trap(fault: TileFault, how: str, views: Sequence[Tile]) -> Trap:
    """As `tiles_trap`, of an operation of tiles: with the two extents that don't fit.

    `how` the sources go together is "alike", "product" or "indexed". The extents are of two sources, then the
    first value is 1, or else of what is written (what its buffer holds, where it is a result) and of what it
    should take.
    """
    trap = tiles_trap(fault, views)
    d, *sources = views
    if trap.kind != SHAPE or not sources:
        return trap
    for a, b in itertools.combinations([tuple(source.n) for source in sources], 2):
        if not _fit(how, a, b):
            trap.values = (1, 0, 0, 0)
            trap.shapes = (a, b)
            return trap
    trap.shapes = (
        tuple(d.capacity) if d.result else tuple(d.n),
        _result(how, [source.n for source in sources]),
    )
    return trap


def _fit(how: str, a: Sequence[int], b: Sequence[int]) -> bool:
    if how == "indexed":  # both are needed to see what is wrong
        return False
    if how == "product":
        return len(a) >= 2 and len(b) >= 2 and a[-1] == b[-2]
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def _result(how: str, sources: Sequence[Sequence[int]]) -> Shape:
    """The extents that a result should take."""
    out = list(sources[0])
    if how == "product":
        out[-1] = sources[1][-1]
    elif how == "alike":
        for n in sources[1:]:
            rank = max(len(out), len(n))
            pairs = zip(aligned(out, rank), aligned(n, rank), strict=True)
            out = [x if x != 1 else y for x, y in pairs]
    return tuple(out)


def vector_trap(fault: TileFault, view: Tile, i: int) -> Trap:
    """The fault of a vector from element i of a view, or to there."""
    if fault.number != INDEX:
        return tiles_trap(fault, [view])
    return Trap(INDEX, view, (-1, i, i + VECTOR_BYTES // view.dtype.size_bytes, prod(view.n)))


def index_trap(tiles: Mapping[str, Tile], target: Tile, axis: int) -> Trap:
    """The fault of a gather or scatter: the first of the indices `b` outside of the target's axis."""
    index = tiles["b"]
    along = axis + target.rank - max(index.rank, tiles["a"].rank)
    extent = 1 if along < 0 else target.n[along]
    values = index.values().ravel()
    place = int(np.flatnonzero((values < 0) | (values >= extent))[0])
    return Trap(GATHER, tiles["d"], (int(values[place]), place, axis, extent), (tuple(index.n), None))


def _concerned(kind: int, views: Sequence[Tile | None]) -> Tile | None:
    for view in views:
        if view is None:
            continue
        if kind == SPACE and view.space != SPACE_L1:
            return view
        if kind == BOUNDS and not view.inside:
            return view
    return None


def _extents(view: Tile | None) -> Shape:
    return None if view is None else tuple(view.n)
