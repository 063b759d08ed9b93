"""Lanes of a session for drawing: what to show of a lane in a window of time, exactly or from the pyramid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tops_kit.session import columns as cols
from tops_kit.session.arrays import as_numpy, end_of, from_list, from_numpy
from tops_kit.session.lanes import index, lane_rows
from tops_kit.session.schema import Table
from tops_kit.session.segment import HOT, LANES, PYRAMID, Segment, SegmentDamagedError

Array = np.ndarray[Any, Any]

WINDOW_SCHEMA = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("name", cols.NAME_TYPE),
        ("count", pa.int64()),
        ("busy_ns", pa.int64()),
        ("longest_ns", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Rows:
    """Events or runs of a segment as arrays, lane after lane, each lane sorted by start. A count of None: all
    are single events.
    """

    start: Array
    duration: Array | None
    name: Array | None
    name_valid: Array | None
    count: Array | None = None
    busy: Array | None = None
    longest: Array | None = None

    def end(self, part: slice) -> Array:
        """End of a part of the rows."""
        start = self.start[part]
        return start if self.duration is None else end_of(start, self.duration[part])


@dataclass(frozen=True, slots=True)
class IndexedSegment:
    """A segment's lanes with its events and runs; mapped where the segment is sorted on disk."""

    lanes: pa.Table
    events: Rows
    runs: Rows | None
    names: pa.Array
    row_begin: Array
    row_count: Array
    levels: Any


def indexed_segment(segment: Segment) -> IndexedSegment:
    """The lanes of a segment; one that isn't sorted yet, or whose index is damaged, is sorted in memory."""
    lanes = segment.extra(LANES) if segment.indexed else None
    runs = segment.extra(PYRAMID)
    if lanes is not None and segment.indexed:  # reading the runs may have found them damaged
        try:
            return _indexed(segment.rows, lanes, segment.file(HOT), runs)
        except SegmentDamagedError:
            segment.lose(LANES)
    table = segment.table
    wanted = {"start_ns", "duration_ns", "name", "depth", *table.track}
    data = index(table, segment.data(column for column in table.columns if column.name in wanted))
    hot = {
        column.name: data.array(column)
        for column in table.columns
        if column.name in ("start_ns", "duration_ns", "name")
    }
    if data.lanes is None:
        raise SegmentDamagedError("it has no rows")
    return _indexed(segment.rows, data.lanes, pa.table(hot), data.pyramid)


def _indexed(rows: int, lanes: pa.Table, hot: pa.Table, runs: pa.Table | None) -> IndexedSegment:
    """The same from its tables; all that points into another of them is checked. SegmentDamagedError."""
    try:
        begin, count = lane_rows(lanes, rows)
        names = (
            _flat(hot.column("name")).dictionary if "name" in hot.column_names else pa.nulls(0, pa.string())
        )
        merged = None if runs is None else _rows(runs)
        levels = lanes.column("levels")
        if merged is not None and not _runs_are_sound(merged, levels, len(names)):
            raise SegmentDamagedError(f"{PYRAMID} is damaged")
        return IndexedSegment(lanes, _rows(hot), merged, names, np.array(begin), np.array(count), levels)
    except (KeyError, AttributeError, pa.ArrowException, ValueError, TypeError, NotImplementedError) as error:
        raise SegmentDamagedError(f"{LANES}, {HOT} or {PYRAMID} is damaged") from error


def _runs_are_sound(runs: Rows, levels: pa.ChunkedArray, names: int) -> bool:
    """Whether the levels lie within the runs, and the runs' names within the dictionary."""
    every = pa.Table.from_struct_array(_flat(levels).flatten())
    begin, count = _integers(every, "run_begin"), _integers(every, "run_count")
    sound = every.column_names == ["width_ns", "run_begin", "run_count"] and runs.duration is not None
    if len(begin):
        sound = sound and int(begin.min()) >= 0 and int(count.min()) >= 0
        sound = sound and int((begin + count).max()) <= len(runs.start)
    if runs.name is not None and len(runs.name) and (runs.name_valid is None or runs.name_valid.any()):
        sound = sound and int(runs.name.min()) >= 0 and int(runs.name.max()) < names
    return sound and all(part is not None for part in (runs.count, runs.busy, runs.longest))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; not copied where it is one already, as in a mapped file."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _integers(table: pa.Table, name: str) -> Array:
    return as_numpy(_flat(table.column(name)))


def _rows(table: pa.Table) -> Rows:
    name = valid = None
    if "name" in table.column_names:
        names = _flat(table.column("name"))
        codes = names.indices if isinstance(names, pa.DictionaryArray) else names
        if codes.null_count:
            valid = as_numpy(codes.is_valid())
            codes = codes.fill_null(0)
        name = as_numpy(codes)
    optional = {
        key: _integers(table, column) if column in table.column_names else None
        for key, column in (
            ("duration", "duration_ns"),
            ("count", "count"),
            ("busy", "busy_ns"),
            ("longest", "longest_ns"),
        )
    }
    return Rows(_integers(table, "start_ns"), name=name, name_valid=valid, **optional)


