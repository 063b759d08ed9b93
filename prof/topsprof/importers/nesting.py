"""Slices of one thread nest in truth; in a trace, rounding makes some of them overlap by some nanoseconds.

A tracer that rounds begin and length apart from each other lets a slice end a little after its successor
begins. Drawn as they are, such neighbours would not fit into one lane. Their overlap is cut off the earlier
one (and counted): at most ROUNDING_NS, and never where slices overlap by more, which then is what really
happened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topsprof.importers.scan import Int64s, overlaps

ROUNDING_NS = 40


class Nested(NamedTuple):
    """Durations after trimming; how many were trimmed; how many slices still overlap without nesting."""

    duration: Int64s
    trimmed: int
    overlapping: int


def nest(track: Int64s, start: Int64s, duration: Int64s, *, trim: bool) -> Nested:
    """`track` are small numbers from 0 on. Without `trim` nothing is cut, only counted."""
    n = len(start)
    if n < 2:
        return Nested(duration, 0, 0)
    low = int(start.min())
    span = int(start.max()) - low + 1
    if span > (1 << 62) // (int(track.max()) + 1):
        order = np.lexsort((-duration, start, track))
        return Nested(duration, 0, overlaps(track[order], start[order], start[order] + duration[order]))
    key = track * span + (start - low)
    order = np.arange(n) if (np.diff(key) > 0).all() else np.lexsort((-duration, key))
    key, first, length = key[order], start[order], duration[order]
    last = first + length
    trimmed = 0
    if trim:
        # the first slice that begins within the last ROUNDING_NS of each one
        window = np.maximum(key + 1, key + length - ROUNDING_NS)
        index = np.searchsorted(key, window)
        there = index < n
        index = np.minimum(index, n - 1)
        cut = there & (track[order][index] == track[order]) & (first[index] < last) & (last[index] > last)
        trimmed = int(cut.sum())
        if trimmed:
            last = np.where(cut, first[index], last)
            duration = duration.copy()
            duration[order[cut]] = (last - first)[cut]
            again = np.lexsort((-(last - first), key))
            first, last, order = first[again], last[again], order[again]
    return Nested(
        duration,
        trimmed,
        overlaps(np.ascontiguousarray(track[order]), np.ascontiguousarray(first), np.ascontiguousarray(last)),
    )
