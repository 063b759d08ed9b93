"""One segment of a table: a folder of Arrow files.

`meta.json` says what the segment is; the Arrow files hold the columns. A column that has one value (or none)
in all rows is not stored: `meta.json` has it under `constants`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tops_kit.session import columns as cols
from tops_kit.session.arrays import as_numpy, end_of
from tops_kit.session.files import checksum, read_json, remove_folder
from tops_kit.session.schema import FORMAT_VERSION, TABLES, Column, Kind, Table

SEGMENTS = "segments"
META = "meta.json"
HOT = "hot.arrow"
WIDE = "wide.arrow"
ARGS = "args.arrow"
LANES = "lanes.arrow"
PYRAMID = "pyramid.arrow"
SUMMARY = "summary.arrow"
INDEX_FILES = (LANES, PYRAMID, SUMMARY)
# Files up to this size are compared with their checksum when they are mapped: some ms each. For larger ones
# `verify` does it; reading all of a large session just to compare would cost more than what was asked of it.
COMPARED_BYTES = 8 << 20
_MOST_ROWS = 1 << 32  # far more than one segment ever has
_HOT_COLUMNS = ("start_ns", "duration_ns", "name")
_TEMPORARY = ".tmp-"
_serial = itertools.count()


class SegmentDamagedError(Exception):
    """A segment that can't be read. The message says what is wrong, without the path."""


class SegmentGoneError(Exception):
    """A segment whose folder vanished: a compaction has replaced it."""


@dataclass(slots=True)
class SegmentData:
    """Rows to be written: each column is in `arrays` or in `constants` (None: null in all rows)."""

    rows: int
    arrays: dict[str, pa.Array] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    lanes: pa.Table | None = None
    pyramid: pa.Table | None = None
    summary: pa.Table | None = None

    def array(self, column: Column) -> pa.Array:
        """The column as an array, also when it is constant."""
        if column.name in self.arrays:
            return self.arrays[column.name]
        return cols.constant_array(column, self.constants.get(column.name), self.rows)


def file_of(table: Table, column: Column) -> str:
    """The file of a segment in which a column lives."""
    if column.name == "args":
        return ARGS
    if table.kind is not Kind.PLAIN and column.name in _HOT_COLUMNS:
        return HOT
    return WIDE


def segment_order(name: str) -> int:
    """The number in a segment's name: 12 in `tx-000012` and in `tx-000012.1`."""
    digits = name.rpartition("-")[2].partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def successor_name(names: Iterable[str]) -> str:
    """Name of the segment that takes the place of others: that of the last with a higher generation after the
    point.

    No name is used twice, not even that of a segment that was deleted: readers know segments by it.
    """
    last = max(names, key=lambda name: (segment_order(name), name))
    stem, _, generation = last.partition(".")
    return f"{stem}.{int(generation) + 1 if generation.isdigit() else 1}"


def is_temporary(name: str) -> bool:
    """Whether a name in the folder of segments is one that is being written, or was when its writer died."""
    return name.startswith(_TEMPORARY)


def temporary_name(table: str) -> str:
    """A name for a folder that is being written, or deleted: no other of this process has it."""
    return f"{_TEMPORARY}{table}-{os.getpid()}-{next(_serial)}"


def delete_segment(session: Path, name: str) -> None:
    """Delete a segment that another one replaces.

    It goes away at once: a reader that has it open, but not all of its files, finds it gone, not damaged. One
    that can't be deleted (mapped, on Windows) stays for the next time.
    """
    folder = session / SEGMENTS
    doomed = folder / temporary_name(name.rpartition("-")[0])
    try:
        (folder / name).rename(doomed)
    except OSError:
        return  # gone already, or held open: readers leave it out either way
    remove_folder(doomed)


