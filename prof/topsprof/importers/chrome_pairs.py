"""Begin and end events into ranges, per track, also where some are missing, unordered or named otherwise.

A track is a thread (B and E) or an id (async events). Order is by time, then by place in the file. The
usual case, where everything matches, is done for all tracks at once; a track with anything odd in it goes
through `_careful`, event by event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from topsprof.importers.scan import Bools, Int32s, Int64s


@dataclass
class Pairs:
    """Indices into the events given. `begin[i]` and `end[i]` are one range."""

    begin: Int64s
    end: Int64s
    open_begin: Int64s  # begins that no end belongs to
    lone_end: Int64s  # ends that no begin belongs to
    renamed: int = 0  # ends of another name than the begin they close
    skipped: int = 0  # ranges that an end of an outer range closed: their begins, with that end


@dataclass
class _Found:
    begin: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    open_begin: list[int] = field(default_factory=list)
    lone_end: list[int] = field(default_factory=list)
    renamed: int = 0
    skipped: int = 0


def pair(track: Int64s, ts: Int64s, begins: Bools, name: Int32s) -> Pairs:
    """Match begins (`begins` true) and ends. `name` is an id, -1 where an event has none; events are in
    file order.
    """
    order = np.lexsort((ts, track))  # stable: ties stay in file order
    begins_sorted, track_sorted = begins[order], track[order]
    step = np.where(begins_sorted, 1, -1)
    level = np.cumsum(step)
    first = np.flatnonzero(np.diff(track_sorted, prepend=track_sorted[:1] - 1 if len(track) else 0))
    lengths = np.diff(np.append(first, len(order)))
    before = np.concatenate((np.zeros(1, np.int64), level))[first]
    level = level - np.repeat(before, lengths)
    number = np.repeat(np.arange(len(first)), lengths)  # of the track
    odd = np.zeros(len(first), np.bool_)
    odd[number[level < 0]] = True

    depth = np.where(begins_sorted, level, level + 1)
    by_depth = np.lexsort((depth, number))  # on a track, begins and ends of one depth now alternate
    b = begins_sorted[by_depth]
    follows = np.zeros(len(b), np.bool_)
    if len(b):
        same = (number[by_depth][1:] == number[by_depth][:-1]) & (depth[by_depth][1:] == depth[by_depth][:-1])
        follows[:-1] = same & ~b[1:]
    closed = b & follows
    begin = order[by_depth[closed]]
    end = order[by_depth[np.flatnonzero(closed) + 1]]
    wrong = (name[end] >= 0) & (name[end] != name[begin])
    odd[number[by_depth[np.flatnonzero(closed)[wrong]]]] = True

    if not odd.any():
        return Pairs(begin, end, order[by_depth[b & ~follows]], np.empty(0, np.int64))
    fine = ~odd[number[by_depth]]
    kept = fine[closed]
    found = _Found()
    for one in np.flatnonzero(odd):
        at = order[first[one] : first[one] + lengths[one]]
        _careful(at, ts[at], begins[at], name[at], found)
    return Pairs(
        np.concatenate((begin[kept], np.array(found.begin, np.int64))),
        np.concatenate((end[kept], np.array(found.end, np.int64))),
        np.concatenate((order[by_depth[b & ~follows & fine]], np.array(found.open_begin, np.int64))),
        np.array(found.lone_end, np.int64),
        found.renamed,
        found.skipped,
    )


def _careful(at: Int64s, ts: Int64s, begins: Bools, name: Int32s, found: _Found) -> None:
    """One track, in order of time. Events of one instant: ends of what was open before come first, an end
    closes a begin of the same instant only if it comes after it in the file and has its name (or none).
    """
    stack: list[int] = []
    names = name.tolist()
    is_begin = begins.tolist()
    index = at.tolist()
    bounds = np.flatnonzero(np.diff(ts, prepend=ts[0] - 1)).tolist()
    bounds.append(len(index))
    for low, high in pairwise(bounds):
        group: Sequence[int] = range(low, high)
        if high - low > 1:
            group = _instant(group, is_begin, names, len(stack))
        for i in group:
            if is_begin[i]:
                stack.append(i)
            else:
                _close(stack, i, names, index, found)
    found.open_begin.extend(index[i] for i in stack)


def _instant(group: Sequence[int], is_begin: list[bool], names: list[int], open_before: int) -> list[int]:
    """The events of one instant in the order in which they happened."""
    ends_of_earlier: list[int] = []
    own: list[int] = []  # begins of this instant, each followed by its end if it has no length
    unclosed: list[int] = []
    waiting: list[int] = []  # ends that stand before their begin in the file
    for i in group:
        if is_begin[i]:
            own.append(i)
            end = next((k for k in waiting if names[k] < 0 or names[k] == names[i]), None)
            if end is None:
                unclosed.append(i)
            else:
                waiting.remove(end)
                own.append(end)
            continue
        begin = next((k for k in reversed(unclosed) if names[i] < 0 or names[k] == names[i]), None)
        if begin is not None:
            unclosed.remove(begin)
            own.append(i)
        elif len(ends_of_earlier) < open_before:
            ends_of_earlier.append(i)
        else:
            waiting.append(i)
    return ends_of_earlier + own + waiting


def _close(stack: list[int], i: int, names: list[int], index: list[int], found: _Found) -> None:
    if not stack:
        found.lone_end.append(index[i])
        return
    depth = len(stack) - 1
    if names[i] >= 0 and names[stack[depth]] != names[i]:
        while depth >= 0 and names[stack[depth]] != names[i]:
            depth -= 1
        if depth < 0:  # open under no name like this: it ends the innermost one
            depth = len(stack) - 1
            found.renamed += 1
    while len(stack) > depth + 1:  # begins inside it that have no end: they end with it
        found.begin.append(index[stack.pop()])
        found.end.append(index[i])
        found.skipped += 1
    found.begin.append(index[stack.pop()])
    found.end.append(index[i])


def track_numbers(*columns: Int64s) -> Int64s:
    """A small number for each combination of the columns' values in a row; equal for equal ones."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values = np.array(distinct(column), np.int64)
        number = number * len(values) + np.searchsorted(values, column)
    return number


def distinct(values: Int64s) -> list[int]:
    """The distinct values, sorted. Quick where equal values stand together."""
    if not len(values):
        return []
    heads = values[np.flatnonzero(np.diff(values, prepend=~values[:1]))]
    return [int(value) for value in np.unique(heads)]
