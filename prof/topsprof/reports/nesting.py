"""Depth, parent and own time of nested intervals, all at once with numpy.

Intervals of a track nest when each pair is disjoint or one contains the other. Where they merely overlap the
results are
defined (an interval's parent is the last one, one level up, that began before it) but an own time is cut at
0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Nesting:
    """Per interval, in the order in which `nest` was given them. `parent` is an index, -1 at depth 0."""

    depth: Ints
    parent: Ints
    child_ns: Ints
    """time of the direct children, together"""
    child_count: Ints


def nest(track: Ints, start_ns: Ints, duration_ns: Ints) -> Nesting:
    """How the intervals of each track nest. All three arrays have one element per interval."""
    count = len(start_ns)
    order = np.lexsort((-duration_ns, start_ns, track))
    tracks = track[order]
    # in half ns, so that what has no length lasts half a ns and does not count itself as ended
    starts = start_ns[order] * 2
    ends = start_ns * 2 + np.maximum(duration_ns * 2, 1)
    ends = ends[np.lexsort((ends, track))]
    # depth = intervals of the track that began before, less those of them that have ended (all that ended,
    # began before)
    depth = np.empty(count, np.int64)
    cuts = np.flatnonzero(np.diff(tracks)) + 1
    for low, high in zip((0, *cuts), (*cuts, count), strict=True):
        ended = np.searchsorted(ends[low:high], starts[low:high], "right")
        depth[low:high] = np.arange(high - low) - ended
    parent_sorted = _parents(tracks, depth)
    parent = np.full(count, -1, np.int64)
    has = parent_sorted >= 0
    parent[order[has]] = order[parent_sorted[has]]
    depths = np.empty(count, np.int64)
    depths[order] = depth
    inner = parent >= 0
    child_ns = np.zeros(count, np.int64)
    np.add.at(child_ns, parent[inner], duration_ns[inner])
    child_count = np.bincount(parent[inner], minlength=count).astype(np.int64)
    return Nesting(depths, parent, child_ns, child_count)


def _parents(tracks: Ints, depth: Ints) -> Ints:
    """Index of the last interval before each one that is one level up on its track; -1 at depth 0. Sorted
    order."""
    count = len(depth)
    index = np.arange(count)
    order = np.lexsort((index, depth))  # level by level: one search for all, however many levels there are
    keys = depth[order] * count + index[order]
    place = np.searchsorted(keys, (depth - 1) * count + index) - 1
    found = order[np.maximum(place, 0)]
    good = (place >= 0) & (depth[found] == depth - 1) & (tracks[found] == tracks)
    return np.where(good, found, -1)
