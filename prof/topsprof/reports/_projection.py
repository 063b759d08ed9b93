"""Which device work was launched inside which range: contiguous slices of the calls of the range's thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from topsprof.reports._kernels import NAME_SQL
from topsprof.reports._launches import CALLS
from topsprof.reports._ranges import RANGE_SQL

if TYPE_CHECKING:
    from topsprof.reports.data import Data

Ints = np.ndarray[Any, np.dtype[np.int64]]

_MEMORY = """
    UNION ALL SELECT process_id, correlation_id, start_ns, end_ns, '' FROM {memcpy}
    UNION ALL SELECT process_id, correlation_id, start_ns, end_ns, '' FROM {memset}
"""


@dataclass(frozen=True)
class Work:
    """Device work in order of (track of its call, begin of its call). A track is a thread of a process."""

    track: Ints
    call_ns: Ints
    start_ns: Ints
    end_ns: Ints
    name: np.ndarray[Any, np.dtype[np.object_]]


@dataclass(frozen=True)
class Ranges:
    """Ranges in order of (track, begin). Their work is `work[first:last]`; there is none without work."""

    work: Work
    first: Ints
    last: Ints
    duration_ns: Ints
    depth: np.ndarray[Any, np.dtype[np.float64]]
    """NaN where unknown"""
    process_id: Ints
    thread_id: Ints
    style: np.ndarray[Any, np.dtype[np.object_]]
    name: np.ndarray[Any, np.dtype[np.object_]]

    @cached_property
    def projection_ns(self) -> Ints:
        """From the begin of the first to the end of the last operation of each range."""
        low = _over_slices(np.minimum, self.work.start_ns, self.first, self.last)
        return _over_slices(np.maximum, self.work.end_ns, self.first, self.last) - low


def ranges_with_work(data: Data, *, kernels_only: bool = False, name_sql: str = NAME_SQL) -> Ranges:
    """The ranges (not the marks) that launched something, and what they launched."""
    launched = data.arrays(f"""
        WITH {CALLS}, work AS (
            SELECT process_id, correlation_id, start_ns, end_ns, {name_sql} AS name FROM {{kernel}} kernel
            {"" if kernels_only else _MEMORY}
        )
        SELECT process_id, coalesce(thread_id, -1) AS thread_id, call_ns,
               work.start_ns, work.end_ns, work.name
        FROM work JOIN calls USING (process_id, correlation_id) ORDER BY process_id, thread_id, call_ns
    """)
    tx = data.arrays(f"""
        SELECT process_id, coalesce(thread_id, -1) AS thread_id, start_ns, end_ns, duration_ns,
               coalesce(depth::DOUBLE, 'nan') AS depth, coalesce(style, '') AS style, {RANGE_SQL} AS name
        FROM {{tx}} WHERE coalesce(style, '') <> 'Mark' AND process_id IS NOT NULL
        ORDER BY process_id, thread_id, start_ns, duration_ns DESC
    """)
    process, thread = (np.concatenate([launched[key], tx[key]]) for key in ("process_id", "thread_id"))
    threads, thread_number = np.unique(thread, return_inverse=True)
    tracks = np.unique(process, return_inverse=True)[1] * len(threads) + thread_number  # in the order of SQL
    split = len(launched["call_ns"])
    columns = (launched[name] for name in ("call_ns", "start_ns", "end_ns", "name"))
    work = Work(tracks[:split], *columns)
    first, last = _slices(work, tracks[split:], tx["start_ns"], tx["end_ns"])
    some = first < last
    names = ("duration_ns", "depth", "process_id", "thread_id", "style", "name")
    return Ranges(work, first[some], last[some], *(tx[name][some] for name in names))


def _slices(work: Work, track: Ints, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    first, last = np.zeros(len(track), np.int64), np.zeros(len(track), np.int64)
    for one in np.unique(track).tolist():
        begin, end = np.searchsorted(work.track, [one, one + 1])
        here = slice(*np.searchsorted(track, [one, one + 1]))
        calls = work.call_ns[begin:end]
        first[here] = begin + np.searchsorted(calls, start_ns[here], "left")
        last[here] = begin + np.searchsorted(calls, end_ns[here], "left")
    return first, last


def _over_slices(operation: np.ufunc, values: Ints, first: Ints, last: Ints) -> Ints:
    """`operation` over each values[first:last]."""
    if not len(first):
        return np.zeros(0, np.int64)
    # reduceat takes pairs of borders: every second result is one of ours. The value more is for borders at
    # the end.
    borders = np.stack([first, last], 1).reshape(-1)
    result: Ints = operation.reduceat(np.append(values, values[-1]), borders)[::2]
    return result


def groups(*keys: np.ndarray[Any, Any]) -> Iterator[tuple[tuple[Any, ...], Ints]]:
    """Each distinct combination of keys, with the indices of its rows."""
    if not len(keys[0]):
        return
    codes = [
        np.unique(key.astype(str) if key.dtype == object else key, return_inverse=True)[1] for key in keys
    ]
    order = np.lexsort(codes[::-1])
    changes = np.zeros(len(order) - 1, bool)
    for code in codes:
        changes |= np.diff(code[order]) != 0
    for indices in np.split(order, np.flatnonzero(changes) + 1):
        yield tuple(key[indices[0]] for key in keys), indices


def _codes(key: np.ndarray[Any, Any]) -> Ints:
    """Small numbers that tell the values apart."""
    import pyarrow as pa

    values = pa.array(key, pa.string() if key.dtype == object else None).dictionary_encode()
    codes: Ints = values.indices.fill_null(-1).to_numpy()
    return codes


def figures(values: Ints) -> tuple[float, float, int, int, float]:
    """Average, median, least, greatest and the sample's standard deviation (0 for one value)."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(np.median(values)), int(values.min()), int(values.max()), deviation
