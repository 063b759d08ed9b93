"""Pairs begins and ends of slices: by columns, however deep they nest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of the events that were given: matched ones side by side, begins still open, ends that nothing
    began."""

    begin: Int64s
    end: Int64s
    open: Int64s
    unmatched: Int64s


def pair(track: npt.NDArray[np.generic], time_ns: Int64s, is_begin: npt.NDArray[np.bool_]) -> Pairs:
    """Match each end with the latest open begin of its track. Events of equal time keep their order."""
    _, number = np.unique(track, return_inverse=True)
    order = np.lexsort((time_ns, number))
    number, step = number[order], np.where(is_begin[order], 1, -1)
    stray = _stray(number, step)
    unmatched = order[stray]
    order, number, step = order[~stray], number[~stray], step[~stray]
    # Without strays a running sum per track is the depth, and begins and ends of one depth take turns.
    depth = np.cumsum(step)
    first = np.flatnonzero(np.diff(number, prepend=-1))
    before = np.concatenate(([0], depth))[first]
    depth = depth - np.repeat(before, np.diff(np.append(first, len(number)))) + (step < 0)
    turn = np.lexsort((depth, number))
    number, depth, order, step = number[turn], depth[turn], order[turn], step[turn]
    left = np.flatnonzero(step[:-1] > 0) if len(step) else np.empty(0, np.int64)
    left = left[(step[left + 1] < 0) & (number[left + 1] == number[left]) & (depth[left + 1] == depth[left])]
    matched = np.zeros(len(step), bool)
    matched[left] = matched[left + 1] = True
    return Pairs(order[left], order[left + 1], np.sort(order[~matched]), np.sort(unmatched))


def _stray(number: Int64s, step: Int64s) -> npt.NDArray[np.bool_]:
    """Ends that come when nothing of their track is open: each takes the track's running sum to a new low."""
    n = len(step)
    if not n:
        return np.empty(0, bool)
    total = np.cumsum(step)
    first = np.flatnonzero(np.diff(number, prepend=-1))
    sizes = np.diff(np.append(first, n))
    before = np.concatenate(([0], total))[first]
    floor = -number * (n + 1)  # lower for every track, so that one running minimum serves them all
    level = total - np.repeat(before, sizes) + floor
    low = np.minimum.accumulate(np.minimum(level, floor))
    earlier = np.concatenate(([0], low[:-1]))
    stray: npt.NDArray[np.bool_] = level < np.minimum(earlier, floor)
    return stray
