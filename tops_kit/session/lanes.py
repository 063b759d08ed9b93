"""Rows sorted into lanes, and the pyramid of each lane.

A lane is a track (process and thread, or device and stream) at one depth. The events of a lane don't overlap
and are sorted by start, so a binary search finds a time window in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tops_kit.session.arrays import as_numpy, end_of, from_numpy
from tops_kit.session.backend import backend
from tops_kit.session.groups import group_rows
from tops_kit.session.schema import Kind, Table
from tops_kit.session.segment import LANES, SegmentDamagedError, SegmentData

Array = np.ndarray[Any, Any]

# Bucket widths of the pyramid are 4 ** k ns, from 256 ns to 1.07 s: wider ones would save nothing, the runs
# are few by then.
FIRST_SHIFT, LAST_SHIFT = 8, 30
LEAST_ROWS = 512
# A level is kept when it has at most this share of the runs below. A run takes nearly twice the bytes of an
# event, so that the first level must save more for the whole pyramid to stay below 0.4 of the events.
FIRST_PERCENT = 16
KEEP_PERCENT = 35


@dataclass(frozen=True, slots=True)
class LaneOrder:
    """`order`: uint32 row numbers in lane order; `track`, `depth`: int32 of each row in that order; `keys`: a
    row per track.
    """

    order: Array
    track: Array
    depth: Array
    keys: pa.Table


def lane_order(table: Table, data: SegmentData) -> LaneOrder:
    """The order by (track, depth, start) of a timed table's rows.

    Depth: an event lies below all events of its track that enclose it, not above the depth recorded with it
    (column `depth`), and where it overlaps none. Of events with one start the longest lies uppermost.
    """
    tracks = group_rows(table, data, table.track)
    start = _int64(data.array(table.column("start_ns")))
    interval = table.kind is Kind.INTERVAL
    duration = _int64(data.array(table.column("duration_ns"))) if interval else np.zeros(data.rows, np.int64)
    recorded = None
    if "depth" in table.column_names and (data.constants.get("depth") is not None or "depth" in data.arrays):
        depths = data.array(table.column("depth"))
        recorded = as_numpy(depths.fill_null(0) if depths.null_count else depths)
    order, depth = np.empty(data.rows, np.uint32), np.empty(data.rows, np.int32)
    backend().lane_order(tracks.codes, tracks.count, start, duration, recorded, order, depth)
    return LaneOrder(order, tracks.codes[order], depth, tracks.keys())


def _int64(array: pa.Array) -> Array:
    return as_numpy(array).astype(np.int64, copy=False)


def apply_order(table: Table, data: SegmentData, order: Array) -> SegmentData:
    """The rows in another order. Takes the columns out of `data`, so that memory holds few of them twice."""
    indices = from_numpy(order)
    arrays = {}
    for name in list(data.arrays):
        array = data.arrays.pop(name)
        if isinstance(array, pa.DictionaryArray):
            arrays[name] = pa.DictionaryArray.from_arrays(array.indices.take(indices), array.dictionary)
        else:
            arrays[name] = array.take(indices)
    return SegmentData(data.rows, arrays, dict(data.constants))


def index(table: Table, data: SegmentData) -> SegmentData:
    """The rows sorted into lanes, with the tables of lanes and of the pyramid; `data` is empty after it."""
    if table.kind is Kind.PLAIN or not data.rows:
        return data
    lanes = lane_order(table, data)
    result = apply_order(table, data, lanes.order)
    start = _int64(result.array(table.column("start_ns")))
    end = start
    if table.kind is Kind.INTERVAL:
        end = end_of(start, _int64(result.array(table.column("duration_ns"))))
    heads = np.flatnonzero(
        np.r_[True, (lanes.track[1:] != lanes.track[:-1]) | (lanes.depth[1:] != lanes.depth[:-1])]
    )
    bounds = np.append(heads, data.rows).astype(np.int64)
    levels: Array = np.zeros((0, 4), np.int64)
    if table.kind is Kind.INTERVAL:
        pyramid, levels = _pyramid(result, table, bounds, start, end)
        result.pyramid = pyramid if len(levels) else None
    result.lanes = _lane_table(lanes, bounds, start, end, levels)
    return result


def lane_rows(lanes: pa.Table, rows: int) -> tuple[list[int], list[int]]:
    """(first row, number of rows) of each lane of a segment. SegmentDamagedError when they don't cover its
    rows.
    """
    try:
        begin, count = (as_numpy(lanes.column(name).combine_chunks()) for name in ("row_begin", "row_count"))
        sound = (
            bool((begin == np.cumsum(count) - count).all()) and int(count.sum()) == rows and (count > 0).all()
        )
    except (KeyError, ValueError, TypeError, NotImplementedError, pa.ArrowException) as error:
        raise SegmentDamagedError(f"{LANES} is damaged") from error
    if not sound:
        raise SegmentDamagedError(f"{LANES} is damaged")
    return begin.tolist(), count.tolist()


def _pyramid(
    data: SegmentData, table: Table, bounds: Array, start: Array, end: Array
) -> tuple[pa.Table, Array]:
    names = data.array(table.column("name"))
    count = len(names.dictionary)
    code = names.indices.fill_null(count) if names.null_count else names.indices
    out = backend().pyramid(
        bounds,
        start,
        end,
        as_numpy(code),
        count + 1,
        FIRST_SHIFT,
        LAST_SHIFT,
        LEAST_ROWS,
        FIRST_PERCENT,
        KEEP_PERCENT,
    )
    columns: list[Array] = [
        np.frombuffer(column, np.int32 if i == 2 else np.int64) for i, column in enumerate(out[:6])
    ]
    first, last, name, events, busy, longest = columns
    levels = np.frombuffer(out[6], np.int64).reshape(-1, 4)
    code_type: Any = np.uint16 if count < 1 << 16 else np.int32
    table_ = pa.table(
        {
            "start_ns": from_numpy(first),
            "duration_ns": _narrow(last - first),
            "name": from_numpy(name.astype(code_type), name == count),
            "count": _narrow(events),
            "busy_ns": _narrow(busy),
            "longest_ns": _narrow(longest),
        }
    )
    return table_, levels


def _narrow(values: Array) -> pa.Array:
    if len(values) and values.min() >= 0 and values.max() < 1 << 32:
        return from_numpy(values.astype(np.uint32))
    return from_numpy(values)


def _lane_table(lanes: LaneOrder, bounds: Array, start: Array, end: Array, levels: Array) -> pa.Table:
    heads = bounds[:-1]
    columns: dict[str, Any] = {
        name: lanes.keys.column(name).take(from_numpy(lanes.track[heads])) for name in lanes.keys.column_names
    }
    columns |= {
        # Not "depth": the track of a table may have such a column.
        "lane_depth": from_numpy(lanes.depth[heads]),
        "row_begin": from_numpy(heads),
        "row_count": from_numpy(np.diff(bounds)),
        "start_ns": from_numpy(start[heads]),
        "end_ns": from_numpy(np.maximum.reduceat(end, heads)),
    }
    offsets = np.searchsorted(levels[:, 0], np.arange(len(heads) + 1)).astype(np.int32)
    runs = pa.StructArray.from_arrays(
        [from_numpy(np.left_shift(1, levels[:, 1])), from_numpy(levels[:, 2]), from_numpy(levels[:, 3])],
        names=["width_ns", "run_begin", "run_count"],
    )
    columns["levels"] = pa.ListArray.from_arrays(from_numpy(offsets), runs)
    return pa.table(columns)
