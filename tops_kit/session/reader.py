"""Reading a session: tables, lanes, summaries and SQL over memory-mapped segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tops_kit.errors import SessionError
from tops_kit.session import columns as cols
from tops_kit.session.catalog import Catalog
from tops_kit.session.files import reported
from tops_kit.session.ledger import Ledger
from tops_kit.session.lock import locked
from tops_kit.session.manifest import WRITER_LOCK, read_manifest
from tops_kit.session.schema import TABLES, Kind, Table
from tops_kit.session.segment import Segment, SegmentDamagedError, SegmentGoneError

if TYPE_CHECKING:
    import duckdb

    from tops_kit.session.selection import Selection

T = TypeVar("T")
CONTROL = "control"


class Session:
    """A session folder opened for reading; also one that is still being written (`refresh` shows what came since).

    Damaged segments are left out and counted in `ledger`; the rest stays readable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info: dict[str, Any] = read_manifest(path)
        with reported("read the session", path):
            self._catalog = Catalog(path)

    @classmethod
    def open(cls, path: str | Path, *, recover: Callable[[Path], object] | None = None) -> Session:
        """Open a session. `recover` is called first when a recording ended without closing it.

        SessionError (one line) when there is no session at the path, it is damaged beyond reading, or of a newer version.
        """
        path = Path(path).absolute()
        if recover is not None and needs_recovery(path):
            recover(path)
        return cls(path)

    def refresh(self) -> None:
        """See what was written since; earlier tables and connections stay as they were."""
        self.info = read_manifest(self.path)
        with reported("read the session", self.path):
            self._catalog.refresh()

    @property
    def live(self) -> bool:
        """Whether a process is writing the session now."""
        return locked(self.path / WRITER_LOCK)

    @property
    def ledger(self) -> Ledger:
        """The writer's ledger and what the reader had to leave out."""
        try:
            ledger = Ledger.from_json(self.info["ledger"])
        except ValueError as error:
            raise SessionError(f"{self.path}: the ledger in session.json is damaged") from error
        ledger.merge(self._catalog.ledger)
        return ledger

    def tables(self) -> dict[str, int]:
        """Rows by table, of the tables that have any, in the schema's order."""
        counts = self._catalog.tables()
        return {name: self.table(name).num_rows if name in MERGE_KEYS else rows for name, rows in counts.items()}

    def segments(self, table: str) -> list[Segment]:
        """The table's segments in the order of their rows. KeyError for an unknown table."""
        return self._catalog.segments(table)

    def _all_segments(self) -> Iterable[Segment]:
        return (segment for name in TABLES for segment in self._catalog.segments(name))

    @property
    def start_ns(self) -> int:
        """Begin of the first timed row, ns; 0 when there is none."""
        return min((s.start_ns for s in self._all_segments() if s.start_ns is not None), default=0)

    @property
    def end_ns(self) -> int:
        """End of the last timed row, ns; 0 when there is none."""
        return max((s.end_ns for s in self._all_segments() if s.end_ns is not None), default=0)

    def table(self, name: str, columns: Sequence[str] | None = None, selection: Selection | None = None) -> pa.Table:
        """Rows of a table in their logical types (see columns.logical_schema); name columns share one dictionary.

        `columns` default to all of the schema, and `end_ns` of intervals. Rows come in the order of the segments: as written,
        or by lane where sorted. The rows of process, thread, stream and device are merged by key: later values win.
        KeyError for an unknown table or column.
        """
        definition = TABLES[name]
        if name in MERGE_KEYS:
            table = merge_rows(definition, self.scan(definition, None, None))
            return table if columns is None else table.select(list(columns))
        table = self.scan(definition, columns, selection)
        return table.unify_dictionaries()

    def names(self, table: str, column: str = "name") -> list[str]:
        """The distinct values of a name column, sorted, without null."""
        values = self.table(table, [column]).column(0)
        found: set[str] = set()
        for chunk in values.chunks:
            found.update(chunk.unique().dictionary_decode().drop_null().to_pylist() if len(chunk) else [])
        return sorted(found)

    def scan(self, table: Table, columns: Sequence[str] | None, selection: Selection | None) -> pa.Table:
        """As `table`, but unmerged, each chunk of a name column with its segment's dictionary: nothing is copied in vain."""
        full = cols.logical_schema(table)
        wanted = list(full.names if columns is None else columns)
        for column in wanted:
            if column not in full.names:
                raise KeyError(f"table {table.name} has no column {column}")
        schema = pa.schema([full.field(column) for column in wanted])
        return self.read(table, lambda segments: pa.Table.from_batches(
            [batch for batch in (_scan_segment(segment, schema) for segment in segments) if batch.num_rows], schema))

    def read(self, table: Table, load: Callable[[list[Segment]], T]) -> T:
        """`load` of the table's segments; again without those it found damaged, or with those that replaced them."""
        while True:
            segments = self._catalog.segments(table.name)
            try:
                return load(segments)
            except SegmentGoneError:
                with reported("read the session", self.path):
                    self._catalog.refresh()
            except _InSegmentError as error:
                self._catalog.drop(error.segment, error.reason)

    def sql_connection(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with a view of every table, and `slice`, which unites all interval tables.

        It can read nothing else: no files, no extensions, and its settings are locked.
        """
        from tops_kit.session.sql import connect

        return connect(self)


class _InSegmentError(Exception):
    def __init__(self, segment: Segment, reason: str) -> None:
        super().__init__(reason)
        self.segment = segment
        self.reason = reason


# Tables whose rows of the same key are one thing that was told of in several rows.
MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "process": ("process_id",),
    "thread": ("process_id", "thread_id"),
    "stream": ("process_id", "device_id", "context_id", "stream_id"),
    "device": ("process_id", "device_id"),
}


def merge_rows(table: Table, rows: pa.Table) -> pa.Table:
    """Rows united by the table's key, in order of first appearance; of each column the last value that isn't null."""
    keys = MERGE_KEYS[table.name]
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows.to_pylist():
        known = merged.setdefault(tuple(row[key] for key in keys), dict.fromkeys(row))
        known.update({name: value for name, value in row.items() if value is not None})
    return pa.Table.from_pylist(list(merged.values()), rows.schema)


def needs_recovery(path: Path) -> bool:
    """Whether the session is a recording that ended without being closed."""
    return (path / CONTROL).exists() and not locked(path / WRITER_LOCK)


def _scan_segment(segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
    try:
        arrays = []
        for name in schema.names:
            if name == "end_ns" and segment.table.kind is Kind.INTERVAL:
                arrays.append(pa.array(segment.times()[1]))
            else:
                arrays.append(segment.column(segment.table.column(name)))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    except SegmentDamagedError as error:
        raise _InSegmentError(segment, str(error)) from error