def temporary_writer(name: str) -> int | None:
    """The process that a temporary folder's name is of, None when it doesn't say."""
    parts = name.rsplit("-", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else None


def _validate(table: pa.Table) -> None:
    """Check what a later read could crash on: indices beyond their dictionary, offsets beyond the text.
    ArrowInvalid.
    """
    table.validate()
    for column in table.columns:
        if not pa.types.is_dictionary(column.type) or column.null_count:
            column.validate(full=True)
            continue
        for chunk in column.chunks:
            chunk.dictionary.validate(full=True)
            codes = as_numpy(
                chunk.indices
            )  # much faster than Arrow's own check, and these are mapped columns
            if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(chunk.dictionary):
                raise pa.ArrowInvalid("an index is beyond its dictionary")


class Segment:
    """A segment on disk, its files mapped when first needed.

    Raises SegmentDamagedError for whatever can't be read as a segment, SegmentGoneError when the folder is no
    longer there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._batches: dict[str, pa.Table] = {}
        self.lost: list[str] = []
        try:
            meta = read_json(path / META)
            self.version = tuple(int(part) for part in meta["format"])
            self.table: Table = TABLES[meta["table"]]
            self.rows = int(meta["rows"])
            self.level = str(meta["level"])
            self.order = int(meta["order"])
            self.replaces = tuple(str(name) for name in meta["replaces"])
            self.files = {str(name): int(size) for name, size in meta["files"].items()}
            self.checksums = {str(name): int(crc) for name, crc in meta.get("checksums", {}).items()}
            self.constants: dict[str, Any] = dict(meta["constants"])
            self.user: dict[str, Any] = dict(meta["user"])
            self.start_ns = None if meta["start_ns"] is None else int(meta["start_ns"])
            self.end_ns = None if meta["end_ns"] is None else int(meta["end_ns"])
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._missing(META) from error
        except OSError as error:
            raise SegmentDamagedError(f"{META} can't be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SegmentDamagedError(f"{META} is damaged") from error
        if self.rows < 0 or len(self.version) != 2 or (self.readable and not self._plausible(meta)):
            raise SegmentDamagedError(f"{META} is damaged")

    def _plausible(self, meta: dict[str, Any]) -> bool:
        """Whether what `meta.json` says can be: later code does sums and makes arrays of it."""
        times = (self.start_ns, self.end_ns)
        return (
            type(meta["rows"]) is int
            and 0 <= self.rows < _MOST_ROWS
            and all(type(part) is int for part in meta["format"])
            and self.level in ("raw", "lanes")
            and type(meta["order"]) is int
            and isinstance(meta["replaces"], list)
            and (HOT in self.files or self.table.kind is Kind.PLAIN)
            and all(time is None or (type(time) is int and -(1 << 63) <= time < 1 << 63) for time in times)
            and (times[0] is None) == (times[1] is None)
            and ((times[0] is not None) == (self.table.kind is not Kind.PLAIN and self.rows > 0))
            and all(size >= 0 and Path(name).name == name for name, size in self.files.items())
            and all(
                cols.fits(self.table.column(name), value)
                for name, value in self.constants.items()
                if name in self.table.column_names  # a later minor version may have more
            )
        )

    def _missing(self, name: str) -> Exception:
        return (
            SegmentDamagedError(f"{name} is missing") if self.path.is_dir() else SegmentGoneError(self.name)
        )

    @property
    def readable(self) -> bool:
        """Whether this version of the code knows the segment's format."""
        return self.version[0] == FORMAT_VERSION[0]

    @property
    def size_bytes(self) -> int:
        return sum(self.files.values())

    def check_sizes(self) -> None:
        """Raise unless every file has the size that `meta.json` says: finds what was cut short unread.

        Files of the index are left out instead, as they can be made anew; `lost` names them.
        """
        for name, size in list(self.files.items()):
            try:
                actual = (self.path / name).stat().st_size
                reason = "" if actual == size else f"{name} has {actual} bytes instead of {size}"
            except FileNotFoundError as error:
                missing = self._missing(name)
                if isinstance(missing, SegmentGoneError):
                    raise missing from error
                reason = str(missing)
            except OSError as error:
                reason = f"{name} can't be read: {error.strerror or error}"
            if reason and name not in INDEX_FILES:
                raise SegmentDamagedError(reason)
            if reason:
                self.lose(name)

    def verify(self) -> int:
        """Read every file and compare it with its checksum; how many files have one.

        SegmentDamagedError for columns that differ; files of the index are left out instead, see `lost`.
        """
        compared = 0
        for name in list(self.files):
            if name not in self.checksums:
                continue
            compared += 1
            try:
                same = checksum(self.path / name) == self.checksums[name]
            except FileNotFoundError as error:
                raise self._missing(name) from error
            except OSError as error:
                raise SegmentDamagedError(f"{name} can't be read: {error.strerror or error}") from error
            if not same and name not in INDEX_FILES:
                raise SegmentDamagedError(f"{name} differs from its checksum")
            if not same:
                self.lose(name)
        return compared

    def lose(self, name: str) -> None:
        """Do without a file of the index that is damaged."""
        self.files.pop(name, None)
        self.lost.append(name)

    @property
    def indexed(self) -> bool:
        """Whether the rows are sorted into lanes, with the whole index of them."""
        return self.level == "lanes" and not self.lost

    def file(self, name: str) -> pa.Table:
        """One of the Arrow files, mapped. Uncompressed columns are not copied."""
        if name not in self._batches:
            self._batches[name] = self._open(name)
        return self._batches[name]

    def _open(self, name: str) -> pa.Table:
        try:
            with contextlib.ExitStack() as stack:
                source = stack.enter_context(pa.memory_map(str(self.path / name), "r"))
                if name in self.checksums and source.size() <= COMPARED_BYTES:
                    if zlib.crc32(source.read_buffer()) != self.checksums[name]:
                        raise SegmentDamagedError(f"{name} differs from its checksum")
                    source.seek(0)
                table = pa.ipc.open_file(source).read_all()
                stack.pop_all()  # the mapping lives as long as the buffers
            _validate(table)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._missing(name) from error
        except (OSError, pa.ArrowException, ValueError, MemoryError) as error:
            raise SegmentDamagedError(f"{name} is damaged") from error
        return table

    def extra(self, name: str) -> pa.Table | None:
        """`lanes.arrow`, `pyramid.arrow` or `summary.arrow`; None when the segment has none that is sound."""
        if name not in self.files:
            return None
        try:
            return self.file(name)
        except SegmentDamagedError:
            self.lose(name)
            return None

    def column(self, column: Column) -> pa.Array:
        """A column of all rows in its logical type: dictionary indices int32, durations int64."""
        where = file_of(self.table, column)
        if self.stores(column):
            data = self.file(where)
            if data.num_rows != self.rows:
                raise SegmentDamagedError(f"{where} has {data.num_rows} rows instead of {self.rows}")
            array = self._logical(column, data.column(column.name))
            if array.null_count and where == HOT and column.name != "name":
                raise SegmentDamagedError(f"{HOT} has rows without {column.name}")
            return array
        try:
            return cols.constant_array(column, self.constants.get(column.name), self.rows)
        except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError) as error:
            raise SegmentDamagedError(f"{META} is damaged") from error

    def data(self, columns: Iterable[Column]) -> SegmentData:
        """Some columns in the form in which a segment is written; constant ones stay constants."""
        data = SegmentData(self.rows)
        for column in columns:
            if self.stores(column):
                data.arrays[column.name] = self.column(column)
            else:
                data.constants[column.name] = self.constants.get(column.name)
        return data

    def stores(self, column: Column) -> bool:
        """Whether the column has an array; else it is constant."""
        where = file_of(self.table, column)
        if where not in self.files:
            return False
        found = column.name in self.file(where).column_names
        if where == HOT and not found:
            raise SegmentDamagedError(f"{HOT} has no column {column.name}")
        return found

    def _logical(self, column: Column, values: pa.ChunkedArray) -> pa.Array:
        type_ = cols.arrow_type(column)
        array = (
            values.chunk(0)
            if values.num_chunks == 1
            else pa.concat_arrays(values.chunks or [pa.nulls(0, values.type)])
        )
        try:
            if column.type == "name" and pa.types.is_dictionary(array.type) and array.type != type_:
                return pa.DictionaryArray.from_arrays(
                    array.indices.cast(pa.int32()), array.dictionary.cast(pa.string())
                )
            return array if array.type == type_ else array.cast(type_)
        except pa.ArrowException as error:
            raise SegmentDamagedError(f"column {column.name} is damaged") from error

    def times(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(start_ns, end_ns) as int64 arrays; of instants both are the same."""
        start = as_numpy(self.column(self.table.column("start_ns")))
        if self.table.kind is not Kind.INTERVAL:
            return start, start
        return start, end_of(start, as_numpy(self.column(self.table.column("duration_ns"))))
