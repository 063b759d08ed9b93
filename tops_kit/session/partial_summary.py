"""Mergeable parts of summaries: what a segment says of the schema's groups (`summary.arrow`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tops_kit.session.arrays import as_numpy, from_list, from_numpy
from tops_kit.session.groups import by_code, group_rows
from tops_kit.session.schema import Table
from tops_kit.session.segment import SUMMARY, Segment, SegmentData
from tops_kit.session.summary import result_schema


def worth_it(groups: int, rows: int) -> bool:
    """Whether a summary by so many groups is one: it shall be far smaller than the rows."""
    return groups <= max(1024, min(rows // 8, 1 << 16))


def segment_summary(table: Table, data: SegmentData) -> pa.Table | None:
    """Parts of the summaries of a segment's rows; None when there are none.

    Columns: `group` and `value` (which summary it is, group as column names joined by commas), the columns of
    all groups (null where not part of the group), count, total, min, max, and `square_deviation`, the sum of
    squares of the deviations from the mean. Groups that nearly every row has for itself are left out.
    """
    parts = []
    for group in table.summary:
        grouping = group_rows(table, data, group)
        if not worth_it(grouping.count, data.rows):
            continue
        keys = grouping.keys()
        for value in table.values:
            column = data.array(table.column(value))
            codes, values = grouping.codes, as_numpy(column.fill_null(0) if column.null_count else column)
            if column.null_count:
                valid = as_numpy(column.is_valid())
                codes, values = codes[valid], values[valid]
            if len(codes):
                parts.append(_part(table, group, value, keys, codes, values))
    if not parts:
        return None
    united = pa.concat_tables(parts).combine_chunks()
    for number, field in enumerate(united.schema):
        if field.type == pa.string():
            united = united.set_column(number, field.name, united.column(number).dictionary_encode())
    return united


def _part(  # noqa: PLR0917 - all of them are plain inputs
    table: Table, group: tuple[str, ...], value: str, keys: pa.Table, codes: Any, values: Any
) -> pa.Table:
    if values.dtype.itemsize != 8:
        values = values.astype(np.int64)
    count = np.bincount(codes, minlength=keys.num_rows)
    values = by_code(codes, values, count)
    present = np.flatnonzero(count)
    count = count[present]
    first = np.cumsum(count) - count
    total = np.add.reduceat(values, first)
    deviations = values - np.repeat(total / count, count)
    columns = {
        "group": pa.repeat(from_list([",".join(group)], pa.string())[0], len(present)),
        "value": pa.repeat(from_list([value], pa.string())[0], len(present)),
    }
    for name in dict.fromkeys(name for names in table.summary for name in names):
        if name in group:
            columns[name] = keys.column(name).take(from_numpy(present))
        else:
            columns[name] = pa.nulls(len(present), result_schema(table, [name], value).field(0).type)
    return pa.table(
        columns
        | {
            "count": from_numpy(count),
            "total": from_numpy(total),
            "min": from_numpy(np.minimum.reduceat(values, first)),
            "max": from_numpy(np.maximum.reduceat(values, first)),
            "square_deviation": from_numpy(np.add.reduceat(deviations * deviations, first)),
        }
    )


def summarised(segment: Segment, group: tuple[str, ...]) -> bool:
    """Whether a sorted segment has parts of this group: False when it has too many groups for a summary."""
    parts = segment.extra(SUMMARY)
    if parts is None or "group" not in parts.column_names:
        return False
    return ",".join(group) in parts.column("group").unique().to_pylist()
