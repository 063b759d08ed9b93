"""Applying a selection to the rows of a segment."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.errors import UserError
from tops_kit.session.arrays import as_numpy, from_list, from_numpy
from tops_kit.session.columns import arrow_type
from tops_kit.session.lanes import lane_rows
from tops_kit.session.schema import Column, Kind
from tops_kit.session.segment import LANES, Segment
from tops_kit.session.selection import Filter, Selection

# Fewer rows to a lane than this, and comparing all rows is the quicker way.
ROWS_OF_A_LANE = 64
Mask = np.ndarray[Any, np.dtype[np.bool_]]
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def selected(segment: Segment, selection: Selection, session_start_ns: int) -> Mask | bool:
    """Which rows of a segment a selection takes: a mask, or True or False for all of them.

    UserError when a value can't be compared with its column. SegmentDamagedError as reading the columns
    raises.
    """
    if segment.table.kind is Kind.PLAIN:
        return True
    mask: Mask | bool = True
    time = selection.time_range(session_start_ns)
    if time is not None:
        mask = _in_time(segment, *time)
    conditions = list(selection.filters)
    if selection.names is not None:
        conditions.append(Filter("name", "~", selection.names))
    for condition in conditions:
        mask = _both(mask, lambda condition=condition: _matches(segment, condition))  # type: ignore[misc]
    if selection.tracks:
        mask = _both(mask, lambda: _on_tracks(segment, selection))
    return mask


def _both(mask: Mask | bool, other: Callable[[], Mask | bool]) -> Mask | bool:
    if mask is False:
        return False
    second = other()
    if mask is True or second is False:
        return second
    return mask if second is True else mask & second


def _in_time(segment: Segment, begin: int | None, end: int | None) -> Mask | bool:
    """Overlap of [start, end) with [begin, end); a row without length counts when it begins within."""
    if segment.start_ns is None or segment.end_ns is None:
        return False
    if (end is not None and segment.start_ns >= end) or (begin is not None and segment.end_ns < begin):
        return False
    after = begin is None or segment.start_ns >= begin
    before = end is None or segment.end_ns < end
    if after and before:
        return True
    lanes = segment.extra(LANES)
    if lanes is not None and lanes.num_rows * ROWS_OF_A_LANE < segment.rows:
        return _in_time_by_lane(segment, lanes, begin, end)
    first, last = segment.times()
    mask: Mask = np.ones(segment.rows, bool)
    if begin is not None and not after:
        mask &= (last > begin) | (first >= begin)
    if end is not None and not before:
        mask &= first < end
    return mask


def _in_time_by_lane(segment: Segment, lanes: pa.Table, begin: int | None, end: int | None) -> Mask:
    """The same for a sorted segment with few lanes: two binary searches in each."""
    start = as_numpy(segment.column(segment.table.column("start_ns")))
    interval = segment.table.kind is Kind.INTERVAL
    duration = segment.column(segment.table.column("duration_ns")) if interval else None
    mask: Mask = np.zeros(segment.rows, bool)
    for first, count in zip(*lane_rows(lanes, segment.rows), strict=True):
        of_lane = start[first : first + count]
        low = 0 if begin is None else int(np.searchsorted(of_lane, begin, side="left"))
        high = count if end is None else int(np.searchsorted(of_lane, end, side="left"))
        if low and duration is not None and begin is not None:
            before = first + low - 1  # the one row of the lane that may reach into the range
            low -= int(start[before]) + max(duration[before].as_py(), 0) > begin
        mask[first + low : first + high] = True
    return mask


class Windows:
    """Disjoint half-open windows [begin, end) of absolute ns, in order.

    Rows are selected that overlap any of them, as with the time of a Selection. There may be 100,000; without
    any, no row is selected.
    """

    empty = False

    def __init__(self, windows: Sequence[tuple[int, int]]) -> None:
        self._begins = np.array([begin for begin, _ in windows], np.int64)
        self._ends = np.array([end for _, end in windows], np.int64)

    def mask(self, segment: Segment) -> Mask | bool:
        """Which rows of a segment lie in the windows: a mask, or True or False for all of them."""
        if segment.table.kind is Kind.PLAIN:
            return True
        if not len(self._begins) or segment.start_ns is None or segment.end_ns is None:
            return False
        if len(self._begins) == 1:
            return _in_time(segment, int(self._begins[0]), int(self._ends[0]))
        if segment.start_ns >= self._ends[-1] or segment.end_ns < self._begins[0]:
            return False
        first, last = segment.times()
        lanes = segment.extra(LANES)
        if lanes is not None and lanes.num_rows * len(self._begins) < segment.rows:
            return self._by_lane(first, last, lane_rows(lanes, segment.rows))
        # What has no length takes part as if it lasted 1 ns. Windows are disjoint: only the last one that
        # begins before a row's end can overlap it.
        place = np.searchsorted(self._begins, np.maximum(last, first + 1), "left") - 1
        found: Mask = (place >= 0) & (self._ends[place] > first)
        return found

    def _by_lane(self, first: Any, last: Any, lanes: tuple[list[int], list[int]]) -> Mask:
        """The same where windows are few: the rows of a lane that lie in one are neighbours."""
        change = np.zeros(len(first) + 1, np.int32)
        for at, count in zip(*lanes, strict=True):
            low, high = (
                at + np.searchsorted(first[at : at + count], side) for side in (self._begins, self._ends)
            )
            before = np.maximum(low - 1, at)  # the one row before that may reach into the window
            low -= (low > at) & (last[before] > self._begins)
            np.add.at(change, low, 1)
            np.add.at(change, high, -1)
        found: Mask = np.cumsum(change[:-1]) > 0
        return found


def _on_tracks(segment: Segment, selection: Selection) -> Mask | bool:
    result: Mask | bool = False
    for track in selection.tracks:
        one: Mask | bool = True
        for column, value in track:
            one = _both(one, lambda column=column, value=value: _matches(segment, Filter(column, "=", value)))  # type: ignore[misc]
        if one is True:
            return True
        result = one if result is False else (result if one is False else result | one)
    return result


def _matches(segment: Segment, condition: Filter) -> Mask | bool:
    columns = segment.table.column_names
    derived = condition.column == "end_ns" and segment.table.kind is Kind.INTERVAL
    if not derived and condition.column not in columns:
        return False
    if derived:
        return _as_mask(_test(Column("end_ns", "int64", ""), from_numpy(segment.times()[1]), condition))
    column = segment.table.column(condition.column)
    if not segment.stores(column):
        value = _one(column, segment.constants.get(column.name))
        return bool(_as_mask(_test(column, value, condition))[0]) if segment.rows else False
    values = segment.column(column)
    if isinstance(values, pa.DictionaryArray):
        # Names are compared once each, then looked up.
        wanted = np.append(_as_mask(_test(column, values.dictionary, condition)), _null_matches(condition))
        indices = values.indices.fill_null(len(wanted) - 1) if values.null_count else values.indices
        found: Mask = wanted[as_numpy(indices)]
        return found
    return _as_mask(_test(column, values, condition))


def _one(column: Column, value: Any) -> pa.Array:
    return from_list([value], pa.string() if column.type == "name" else arrow_type(column))


def _null_matches(condition: Filter) -> bool:
    """Null is no value, so it differs from all of them."""
    if condition.value is None:
        return condition.operator == "="
    return condition.operator in ("!=", "!~")


def _test(column: Column, values: pa.Array, condition: Filter) -> Any:
    operator, value = condition.operator, condition.value
    if value is None and operator in ("=", "!="):
        return pc.is_null(values) if operator == "=" else pc.is_valid(values)
    if operator in ("~", "!~"):
        pattern = re.compile(str(value))
        found = [text is not None and pattern.search(str(text)) is not None for text in values.to_pylist()]
        return from_numpy(np.array(found, bool) ^ (operator == "!~"))
    text = column.type in ("name", "text")
    if (
        value is None
        or (not text and isinstance(value, str))
        or (not text and isinstance(value, bool) != (column.type == "bool"))
    ):
        kind = "text" if text else "a truth value" if column.type == "bool" else "a number"
        raise UserError(f"the filter {condition} doesn't fit: {column.name} is {kind}")
    if values.type == pa.null():
        values = values.cast(pa.string() if text else pa.int64())
    try:
        result = _COMPARE[operator](values, pa.scalar(str(value) if text else value))
    except (pa.ArrowException, OverflowError) as error:
        raise UserError(
            f"the filter {condition} doesn't fit: {column.name} is of type {column.type}"
        ) from error
    return pc.fill_null(result, operator == "!=")


def _as_mask(values: Any) -> Mask:
    return as_numpy(values)
