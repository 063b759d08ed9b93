"""Writing a session: rows are buffered by table, and each flush makes them segments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from tops_kit.errors import SessionError
from tops_kit.session import columns as cols
from tops_kit.session.compaction import prepare
from tops_kit.session.files import fsync_path, reported, write_json
from tops_kit.session.in_use import occupied, taken
from tops_kit.session.ledger import Ledger
from tops_kit.session.lock import FolderLock
from tops_kit.session.manifest import MANIFEST, STATUSES, WRITER_LOCK, new_manifest, read_manifest
from tops_kit.session.schema import TABLES, Column, Kind, Table
from tops_kit.session.segment import SEGMENTS, SegmentData, segment_order
from tops_kit.session.segment_writing import write_segment

FLUSH_ROWS = 1 << 20
FLUSH_BYTES = 256 << 20
# A folder without a manifest that has one of these is a session that is about to begin.
_OF_A_RECORDING = {"control", "rings", "names", SEGMENTS, WRITER_LOCK}


class _Buffer:
    """The rows of one table that no segment holds yet."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows = 0
        self.size_bytes = 0
        self._pieces: list[tuple[int, dict[str, Any]]] = []

    def add(self, rows: int, values: dict[str, Any]) -> None:
        """`values`: by column an array, or a plain scalar for all rows; absent means null."""
        self.rows += rows
        self.size_bytes += sum(value.nbytes for value in values.values() if isinstance(value, pa.Array))
        self._pieces.append((rows, values))

    def take(self) -> SegmentData:
        """All rows; the buffer is empty after it."""
        data = SegmentData(self.rows)
        for column in self.table.columns:
            self._gather(column, data)
        self._pieces.clear()
        self.rows = self.size_bytes = 0
        return data

    def _gather(self, column: Column, data: SegmentData) -> None:
        name = column.name
        values = [values.get(name) for _, values in self._pieces]
        if not any(isinstance(value, pa.Array) for value in values) and all(
            value == values[0] for value in values
        ):
            data.constants[name] = values[0]
            return
        arrays = [
            value if isinstance(value, pa.Array) else cols.constant_array(column, value, rows)
            for (rows, _), value in zip(self._pieces, values, strict=True)
        ]
        data.arrays[name] = cols.concat(column, arrays)


