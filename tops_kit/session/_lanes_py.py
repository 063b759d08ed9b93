"""The twin of _lanes.c in numpy: the same functions with the same results, for machines without a compiler.

Properly nested tracks are done without a loop over events; tracks with events that overlap take the plain
algorithm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_MAX = np.iinfo(np.int64).max
_MANY_DEPTHS = 64


def lane_order(  # noqa: PLR0917 - as the C function
    track: Array,
    tracks: int,
    start: Array,
    duration: Array,
    recorded: Array | None,
    order: Array,
    depth: Array,
) -> None:
    """See _lanes.c."""
    # Descending durations by complement: the negative of the smallest int64 is itself.
    rows = np.lexsort((~duration, start, track))
    bounds = np.searchsorted(track[rows], np.arange(tracks + 1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if first == last:
            continue
        of_track = rows[first:last]
        begins = start[of_track]
        lengths = np.maximum(duration[of_track], 0)
        with np.errstate(over="ignore"):
            ends = begins + lengths
        ends[ends < begins] = _MAX
        base = None if recorded is None else np.maximum(recorded[of_track], 0).astype(np.int64)
        depths = _nested(begins, ends, base)
        if depths is None:
            depths = _first_fit(begins, ends, base)
        by_depth = np.argsort(depths, kind="stable")
        order[first:last] = of_track[by_depth]
        depth[first:last] = depths[by_depth]


def _nested(start: Array, end: Array, base: Array | None) -> Array | None:
    """The depths of a track whose events nest, or lie at the depths recorded for them; None when they do
    neither.
    """
    if base is None or not base.any():
        guess = _open_before(start, end)
        if _fits(start, end, guess, nested=True):
            return guess
        return None
    return base if _fits(start, end, base, nested=False) else None


def _open_before(start: Array, end: Array) -> Array:
    """How many earlier events each begins within, were they to nest."""
    position = np.arange(len(start))
    closed = np.searchsorted(np.sort(end), start, side="right")
    # Events without length that begin here, at or after this one in order, count as closed but are not
    # earlier.
    empty = np.concatenate(([0], np.cumsum(end == start)))
    same = np.searchsorted(start, start, side="right")
    result: Array = position - (closed - (empty[same] - empty[position]))
    return result


def _fits(start: Array, end: Array, depths: Array, *, nested: bool) -> bool:
    """Whether first fit would choose just these depths."""
    if len(depths) == 0:
        return True
    if depths.min() < 0 or depths.max() >= _MANY_DEPTHS or len(np.unique(depths)) > _MANY_DEPTHS:
        return False
    position = np.arange(len(start))
    reach = np.maximum(end, np.where(start < _MAX, start + (start < _MAX), _MAX))
    for depth in np.unique(depths).tolist():
        here = np.flatnonzero(depths == depth)
        if (start[here[1:]] < end[here[:-1]]).any():
            return False  # two of one lane overlap
        before = np.searchsorted(here, position) - 1  # the lane's last event before each
        last_end = np.where(before >= 0, end[here[np.maximum(before, 0)]], np.iinfo(np.int64).min)
        if ((depths < depth) & (last_end >= reach) & (start < _MAX)).any():
            return False  # a deeper event encloses a shallower one
        if nested:
            children = depths == depth + 1
            if (children & ((last_end < reach) | (start == _MAX))).any():
                return False  # a depth that no enclosing event asks for
    return True


def _first_fit(start: Array, end: Array, base: Array | None) -> Array:
    """The plain algorithm, event by event."""
    ends: list[int] = []
    result: list[int] = []
    bases = [0] * len(start) if base is None else base.tolist()
    for begin, finish, least in zip(start.tolist(), end.tolist(), bases, strict=True):
        while ends and ends[-1] <= begin:
            ends.pop()  # free at the bottom: as if never used
        reach = max(finish, begin + 1)
        depth = (
            next((d + 1 for d in range(len(ends) - 1, -1, -1) if ends[d] >= reach), 0) if begin < _MAX else 0
        )
        depth = max(depth, least)
        while depth < len(ends) and ends[depth] > begin:
            depth += 1
        ends.extend([-(1 << 64)] * (depth + 1 - len(ends)))
        ends[depth] = finish
        result.append(depth)
    return np.array(result, np.int64)


def scatter(codes: Array, values: Array, counts: Array, out: Array) -> None:
    """See _lanes.c."""
    if not np.array_equal(np.bincount(codes, minlength=len(counts)), counts):
        raise ValueError("the counts are not those of the codes")
    # numpy sorts 16-bit numbers by radix, so wider codes take two such sorts.
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    if len(counts) > 1 << 16:
        order = order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")]
    out[:] = values[order]


def pyramid(  # noqa: PLR0917 - as the C function
    bounds: Array,
    start: Array,
    end: Array,
    name: Array,
    names: int,
    first_shift: int,
    last_shift: int,
    least: int,
    first_percent: int,
    percent: int,
) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
    """See _lanes.c."""
    runs: list[tuple[Array, ...]] = []
    levels: list[tuple[int, int, int, int]] = []
    rows = 0
    for lane in range(len(bounds) - 1):
        first, last = int(bounds[lane]), int(bounds[lane + 1])
        if last - first < least:
            continue
        length = end[first:last] - start[first:last]
        below: tuple[Array, ...] = (
            start[first:last],
            end[first:last],
            name[first:last],
            np.ones(last - first, np.int64),
            length,
            length,
            length,
        )
        on_top = False
        for shift in range(first_shift, last_shift + 1, 2):
            count = len(below[0])
            if count < least:
                break
            heads = _run_heads(below[0], below[1], shift)
            if len(heads) * 100 > count * (percent if on_top else first_percent):
                continue
            on_top = True
            below = _merge(below, heads)
            runs.append(below[:6])
            levels.append((lane, shift, rows, len(heads)))
            rows += len(heads)
    columns = [
        np.concatenate([run[i] for run in runs]) if runs else np.zeros(0, np.int32 if i == 2 else np.int64)
        for i in range(6)
    ]
    return (*columns, np.array(levels, np.int64).reshape(-1, 4))  # type: ignore[return-value]


def _run_heads(start: Array, end: Array, shift: int) -> Array:
    small = (end - start).view(np.uint64) < np.uint64(1 << shift)
    bucket = start >> shift
    head = np.ones(len(start), bool)
    head[1:] = (bucket[1:] != bucket[:-1]) | ~(small[1:] & small[:-1])
    return np.flatnonzero(head)


def _merge(below: tuple[Array, ...], heads: Array) -> tuple[Array, ...]:
    start, end, name, count, busy, longest, name_time = below
    last = np.append(heads[1:], len(start)) - 1
    sizes = last - heads + 1
    run = np.repeat(np.arange(len(heads)), sizes)
    # Time of each name in each run; then the busiest, of equals the one that comes first.
    by_name = np.lexsort((name, run))
    new = np.ones(len(name), bool)
    new[1:] = (run[by_name][1:] != run[by_name][:-1]) | (name[by_name][1:] != name[by_name][:-1])
    groups = np.flatnonzero(new)
    time = np.add.reduceat(name_time[by_name], groups)
    group_run, group_first = run[by_name][groups], by_name[groups]
    best = np.lexsort((group_first, -time, group_run))
    lead = np.ones(len(best), bool)
    lead[1:] = group_run[best][1:] != group_run[best][:-1]
    chosen = best[lead]
    return (
        start[heads],
        end[last],
        name[group_first[chosen]],
        np.add.reduceat(count, heads),
        np.add.reduceat(busy, heads),
        np.maximum.reduceat(longest, heads),
        time[chosen],
    )
