"""Views: the instructions that make one tile register from another. The rules stand in engine/views.h."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tops_kit.engine.oracle.trap import INDEX, SPACE, VIEW, Trap, shapes_trap
from tops_kit.engine.tiles_twin import Tile
from tops_kit.engine.tiles_twin.tile import SPACE_NONE

MAX_EXTENT = (1 << 31) - 1


def extent(a: Tile, axis: int) -> int:
    """The extent of an axis. Trap: the register holds no view, or one without that axis."""
    _check_axis(a, axis)
    return a.n[axis]


def index(a: Tile, axis: int, at: int) -> Tile:
    """`a` with one axis fixed; it disappears."""
    _check_axis(a, axis)
    if not a.lo[axis] <= at < a.hi[axis]:
        raise Trap(INDEX, a, (axis, at, a.lo[axis], a.hi[axis]))
    d = _derived(a)
    d.offset += at * a.stride[axis]
    for of_axis in (d.n, d.stride, d.lo, d.hi):
        del of_axis[axis]
    _set_inside(d)
    return d


def part(a: Tile, axis: int, start: int, stop: int) -> Tile:
    """[start, stop) of one axis, which lies within it."""
    _check_axis(a, axis)
    if not 0 <= start <= stop <= a.n[axis]:
        raise Trap(VIEW, a, (axis, start, stop, a.n[axis]))
    return _moved(a, axis, start, stop - start)


def over(a: Tile, axis: int, start: int, stop: int) -> Tile:
    """[start, stop) of one axis, which may reach outside."""
    _check_axis(a, axis)
    count = stop - start
    if not 0 <= count <= MAX_EXTENT:
        raise Trap(VIEW, a, (axis, start, stop, a.n[axis]))
    return _moved(a, axis, start, count)


def stepped(a: Tile, axis: int, step: int) -> Tile:
    """Every step-th element of an axis that lies within its array."""
    _check_axis(a, axis)
    if step < 1 or (a.lo[axis], a.hi[axis]) != (0, a.n[axis]):
        raise Trap(VIEW, a, (axis, 0, step, a.n[axis]))
    d = _derived(a)
    d.n[axis] = d.hi[axis] = -(-a.n[axis] // step)
    d.stride[axis] *= step
    return d


def permuted(a: Tile, order: int) -> Tile:
    """The axes in another order, three bits an axis."""
    _check(a)
    axes = [order >> (3 * k) & 7 for k in range(a.rank)]
    if sorted(axes) != list(range(a.rank)):
        raise Trap(VIEW, a, (order, 0, 0, a.rank))
    d = _derived(a)
    d.n, d.stride, d.lo, d.hi = ([old[k] for k in axes] for old in (a.n, a.stride, a.lo, a.hi))
    return d


def reshaped(a: Tile, extents: Sequence[int]) -> Tile:
    """The elements of a dense view with other extents; of any view where only extents of 1 come and go."""
    _check(a)
    if not a.inside:
        raise Trap(VIEW, a)
    if not all(n >= 0 for n in extents) or math.prod(extents) != math.prod(a.n):
        raise shapes_trap(a, extents)
    size = a.dtype.size_bytes
    if dense(a):
        strides = [size * math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
    elif [n for n in extents if n != 1] == [n for n in a.n if n != 1]:
        kept = iter([stride for n, stride in zip(a.n, a.stride, strict=True) if n != 1])
        strides = [size if n == 1 else next(kept) for n in extents]
    else:
        raise shapes_trap(a, extents)
    d = _derived(a)
    d.n, d.lo, d.hi, d.stride = list(extents), [0] * len(extents), list(extents), strides
    return d


def dense(a: Tile) -> bool:
    """Whether the elements lie one behind another, the last axis fastest."""
    if 0 in a.n:
        return True
    step = a.dtype.size_bytes
    for n, stride in zip(reversed(a.n), reversed(a.stride), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def _check(a: Tile) -> None:
    if a.space == SPACE_NONE:
        raise Trap(SPACE)


def _check_axis(a: Tile, axis: int) -> None:
    _check(a)
    if axis >= a.rank:
        raise Trap(VIEW, a, (axis, 0, 0, -1))


def _derived(a: Tile) -> Tile:
    d = a.copy()
    d.result = False
    return d


def _moved(a: Tile, axis: int, start: int, count: int) -> Tile:
    d = _derived(a)
    d.offset += start * a.stride[axis]
    d.lo[axis] = min(max(a.lo[axis] - start, 0), count)
    d.hi[axis] = min(max(a.hi[axis] - start, 0), count)
    d.n[axis] = count
    _set_inside(d)
    return d


def _set_inside(d: Tile) -> None:
    d.inside = all(lo == 0 and hi == n for lo, hi, n in zip(d.lo, d.hi, d.n, strict=True))