class SessionWriter:
    """Writes one session. Get one by `create` (a new session) or `resume` (more rows for an old one).

    Not for use by several threads at once. Use as a context manager closes it: "complete", or "crashed" after
    an exception.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], lock: FolderLock) -> None:
        self.path = path
        self.ledger = Ledger.from_json(manifest["ledger"])
        # A killed process loses nothing that was flushed. For power cuts set this to True: each flush then
        # waits for the disk. Compaction always waits, as it deletes what it read.
        self.durable = False
        # False: rows are buffered until `flush`, however many. For a writer whose segments must each say (by
        # `meta`) what they hold.
        self.flushes_itself = True
        self._manifest = manifest
        self._lock = lock
        self._buffers: dict[str, _Buffer] = {}
        self._sequence = max((segment_order(name.name) for name in (path / SEGMENTS).iterdir()), default=0)

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        overwrite: bool = False,
        kind: str = "recording",
        command: list[str] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> SessionWriter:
        """Make a new session folder and open it for writing.

        `kind` is "recording" or "import", `command` what was recorded or imported, `attributes` JSON values
        of the caller. SessionError when the path exists (unless `overwrite`, which replaces a session and
        nothing else), when it can't be written, or when another process is writing it. A folder that holds
        only other things of a recording (rings, control) becomes the session.
        """
        path = Path(path).absolute()
        with reported("make the session", path):
            if path.exists():
                _make_way(path, overwrite)
            (path / SEGMENTS).mkdir(parents=True, exist_ok=True)
            lock = _writer_lock(path)
            manifest = new_manifest(kind, list(command or []), dict(attributes or {}))
            write_json(path / MANIFEST, manifest)
        return cls(path, manifest, lock)

    @classmethod
    def resume(cls, path: str | Path) -> SessionWriter:
        """Open an existing session to append to it (recovery). SessionError when there is none or it is being
        written.
        """
        path = Path(path).absolute()
        manifest = read_manifest(path)
        with reported("write the session", path):
            (path / SEGMENTS).mkdir(exist_ok=True)
            lock = _writer_lock(path)
        return cls(path, manifest, lock)

    def append(self, table: str, columns: Mapping[str, cols.Values], rows: int | None = None) -> None:
        """Add rows to a table of the schema.

        `columns` maps column names to arrays of one value a row (numpy, pyarrow, list) or to one scalar for
        all rows; a column that is missing is null (duration_ns: 0). Columns of type name also take dictionary
        arrays. `rows` is needed only when all values are scalars. Arrays are kept by reference until the next
        flush: don't change them, and copy what lies in a ring. Rows are on disk after a flush; one happens by
        itself every FLUSH_ROWS rows or FLUSH_BYTES bytes.

        KeyError for an unknown table or column, ValueError or TypeError for values that don't fit,
        SessionError when an automatic flush can't write.
        """
        self._check_open()
        definition = TABLES[table]
        values: dict[str, Any] = {}
        for name, value in columns.items():
            column = definition.column(name)
            if cols.is_scalar(value):
                values[name] = cols.scalar_value(column, value)
                continue
            array = values[name] = cols.to_array(column, value)
            if rows is None:
                rows = len(array)
            elif len(array) != rows:
                raise ValueError(f"column {table}.{name} has {len(array)} rows instead of {rows}")
        if rows is None:
            raise ValueError(f"no column of {table} is an array: `rows` says how many rows there are")
        if not rows:
            return
        if definition.kind is not Kind.PLAIN:
            _check_times(definition, values, rows)
        buffer = self._buffers.setdefault(table, _Buffer(definition))
        buffer.add(rows, values)
        if self.flushes_itself and (buffer.rows >= FLUSH_ROWS or buffer.size_bytes >= FLUSH_BYTES):
            self._flush_table(buffer, "raw", None)

    def flush(self, level: str | None = None, meta: Mapping[str, Any] | None = None) -> list[str]:
        """Write what is buffered and return the names of the new segments.

        `level` is "raw" (default: rows as they came) or "lanes" (sorted and indexed). `meta` are JSON values
        kept with each of the segments, see `Segment.user`. Also stores the ledger and attributes.
        SessionError when it can't be written; the rows stay buffered then, and earlier segments are not
        harmed.
        """
        self._check_open()
        if level not in (None, "raw", "lanes"):
            raise ValueError(f"unknown level {level!r}: raw or lanes")
        names = self._flush_tables(level or "raw", meta)
        self._write_manifest()
        return names

    def _flush_tables(self, level: str, meta: Mapping[str, Any] | None) -> list[str]:
        return [self._flush_table(buffer, level, meta) for buffer in self._buffers.values() if buffer.rows]

    def _flush_table(self, buffer: _Buffer, level: str, meta: Mapping[str, Any] | None) -> str:
        data = buffer.take()
        if level == "lanes":
            data = prepare(buffer.table, data)
        try:
            with reported("write the session", self.path):
                name = f"{buffer.table.name}-{self._sequence + 1:06d}"
                write_segment(
                    self.path,
                    buffer.table,
                    data,
                    level=level,
                    name=name,
                    order=self._sequence + 1,
                    user=meta,
                    durable=self.durable,
                )
        except BaseException:
            buffer.add(data.rows, {**data.constants, **data.arrays})
            raise
        self._sequence += 1
        return name

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute of the session (any JSON value); on disk after the next flush or close."""
        self._manifest["attributes"][key] = value

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(self._manifest["attributes"])

    def close(self, status: str = "complete") -> None:
        """Flush and end the session: complete, crashed or stopped. Closing twice does nothing."""
        if status not in STATUSES[1:]:
            raise ValueError(f"unknown status {status!r}: one of {', '.join(STATUSES[1:])}")
        if not self._lock.held:
            return
        try:
            self._flush_tables("raw", None)
            self._manifest["status"] = status
            self._write_manifest()
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Let go of the session without writing what is buffered."""
        self._buffers.clear()
        self._lock.release()

    def _write_manifest(self) -> None:
        self._manifest["ledger"] = self.ledger.to_json()
        with reported("write the session", self.path):
            write_json(self.path / MANIFEST, self._manifest, durable=self.durable)
            if self.durable:
                fsync_path(self.path)

    def _check_open(self) -> None:
        if not self._lock.held:
            raise ValueError("the session writer is closed")

    def __enter__(self) -> SessionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close("crashed")
        except SessionError:
            self.abandon()  # the first error says more


def _make_way(path: Path, overwrite: bool) -> None:
    if not path.is_dir():
        raise SessionError(f"{path} exists and is not a session; choose another name")
    if (path / MANIFEST).exists():
        if not overwrite:
            raise taken(path, "use another name, or overwrite it (--force-overwrite)")
        _writer_lock(path).remove_folder()
        return
    found = {entry.name for entry in path.iterdir()}
    if found and not found & _OF_A_RECORDING:
        raise SessionError(f"{path} is a folder of other things; choose another name")


def _writer_lock(path: Path) -> FolderLock:
    lock = FolderLock(path / WRITER_LOCK)
    if not lock.acquire():
        raise occupied(path)
    return lock


def _check_times(table: Table, values: dict[str, Any], rows: int) -> None:
    start = values.get("start_ns")
    if start is None or (isinstance(start, pa.Array) and start.null_count):
        raise ValueError(f"rows of {table.name} need start_ns")
    if table.kind is Kind.INTERVAL:
        duration = values.get("duration_ns")
        if duration is None:
            values["duration_ns"] = 0
        elif isinstance(duration, pa.Array) and duration.null_count:
            values["duration_ns"] = duration.fill_null(0)
