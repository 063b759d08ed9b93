"""Summaries by group: count, total, min, max, mean, median, standard deviation and percentiles of a value.

Each segment carries mergeable parts of the summaries that the schema declares (`summary.arrow`). The exact
ones over the whole session are kept under `summary/` for as long as the session's segments stay the same;
reading those needs nothing but pyarrow.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tops_kit.session import columns as cols
from tops_kit.session.arrays import as_numpy, from_list, from_numpy
from tops_kit.session.groups import by_code, group_rows
from tops_kit.session.schema import Table
from tops_kit.session.segment import Segment, SegmentData
from tops_kit.session.segment_writing import write_arrow

Array: TypeAlias = np.ndarray[Any, Any]

FOLDER = "summary"
PERCENTILES = (("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))
STATISTICS = ("count", "total", "min", "max", "mean", "median", "stddev", "p90", "p95", "p99")
_KEY = b"segments"
# Rows whose values are held at once; more than that are summarised in several passes over the groups.
PASS_ROWS = 32 << 20

Pieces: TypeAlias = Iterable[SegmentData]


def value_type(table: Table, value: str) -> pa.DataType:
    """Type of the summaries of a value: int64 or float64."""
    return pa.float64() if table.column(value).type == "float64" else pa.int64()


def result_schema(table: Table, group: Sequence[str], value: str) -> pa.Schema:
    """Columns of a summary: those of the group (names as text), then STATISTICS."""
    fields = []
    for name in group:
        column = table.column(name)
        fields.append(pa.field(name, pa.string() if column.type == "name" else cols.arrow_type(column)))
    exact = value_type(table, value)
    for name in STATISTICS:
        type_ = pa.int64() if name == "count" else exact if name in ("total", "min", "max") else pa.float64()
        fields.append(pa.field(name, type_))
    return pa.schema(fields)


def summarise(table: Table, group: Sequence[str], value: str, pieces: Callable[[], Pieces]) -> pa.Table:
    """The exact summary of rows that come in pieces, with columns as `result_schema` says, most total first.

    `pieces` gives the pieces again each time it is called. Rows whose value is null don't count. The standard
    deviation is that of a sample (divided by count - 1), 0 for a single row; percentiles interpolate
    linearly.
    """
    groups = _Groups(table, group)
    held: list[tuple[Array, Array]] = []
    counts = np.zeros(0, np.int64)
    for piece in pieces():
        codes, values = _piece(table, groups, piece, value)
        counts = _grown(counts, groups.size) + np.bincount(codes, minlength=groups.size)
        if counts.sum() <= PASS_ROWS:
            held.append((codes, values))
        else:
            held.clear()
    if counts.sum() <= PASS_ROWS:
        parts = [_statistics(held, np.arange(groups.size), counts, value_type(table, value))]
    else:
        parts = []
        for chosen in _passes(counts):
            wanted = np.zeros(groups.size, bool)
            wanted[chosen] = True
            held = []
            for piece in pieces():
                codes, values = _piece(table, groups, piece, value)
                keep = wanted[codes]
                held.append((codes[keep], values[keep]))
            parts.append(_statistics(held, chosen, counts, value_type(table, value)))
    return _ordered(groups, parts, result_schema(table, group, value))


class _Groups:
    """Numbers the combinations of a group's columns over several pieces."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self.table = table
        self.columns = tuple(columns)
        self._numbers: dict[tuple[Any, ...], int] = {}

    @property
    def size(self) -> int:
        return len(self._numbers)

    def codes(self, data: SegmentData) -> Array:
        """int32 number of each row."""
        grouping = group_rows(self.table, data, self.columns)
        keys = [column.to_pylist() for column in grouping.keys().columns]
        rows: Iterable[tuple[Any, ...]] = zip(*keys, strict=True)
        if not self.columns:
            rows = [()] if data.rows else []
        numbers = np.fromiter((self._numbers.setdefault(row, len(self._numbers)) for row in rows), np.int32)
        if (numbers == np.arange(len(numbers))).all():  # as with the first piece
            return grouping.codes
        result: Array = numbers[grouping.codes]
        return result

    def arrays(self, schema: pa.Schema) -> list[pa.Array]:
        """The columns of the combinations, in order of their numbers."""
        return [
            from_list([key[i] for key in self._numbers], schema.field(i).type)
            for i in range(len(self.columns))
        ]


def _piece(table: Table, groups: _Groups, piece: SegmentData, value: str) -> tuple[Array, Array]:
    codes = groups.codes(piece)
    column = piece.array(table.column(value))
    if column.null_count == 0:
        return codes, as_numpy(column)
    valid = as_numpy(column.is_valid())
    return codes[valid], as_numpy(column.drop_null())


