"""Which device work was launched inside which range: contiguous slices of the calls of the range's thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from topsprof.reports._kernels import NAME_SQL
from topsprof.reports._launches import CALLS
from topsprof.reports._ranges import RANGE_SQL

if TYPE_CHECKING:
    import pyarrow as pa

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
    name: Ints
    names: Sequence[str | None]
    """the words of the codes in `name`"""


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
    style: Ints
    styles: Sequence[str | None]
    name: Ints
    names: Sequence[str | None]

    @cached_property
    def projection_ns(self) -> Ints:
        """From the begin of the first to the end of the last operation of each range."""
        low = _over_slices(np.minimum, self.work.start_ns, self.first, self.last)
        return _over_slices(np.maximum, self.work.end_ns, self.first, self.last) - low


def ranges_with_work(data: Data, *, kernels_only: bool = False, name_sql: str = NAME_SQL) -> Ranges:
    """The ranges (not the marks) that launched something, and what they launched."""
    launched = data.arrow(f"""
        WITH {CALLS}, work AS (
            SELECT process_id, correlation_id, start_ns, end_ns, {name_sql} AS name FROM {{kernel}} kernel
            {"" if kernels_only else _MEMORY}
        )
        SELECT process_id, coalesce(thread_id, -1) AS thread_id, call_ns,
               work.start_ns, work.end_ns, work.name
        FROM work JOIN calls USING (process_id, correlation_id) ORDER BY process_id, thread_id, call_ns
    """)
    tx = data.arrow(f"""
        SELECT process_id, coalesce(thread_id, -1) AS thread_id, start_ns, end_ns, duration_ns,
               coalesce(depth::DOUBLE, 'nan') AS depth, coalesce(style, '') AS style, {RANGE_SQL} AS name
        FROM {{tx}} WHERE coalesce(style, '') <> 'Mark' AND process_id IS NOT NULL
        ORDER BY process_id, thread_id, start_ns, duration_ns DESC
    """)
    process, thread = (
        np.concatenate([_numbers(launched, key), _numbers(tx, key)]) for key in ("process_id", "thread_id")
    )
    threads, thread_number = np.unique(thread, return_inverse=True)
    tracks = np.unique(process, return_inverse=True)[1] * len(threads) + thread_number  # in the order of SQL
    split = launched.num_rows
    kernel, kernels = _words(launched, "name")
    call_ns, start_ns, end_ns = (_numbers(launched, name) for name in ("call_ns", "start_ns", "end_ns"))
    work = Work(tracks[:split], call_ns, start_ns, end_ns, kernel, kernels)
    first, last = _slices(work, tracks[split:], _numbers(tx, "start_ns"), _numbers(tx, "end_ns"))
    some = first < last
    style, styles = _words(tx, "style")
    name, names = _words(tx, "name")
    duration_ns, depth, process_id, thread_id = (
        _numbers(tx, column)[some] for column in ("duration_ns", "depth", "process_id", "thread_id")
    )
    return Ranges(
        work=work,
        first=first[some],
        last=last[some],
        duration_ns=duration_ns,
        depth=depth,
        process_id=process_id,
        thread_id=thread_id,
        style=style[some],
        styles=styles,
        name=name[some],
        names=names,
    )


def _numbers(table: pa.Table, name: str) -> Any:
    return table.column(name).to_numpy()


def _words(table: pa.Table, name: str) -> tuple[Ints, list[str | None]]:
    """(code of each row, the words of the codes): a text column without an object a row."""
    encoded = table.column(name).combine_chunks().dictionary_encode("encode")
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


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


def groups(*keys: Ints) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Each distinct combination of keys, with the indices of its rows in their order."""
    if not len(keys[0]):
        return
    order = np.lexsort(keys[::-1])
    changes = np.zeros(len(order) - 1, bool)
    for key in keys:
        changes |= np.diff(key[order]) != 0
    for indices in np.split(order, np.flatnonzero(changes) + 1):
        yield tuple(int(key[indices[0]]) for key in keys), indices


def figures(values: Ints) -> tuple[float, float, int, int, float]:
    """Average, median, least, greatest and the sample's standard deviation (0 for one value)."""
    return next(grouped_figures(np.zeros(len(values), np.int64), values))[3:]


def grouped_figures(
    codes: Ints, values: Ints
) -> Iterator[tuple[int, int, int, float, float, int, int, float]]:
    """Of each group of values: its code, count, total, and what `figures` gives."""
    if not len(codes):
        return
    order = np.lexsort((values, codes))
    codes, values = codes[order], values[order]
    first = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    count = np.diff(np.append(first, len(codes)))
    total = np.add.reduceat(values, first)
    mean = total / count
    median = (values[first + (count - 1) // 2] + values[first + count // 2]) / 2
    squares = np.add.reduceat((values - np.repeat(mean, count)) ** 2, first)
    deviation = np.sqrt(squares / np.maximum(count - 1, 1))
    columns = (codes[first], count, total, mean, median, values[first], values[first + count - 1], deviation)
    yield from zip(*(column.tolist() for column in columns), strict=True)
