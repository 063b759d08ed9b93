"""Writing a segment of a table: its Arrow files and `meta.json`, beside its place and then renamed into it.

A column that has one value (or none) in all rows is not stored: `meta.json` has it under `constants`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.arrays import as_numpy, end_of
from tops_kit.session.files import checksum, fsync_path, remove_folder, write_json
from tops_kit.session.schema import FORMAT_VERSION, Column, Kind, Table
from tops_kit.session.segment import (
    HOT,
    LANES,
    META,
    PYRAMID,
    SEGMENTS,
    SUMMARY,
    SegmentData,
    file_of,
    temporary_name,
)

_WORTH_COMPRESSING = 1 << 14  # bytes of a file's columns
_WORTH_THREADS = 1 << 20


def write_segment(
    session: Path,
    table: Table,
    data: SegmentData,
    *,
    level: str,
    name: str,
    order: int,
    replaces: tuple[str, ...] = (),
    user: Mapping[str, Any] | None = None,
    durable: bool = True,
) -> None:
    """Write a segment.

    `order` is its place among the table's segments, `replaces` names the segments whose rows it holds. With
    `durable` the files are on disk before the segment gets its name. Raises OSError.
    """
    folder = session / SEGMENTS
    temporary = folder / temporary_name(table.name)
    temporary.mkdir()
    try:
        meta = _write_files(temporary, table, data, compress=level != "raw")
        meta["checksums"] = {name: checksum(temporary / name) for name in meta["files"]}
        meta |= {"level": level, "order": order, "replaces": list(replaces), "user": dict(user or {})}
        write_json(temporary / META, meta, fresh=True)
        if durable:
            for path in (*temporary.iterdir(), temporary):
                fsync_path(path)
        temporary.rename(folder / name)
        if durable:
            fsync_path(folder)
    except BaseException:
        remove_folder(temporary)
        raise


def _write_files(folder: Path, table: Table, data: SegmentData, *, compress: bool) -> dict[str, Any]:
    files: dict[str, dict[str, pa.Array]] = {}
    constants: dict[str, Any] = {}
    for column in table.columns:
        where = file_of(table, column)
        if column.name not in data.arrays:
            if where != HOT:
                constants[column.name] = data.constants.get(column.name)
                continue
            array = data.array(column)
        else:
            array = data.arrays[column.name]
            if where != HOT:
                constant, value = constant_of(column, array) if data.rows else (True, None)
                if constant:
                    constants[column.name] = value
                    continue
        files.setdefault(where, {})[column.name] = _narrow(column, array)
    sizes: dict[str, int] = {}
    for name, arrays in files.items():
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        sizes[name] = write_arrow(folder / name, batch, compress=compress and name != HOT)
    for name, extra in ((LANES, data.lanes), (PYRAMID, data.pyramid), (SUMMARY, data.summary)):
        if extra is not None:
            sizes[name] = write_arrow(folder / name, extra, compress=False)
    return {
        "format": list(FORMAT_VERSION),
        "table": table.name,
        "rows": data.rows,
        "files": sizes,
        "constants": constants,
        **_time_range(table, data),
    }


def _time_range(table: Table, data: SegmentData) -> dict[str, int | None]:
    """First start and last end of the rows, both None for tables without time."""
    if table.kind is Kind.PLAIN or not data.rows:
        return {"start_ns": None, "end_ns": None}
    start = as_numpy(data.array(table.column("start_ns")))
    end = start
    if table.kind is Kind.INTERVAL:
        end = end_of(start, as_numpy(data.array(table.column("duration_ns"))))
    return {"start_ns": int(start.min()), "end_ns": int(end.max())}


def write_arrow(path: Path, data: pa.RecordBatch | pa.Table, *, compress: bool) -> int:
    """Write an Arrow IPC file and return its size in bytes."""
    compress = compress and data.nbytes > _WORTH_COMPRESSING
    options = pa.ipc.IpcWriteOptions(
        # waiting for Arrow's threads takes longer than compressing little
        compression=pa.Codec("zstd", 1) if compress else None,
        use_threads=compress and data.nbytes > _WORTH_THREADS,
    )
    with pa.OSFile(str(path), "wb") as sink:
        with pa.ipc.new_file(sink, data.schema, options=options) as writer:
            if isinstance(data, pa.Table):
                writer.write_table(data.combine_chunks())
            else:
                writer.write_batch(data)
        return int(sink.tell())


def _narrow(column: Column, array: pa.Array) -> pa.Array:
    """The array in its stored type: durations as uint32 and dictionary indices as uint16 where all values
    fit.
    """
    if column.name == "duration_ns" and len(array):
        low_high = pc.min_max(array)
        low, high = low_high["min"].as_py(), low_high["max"].as_py()
        if low is not None and low >= 0 and high < 1 << 32:
            return array.cast(pa.uint32())
    elif column.type == "name" and len(array.dictionary) <= 1 << 16:
        return pa.DictionaryArray.from_arrays(array.indices.cast(pa.uint16()), array.dictionary)
    return array


def constant_of(column: Column, array: pa.Array) -> tuple[bool, Any]:
    """(True, value) when all rows have the same value. Floats are left alone, they have too many kinds of
    equal.
    """
    if array.null_count == len(array):
        return True, None
    if array.null_count or column.type == "float64":
        return False, None
    if column.type == "name":
        if len(array.dictionary) == 1:
            return True, array.dictionary[0].as_py()
        return False, None
    if array[0] != array[len(array) - 1]:
        return False, None  # the cheap test that nearly always decides
    if column.type == "text":
        first = array[0]
        return (True, first.as_py()) if pc.all(pc.equal(array, first)).as_py() else (False, None)
    low_high = pc.min_max(array)
    return low_high["min"] == low_high["max"], low_high["min"].as_py()
