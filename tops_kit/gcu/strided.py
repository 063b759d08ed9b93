"""Bytes of memory in rows of equal length at regular distances, as the views of an array have them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_MOST_ROWS = 1 << 16  # that are looked at one by one


class Rows(NamedTuple):
    """Rows of `run_bytes`, at `axes`: pairs of (distance in bytes, how many), distances growing."""

    run_bytes: int
    axes: tuple[tuple[int, int], ...]

    @property
    def number(self) -> int:
        """How many rows."""
        out = 1
        for _, extent in self.axes:
            out *= extent
        return out


class Bytes(NamedTuple):
    """Bytes from `begin` to `end`: all of them, or only `rows`, the first of which begins at `begin`."""

    begin: int
    end: int
    rows: Rows | None = None


class Undecided(Exception):  # noqa: N818 - nothing went wrong
    """Whether bytes meet: there are too many rows to look at."""


def bytes_of(address: int, shape: Sequence[int], strides: Sequence[int], size_bytes: int) -> Bytes:
    """Which bytes the elements of a view lie in; `strides` in bytes, `size_bytes` of an element."""
    if 0 in shape:
        return Bytes(address, address)
    steps: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent > 1 and stride:
            if stride < 0:
                address += stride * (extent - 1)
            steps.append((abs(stride), extent))
    steps.sort()
    run = size_bytes
    axes: list[tuple[int, int]] = []
    for stride, extent in steps:
        if not axes and stride <= run:
            run += stride * (extent - 1)
        elif axes and stride == axes[-1][0] * axes[-1][1]:
            axes[-1] = axes[-1][0], axes[-1][1] * extent
        else:
            axes.append((stride, extent))
    end = address + run + sum(stride * (extent - 1) for stride, extent in axes)
    return Bytes(address, end, Rows(run, tuple(axes)) if axes else None)


def meeting(a: Bytes, b: Bytes) -> tuple[int, int] | None:
    """The first bytes (begin, end) that both have; None: there are none. Raises Undecided."""
    begin, end = max(a.begin, b.begin), min(a.end, b.end)
    if begin >= end:
        return None
    if a.rows is None and b.rows is None:
        return begin, end
    if a.begin == b.begin and (a.rows is None or b.rows is None or a.rows == b.rows):
        runs = [end - begin, *(each.rows.run_bytes for each in (a, b) if each.rows is not None)]
        return begin, begin + min(runs)
    if a.rows is not None and b.rows is not None and len(a.rows.axes) == len(b.rows.axes) == 1:
        (step, extent_a), (other, extent_b) = a.rows.axes[0], b.rows.axes[0]
        if step == other:
            return _of_one_distance(a, b, step, extent_a, extent_b)
    return _row_by_row(a, b)


def _of_one_distance(a: Bytes, b: Bytes, step: int, extent_a: int, extent_b: int) -> tuple[int, int] | None:
    """As `meeting`, of rows at the same distance: only the next ones of the other can meet a row."""
    assert a.rows is not None and b.rows is not None
    run_a, run_b = a.rows.run_bytes, b.rows.run_bytes
    # row i + k of a meets row i of b: those with |k * step - apart| small enough
    apart = b.begin - a.begin
    low = max((apart - run_a) // step + 1, 1 - extent_b)  # k * step > apart - run_a
    high = min(-((-apart - run_b) // step) - 1, extent_a - 1)  # k * step < apart + run_b
    if low > high:
        return None
    row = max(0, -low)  # of b
    at_a, at_b = a.begin + (row + low) * step, b.begin + row * step
    return max(at_a, at_b), min(at_a + run_a, at_b + run_b)


def _row_by_row(a: Bytes, b: Bytes) -> tuple[int, int] | None:
    begins_a, run_a = _begins(a)
    begins_b, run_b = _begins(b)
    if len(begins_a) > len(begins_b):
        begins_a, run_a, begins_b, run_b = begins_b, run_b, begins_a, run_a
    # for each row of the one, the first of the other that ends behind its beginning
    first = np.searchsorted(begins_b, begins_a - run_b, side="right")
    there = first < len(begins_b)
    near = begins_b[np.minimum(first, len(begins_b) - 1)]
    hits = np.flatnonzero(there & (near < begins_a + run_a))
    if not len(hits):
        return None
    at_a, at_b = int(begins_a[hits[0]]), int(near[hits[0]])
    return max(at_a, at_b), min(at_a + run_a, at_b + run_b)


def _begins(of: Bytes) -> tuple[npt.NDArray[np.int64], int]:
    if of.rows is None:
        return np.array([of.begin], np.int64), of.end - of.begin
    if of.rows.number > _MOST_ROWS:
        raise Undecided
    return _offsets(of.rows.axes) + of.begin, of.rows.run_bytes


@lru_cache(maxsize=16)
def _offsets(axes: tuple[tuple[int, int], ...]) -> npt.NDArray[np.int64]:
    """Where rows begin, from the first of them on."""
    out = np.zeros(1, np.int64)
    for stride, extent in axes:
        out = (np.arange(extent, dtype=np.int64)[:, None] * stride + out).reshape(-1)
    out.sort()
    return out
