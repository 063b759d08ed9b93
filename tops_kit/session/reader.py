"""Reading a session: tables, lanes, summaries and SQL over memory-mapped segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tops_kit.session import columns as cols
from tops_kit.session import summary as summaries
from tops_kit.session.arrays import from_list, from_numpy
from tops_kit.session.catalog import Catalog
from tops_kit.session.compaction import compact
from tops_kit.session.files import reported
from tops_kit.session.launches import saved_launches, verify_launches
from tops_kit.session.ledger import Ledger
from tops_kit.session.lock import CLAIM_LOCK, locked
from tops_kit.session.manifest import CONTROL, WRITER_LOCK, read_manifest
from tops_kit.session.partial_summary import summarised
from tops_kit.session.schema import TABLES, Column, Kind, Table
from tops_kit.session.segment import Segment, SegmentDamagedError, SegmentData, SegmentGoneError
from tops_kit.session.selecting import Mask, Windows, selected
from tops_kit.session.windows import Lanes, indexed_segment

if TYPE_CHECKING:
    import duckdb

    from tops_kit.session.selection import Selection

T = TypeVar("T")


class Session:
    """A session folder opened for reading; also one that is still being written (`refresh` shows what came
    since).

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

        SessionError (one line) when there is no session at the path, it is damaged beyond reading, or of a
        newer version.
        """
        path = Path(path).absolute()
        if recover is not None and needs_recovery(path):
            recover(path)
        return cls(path)

    def refresh(self) -> None:
        """See what was written since; earlier tables and connections stay as they were."""
        self.info = read_manifest(self.path)
        self._reload()

    @property
    def live(self) -> bool:
        """Whether a process is writing the session now."""
        return locked(self.path / WRITER_LOCK)

    @property
    def ledger(self) -> Ledger:
        """The writer's ledger and what the reader had to leave out."""
        ledger = Ledger.from_json(self.info["ledger"])
        ledger.merge(self._catalog.ledger)
        return ledger

    @property
    def damage(self) -> Ledger:
        """The part of `ledger` that is the reader's own: what it had to leave out or make anew."""
        return self._catalog.ledger.copy()

    def tables(self) -> dict[str, int]:
        """Rows by table, of the tables that have any, in the schema's order."""
        counts = self._catalog.tables()
        return {
            name: self.table(name).num_rows if name in MERGE_KEYS else rows for name, rows in counts.items()
        }

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

    def table(
        self, name: str, columns: Sequence[str] | None = None, selection: Selection | None = None
    ) -> pa.Table:
        """Rows of a table in their logical types (see columns.logical_schema); name columns share one
        dictionary.

        `columns` default to all of the schema, and `end_ns` of intervals. Rows come in the order of the
        segments: as written, or by lane where sorted. The rows of process, thread, stream and device are
        merged by key: later values win. KeyError for an unknown table or column.
        """
        definition = TABLES[name]
        if name in MERGE_KEYS:
            table = merge_rows(definition, self.scan(definition, None, None))
            return table if columns is None else table.select(list(columns))
        return self.scan(definition, columns, selection).unify_dictionaries()

    def names(self, table: str, column: str = "name") -> list[str]:
        """The distinct values of a name column, sorted, without null."""
        values = self.table(table, [column]).column(0)
        found: set[str] = set()
        for chunk in values.chunks:
            found.update(chunk.unique().dictionary_decode().drop_null().to_pylist() if len(chunk) else [])
        return sorted(found)

    def scan(self, table: Table, columns: Sequence[str] | None, selection: Selection | None) -> pa.Table:
        """As `table`, but unmerged, each chunk of a name column with its segment's dictionary: nothing is
        copied in vain.
        """
        full = cols.logical_schema(table)
        wanted = list(full.names if columns is None else columns)
        for column in wanted:
            if column not in full.names:
                raise KeyError(f"table {table.name} has no column {column}")
        schema = pa.schema([full.field(column) for column in wanted])
        batches = self.read(
            table, lambda segment: _scan_segment(segment, schema, self._mask(segment, selection))
        )
        return pa.Table.from_batches([batch for batch in batches if batch.num_rows], schema)

    def _mask(self, segment: Segment, selection: Selection | Windows | None) -> Mask | bool:
        if selection is None or selection.empty:
            return True
        if isinstance(selection, Windows):
            return selection.mask(segment)
        return selected(segment, selection, self.start_ns)

    def read(self, table: Table, load: Callable[[Segment], T]) -> list[T]:
        """`load` of each of the table's segments.

        Those found damaged are left out; it begins anew when a compaction has replaced some.
        """
        while True:
            try:
                return list(self.stream(table, load))
            except SegmentGoneError:
                self._reload()

    def _reload(self) -> None:
        with reported("read the session", self.path):
            self._catalog.refresh()

    def stream(self, table: Table, load: Callable[[Segment], T]) -> Iterator[T]:
        """`load` of each segment in turn, without those it finds damaged. Raises SegmentGoneError."""
        for segment in self._catalog.segments(table.name):
            try:
                loaded = load(segment)
            except SegmentDamagedError as error:
                self._catalog.drop(segment, str(error))
                continue
            yield loaded

    def summary(
        self,
        table: str,
        group: Sequence[str] = ("name",),
        value: str = "duration_ns",
        selection: Selection | Windows | None = None,
    ) -> pa.Table:
        """Exact statistics of a value by group: columns of the group (names as text), then
        summary.STATISTICS.

        Most total first; rows whose value is null don't count. Without a selection the result is kept in the
        session's folder (where it can be written), and taken from there as long as no rows were added.
        KeyError for an unknown table or column.
        """
        definition = TABLES[table]
        schema = summaries.result_schema(definition, group, value)
        whole = selection is None or selection.empty
        path = summaries.cache_path(self.path, definition, group, value)
        segments = self._catalog.segments(table)
        if whole and (kept := summaries.read_cache(path, summaries.cache_key(segments), schema)) is not None:
            return kept
        columns = [definition.column(name) for name in dict.fromkeys([*group, value])]

        def load(segment: Segment) -> SegmentData:
            return _piece(segment, columns, self._mask(segment, selection))

        while True:
            try:
                result = summaries.summarise(definition, group, value, lambda: self.stream(definition, load))
                break
            except SegmentGoneError:
                self._reload()
        segments = self._catalog.segments(table)
        if whole and segments:
            try:
                summaries.write_cache(path, summaries.cache_key(segments), result)
            except OSError:
                pass  # a session that we may not write is as good without the cache
        return result

    def verify(self) -> tuple[int, int]:
        """Read all files and compare them with their checksums: (files compared, files without a checksum).

        Raw segments of early versions have none. What differs is left out from then on, and named in
        `ledger`.
        """
        compared = bare = 0
        for table in TABLES.values():
            for segment, found in self.read(table, lambda segment: (segment, segment.verify())):
                self._catalog.note_lost(segment)
                compared += found
                bare += len(segment.files.keys() - segment.checksums.keys())
        return compared + verify_launches(self.path, self._catalog.ledger), bare

    def saved_launches(self) -> list[dict[str, Any]]:
        """The launches that were saved in it, as JSON values; see launches.saved_launches."""
        return saved_launches(self.path, self._catalog.ledger)

    def write_summaries(self) -> None:
        """Make sure that the schema's summaries are kept, but for those with too many groups."""
        for name, table in TABLES.items():
            for group in table.summary if self._catalog.segments(name) else ():
                if all(self.read(table, lambda segment, group=group: _has_few_groups(segment, group))):  # type: ignore[misc]
                    for value in table.values:
                        self.summary(name, group, value)

    @property
    def indexed(self) -> bool:
        """Whether all timed rows are sorted into lanes."""
        return all(s.indexed for s in self._all_segments() if s.table.kind is not Kind.PLAIN)

    def ensure_indexed(self) -> None:
        """Sort into lanes what isn't yet (compaction), for readers that need lanes. SessionError when it
        can't be written.
        """
        if not self.indexed:
            compact(self.path, summaries=False)
            self.refresh()

    def lanes(self, table: str) -> Lanes:
        """The lanes of a timed table over all segments; raw ones are sorted in memory. Else ValueError."""
        definition = TABLES[table]
        if definition.kind is Kind.PLAIN:
            raise ValueError(f"table {table} has no time, so it has no lanes")
        return Lanes(definition, self.read(definition, indexed_segment))

    def window(self, table: str, lane: int, begin_ns: int, end_ns: int, bucket_ns: int = 0) -> pa.Table:
        """What to draw of a lane between two times; see Lanes.window."""
        return self.lanes(table).window(lane, begin_ns, end_ns, bucket_ns)

    def sql_connection(self, selection: Selection | None = None) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with a view of every table, and `slice`, which unites all interval tables.

        With a selection the views hold just its rows. The connection can read nothing else: no files, no
        extensions, and its settings are locked.
        """
        from tops_kit.session.sql import connect

        return connect(self, selection)


# Tables whose rows of the same key are one thing that was told of in several rows.
MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "process": ("process_id",),
    "thread": ("process_id", "thread_id"),
    "stream": ("process_id", "device_id", "context_id", "stream_id"),
    "device": ("process_id", "device_id"),
}


def merge_rows(table: Table, rows: pa.Table) -> pa.Table:
    """Rows united by the table's key, in order of first appearance; of each column the last value that isn't
    null.
    """
    keys = MERGE_KEYS[table.name]
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows.to_pylist():
        known = merged.setdefault(tuple(row[key] for key in keys), dict.fromkeys(row))
        known.update({name: value for name, value in row.items() if value is not None})
    values = list(merged.values())
    return pa.table([_merged_column(field, values) for field in rows.schema], schema=rows.schema)


def _merged_column(field: pa.Field, rows: list[dict[str, Any]]) -> pa.Array:
    column = [row[field.name] for row in rows]
    if field.type == cols.NAME_TYPE:
        return cols.to_array(Column(field.name, "name", ""), from_list(column, pa.string()))
    return from_list(column, field.type)


def _has_few_groups(segment: Segment, group: tuple[str, ...]) -> bool:
    return not segment.indexed or not segment.rows or summarised(segment, group)


def needs_recovery(path: Path) -> bool:
    """Whether the session is a recording that ended without being closed."""
    if not (path / CONTROL).exists():
        return False
    return not locked(path / WRITER_LOCK) and not locked(path / CLAIM_LOCK)


def _scan_segment(segment: Segment, schema: pa.Schema, mask: Mask | bool) -> pa.RecordBatch:
    if mask is False:
        return pa.RecordBatch.from_pylist([], schema)
    arrays = []
    for name in schema.names:
        if name == "end_ns" and segment.table.kind is Kind.INTERVAL:
            arrays.append(from_numpy(segment.times()[1]))
        else:
            arrays.append(segment.column(segment.table.column(name)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return batch if mask is True else batch.filter(from_numpy(mask))


def _piece(segment: Segment, columns: Sequence[Column], mask: Mask | bool) -> SegmentData:
    if mask is False:
        return SegmentData(0)
    data = segment.data(columns)
    if mask is True:
        return data
    keep = from_numpy(mask)
    arrays = {name: array.filter(keep) for name, array in data.arrays.items()}
    return SegmentData(int(mask.sum()), arrays, data.constants)
