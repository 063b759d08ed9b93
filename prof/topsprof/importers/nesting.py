"""Slices of one thread nest in truth; in a trace, rounding makes some of them overlap by some nanoseconds.

A tracer that rounds begin and length apart from each other lets a slice end a little after its successor
begins, or after the end of the one around it. Drawn as they are, such slices would not fit into one lane.
Their overlap is cut off (and counted): at most ROUNDING_NS, never where slices overlap by more, which then
is what really happened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topsprof.importers.scan import Int64s, nest_sorted

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
    step = np.diff(track)
    if ((step > 0) | ((step == 0) & (np.diff(start) > 0))).all():
        order = None
        sorted_track, sorted_start = np.ascontiguousarray(track), np.ascontiguousarray(start)
        end = start + duration
    else:
        order = np.lexsort((-duration, start, track))
        sorted_track, sorted_start = track[order], start[order]
        end = sorted_start + duration[order]
    ends, trimmed, overlapping = nest_sorted(sorted_track, sorted_start, end, ROUNDING_NS if trim else 0)
    if not trimmed:
        return Nested(duration, 0, overlapping)
    if order is None:
        return Nested(ends - start, trimmed, overlapping)
    out = np.empty(n, np.int64)
    out[order] = ends - sorted_start
    return Nested(out, trimmed, overlapping)