class Lanes:
    """The lanes of a table over all its segments.

    `table` has one row a lane: the track's columns, `lane_depth`, `rows`, `start_ns`, `end_ns`, sorted by
    track and depth. A lane is named by its row number. Events of one lane don't overlap within a segment;
    between segments that were recorded one after the other they may, where a range was still open when the
    first was written.
    """

    def __init__(self, definition: Table, segments: Sequence[IndexedSegment]) -> None:
        self.definition = definition
        self._segments = list(segments)
        self._of_lane, self.table = _united(definition, self._segments)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def window(self, lane: int, begin_ns: int, end_ns: int, bucket_ns: int = 0) -> pa.Table:
        """Runs of a lane that overlap [begin_ns, end_ns), sorted by start, with the columns of WINDOW_SCHEMA.

        A run is one event (count 1) or, where events are shorter than `bucket_ns`, several neighbours in one:
        from the start of the first to the end of the last, under the name with most time among them, with the
        sum (busy_ns) and the maximum (longest_ns) of their lengths. Runs are as fine as the bucket asks or
        finer; 0: every event.
        """
        parts = [self._part(number, row, begin_ns, end_ns, bucket_ns) for number, row in self._of_lane[lane]]
        table = pa.Table.from_batches(
            [part for part in parts if part.num_rows], WINDOW_SCHEMA
        ).unify_dictionaries()
        return table if len(parts) < 2 else table.sort_by("start_ns")

    def _part(self, number: int, row: int, begin_ns: int, end_ns: int, bucket_ns: int) -> pa.RecordBatch:
        segment = self._segments[number]
        rows, first, count = segment.events, int(segment.row_begin[row]), int(segment.row_count[row])
        if bucket_ns > 1 and segment.runs is not None:
            for level in segment.levels[row].as_py():
                if level["width_ns"] <= bucket_ns:
                    rows, first, count = segment.runs, level["run_begin"], level["run_count"]
        starts = rows.start[first : first + count]
        low = first + int(np.searchsorted(starts, begin_ns, side="left"))
        high = first + int(np.searchsorted(starts, end_ns, side="left"))
        if low > first and rows.end(slice(low - 1, low))[0] > begin_ns:
            low -= 1
        return _window(rows, slice(low, max(high, low)), segment.names)


def _window(rows: Rows, part: slice, names: pa.Array) -> pa.RecordBatch:
    start, end = rows.start[part], rows.end(part)
    length = end - start
    size = len(start)
    if rows.name is None:
        name = pa.nulls(size, cols.NAME_TYPE)
    else:
        mask = None if rows.name_valid is None else ~rows.name_valid[part]
        name = pa.DictionaryArray.from_arrays(from_numpy(rows.name[part].astype(np.int32), mask), names)
    count = np.ones(size, np.int64) if rows.count is None else rows.count[part].astype(np.int64)
    busy = length if rows.busy is None else rows.busy[part].astype(np.int64)
    longest = length if rows.longest is None else rows.longest[part].astype(np.int64)
    return pa.RecordBatch.from_arrays(
        [*map(from_numpy, (start, end)), name, *map(from_numpy, (count, busy, longest))],
        schema=WINDOW_SCHEMA,
    )


def _united(
    definition: Table, segments: Sequence[IndexedSegment]
) -> tuple[list[list[tuple[int, int]]], pa.Table]:
    """(by lane the segments and their rows of it, the table of lanes)."""
    track = list(definition.track)
    found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    times: dict[tuple[Any, ...], list[int]] = {}
    for number, segment in enumerate(segments):
        columns = [
            segment.lanes.column(name).to_pylist()
            for name in (*track, "lane_depth", "row_count", "start_ns", "end_ns")
        ]
        for row, (*key, count, start, end) in enumerate(zip(*columns, strict=True)):
            found.setdefault(tuple(key), []).append((number, row))
            known = times.setdefault(tuple(key), [0, start, end])
            known[0] += count
            known[1], known[2] = min(known[1], start), max(known[2], end)
    # Null sorts first, and numbers and texts never meet within a column.
    keys = sorted(
        found, key=lambda key: tuple((value is not None, 0 if value is None else value) for value in key)
    )
    types = [
        pa.string() if definition.column(name).type == "name" else cols.arrow_type(definition.column(name))
        for name in track
    ]
    names = [*track, "lane_depth", "rows", "start_ns", "end_ns"]
    rows = [(*key, *times[key]) for key in keys]
    arrays = [
        from_list([row[i] for row in rows], type_)
        for i, type_ in enumerate([*types, pa.int32(), pa.int64(), pa.int64(), pa.int64()])
    ]
    return [found[key] for key in keys], pa.table(arrays, names=names)