def _grown(array: Array, size: int) -> Array:
    return np.concatenate([array, np.zeros(size - len(array), array.dtype)])


def _passes(counts: Array) -> Iterator[Array]:
    """Groups in portions of at most PASS_ROWS rows (or one group)."""
    chosen: list[int] = []
    rows = 0
    for number, count in enumerate(counts.tolist()):
        if chosen and rows + count > PASS_ROWS:
            yield np.array(chosen)
            chosen, rows = [], 0
        chosen.append(number)
        rows += count
    if chosen:
        yield np.array(chosen)


def _statistics(
    held: list[tuple[Array, Array]], chosen: Array, counts: Array, type_: pa.DataType
) -> dict[str, Array]:
    dtype: Any = np.float64 if type_ == pa.float64() else np.int64
    codes = np.concatenate([codes for codes, _ in held]) if held else np.zeros(0, np.int32)
    unsorted = np.concatenate([values for _, values in held]) if held else np.zeros(0, dtype)
    held_counts = np.zeros_like(counts)
    held_counts[chosen] = counts[chosen]
    values = by_code(codes, unsorted.astype(dtype, copy=False), held_counts)
    del codes, unsorted, held
    present = chosen[counts[chosen] > 0]
    count = counts[present]
    last = np.cumsum(count)
    first = last - count
    several = np.flatnonzero(count > 1)
    spans = list(zip(several.tolist(), first[several].tolist(), last[several].tolist(), strict=True))
    for _, begin, end in spans:
        values[begin:end].sort()
    out: dict[str, Array] = {"group": present, "count": count}
    if not len(present):
        return out | {name: np.zeros(0, np.float64) for name in STATISTICS[1:]}
    total = np.add.reduceat(values, first)
    mean = total / count
    out |= {"total": total, "min": values[first], "max": values[last - 1], "mean": mean}
    squares = np.zeros(len(present))
    for i, begin, end in spans:
        deviations = values[begin:end] - mean[i]
        squares[i] = deviations @ deviations
    out["stddev"] = np.sqrt(squares / np.maximum(count - 1, 1))
    for name, part in PERCENTILES:
        position = part * (count - 1)
        lower = np.floor(position).astype(np.int64)
        low = values[first + lower]
        high = values[np.minimum(first + lower + 1, last - 1)]
        # In floats before the difference is taken: two int64 may lie further apart than an int64 holds.
        out[name] = low + (high.astype(np.float64) - low) * (position - lower)
    return out


def _ordered(groups: _Groups, parts: list[dict[str, Array]], schema: pa.Schema) -> pa.Table:
    numbers = np.concatenate([part["group"] for part in parts]).astype(np.int64)
    keys = [array.take(from_numpy(numbers)) for array in groups.arrays(schema)]
    arrays = keys + [
        from_numpy(np.concatenate([part[name] for part in parts])).cast(schema.field(name).type)
        for name in STATISTICS
    ]
    table = pa.Table.from_arrays(arrays, schema=schema)
    order = [("total", "descending"), *((name, "ascending") for name in groups.columns)]
    return table.sort_by(order) if table.num_rows else table


def cache_path(session: Path, table: Table, group: Sequence[str], value: str) -> Path:
    """Where the exact summary of a group is kept."""
    return session / FOLDER / f"{table.name}-{'+'.join(group)}-{value}.arrow"


def cache_key(segments: Sequence[Segment]) -> bytes:
    """Names the rows that a cached summary is of."""
    return ",".join(f"{segment.name}:{segment.rows}" for segment in segments).encode()


def _checksum_path(path: Path) -> Path:
    """Where the CRC-32 of a kept summary stands."""
    return path.with_suffix(".crc32")


def _checksum(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"


def read_cache(path: Path, key: bytes, schema: pa.Schema) -> pa.Table | None:
    """A kept summary, None when there is none of just these rows."""
    try:
        # Read, not mapped: the file is small, and may be replaced.
        content = path.read_bytes()
        if _checksum_path(path).read_text(encoding="ascii") != _checksum(content):
            return None
        table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        table.validate(full=True)
    except (OSError, pa.ArrowException, ValueError):
        return None  # absent or damaged: it is only a cache
    if (table.schema.metadata or {}).get(_KEY) != key:
        return None
    table = table.replace_schema_metadata(None)
    return table if table.schema.equals(schema) else None


def write_cache(path: Path, key: bytes, table: pa.Table) -> None:
    """Keep a summary. Raises OSError."""
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_arrow(temporary, table.replace_schema_metadata({_KEY: key}), compress=False)
        # Two writers at once may leave one's file with the other's checksum: then it is made anew.
        _checksum_path(path).write_text(_checksum(temporary.read_bytes()), encoding="ascii")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
