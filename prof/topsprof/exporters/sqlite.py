"""Exports to SQLite with the tables and columns of an nsys export, so that queries written for that work.

What nsys has no column for follows under our own column names; tables that it has no like of are called TOPS_
and our name. See docs/export.md.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.arrays import end_of, from_numpy
from tops_kit.session.schema import TABLES, Kind, Table
from topsprof.exporters.base import Exported, ExportOptions, FileExporter, nothing
from topsprof.exporters.timeline import whole
from topsprof.importers import nsys_schema as nsys
from topsprof.importers.nsys_schema import MAPPED, Enumeration, Mapped

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session

BATCH_ROWS = 1 << 16
_TYPES = {"float64": "REAL", "text": "TEXT", "name": "TEXT"}
_FITS = 1 << nsys.PID_BITS
_SPARE = 1 << 48  # global numbers of threads whose own don't fit begin here


class SqliteExporter(FileExporter):
    """`.sqlite`, close to `nsys export --type sqlite`."""

    name = "sqlite"
    suffix = ".sqlite"
    help = "an SQLite database with the tables of an nsys export"
    text = False

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        if not session.tables():
            raise nothing(session, "row")
        out.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(out)) as database:
                # The file appears under its name only when it is whole, so SQLite need not guard against a
                # crash.
                database.execute("PRAGMA journal_mode=OFF")
                database.execute("PRAGMA synchronous=OFF")
                writing = _Writing(database, session, selection)
                writing.run()
                database.commit()
        except sqlite3.OperationalError as error:
            raise OSError(None, f"SQLite can't write it ({error})") from error
        return writing.exported


class _Writing:
    """One export under way."""

    def __init__(self, database: sqlite3.Connection, session: Session, selection: Selection | None) -> None:
        self.exported = Exported()
        self._database = database
        self._session = session
        self._selection = selection
        self._strings: dict[str, int] = {}
        self._threads: dict[tuple[int | None, int | None], int] = {}
        self._odd_threads: dict[int, tuple[int | None, int | None]] = {}
        self._enums: dict[str, dict[str, int]] = {}

    def run(self) -> None:
        mapped = {one.ours: one for one in MAPPED}
        for name in self._session.tables():
            rows = self._session.table(name, TABLES[name].column_names, self._selection)
            if not rows.num_rows:
                continue
            if name in mapped:
                self._mapped(mapped[name], rows)
            elif name == "tx":
                self._nvtx(rows)
            else:
                self._own(TABLES[name], rows)
            self.exported.rows += rows.num_rows
        self._lists()

    # Values

    def _string_ids(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Names as numbers of StringIds."""
        return _numbered(column, lambda word: self._strings.setdefault(word, len(self._strings)))

    def _codes(self, column: pa.ChunkedArray, enumeration: Enumeration) -> pa.ChunkedArray:
        """Kinds as numbers of an enumeration; it grows by kinds that CUPTI has not."""
        codes = self._enums.setdefault(
            enumeration.table, {word: code for code, word in enumeration.known.items()}
        )
        return _numbered(column, lambda word: codes.setdefault(word, 1000 + len(codes)))

    def _global_ids(self, process: pa.ChunkedArray, thread: pa.ChunkedArray | None) -> pa.ChunkedArray:
        """Processes and threads as nsys's global numbers."""
        table = pa.table(
            {"process": process, "thread": pa.nulls(len(process), pa.int64()) if thread is None else thread}
        )
        keys = table.group_by(["process", "thread"]).aggregate([])
        wanted = list(zip(keys["process"].to_pylist(), keys["thread"].to_pylist(), strict=True))
        ids = [self._global_id(pid, 0 if thread is None else tid) for pid, tid in wanted]
        # A join by numbers: null is a value like others.
        place = {key: i for i, key in enumerate(wanted)}
        pids, pid_codes = _ranks(process)
        tids, tid_codes = _ranks(table["thread"])
        grid = np.full((len(pids), len(tids)), 0, np.int64)
        for (pid, tid), i in place.items():
            grid[pids[pid], tids[tid]] = i
        return pa.chunked_array([pa.array(ids, pa.int64()).take(pa.array(grid[pid_codes, tid_codes]))])

    def _global_id(self, pid: int | None, tid: int | None) -> int:
        known = self._threads.get((pid, tid))
        if known is None:
            if pid is not None and tid is not None and 0 <= pid < _FITS and 0 <= tid < _FITS:
                known = nsys.global_id(pid, tid)
            else:
                known = _SPARE + len(self._odd_threads)
                self._odd_threads[known] = pid, tid
            self._threads[pid, tid] = known
        return known

    # Tables

    def _mapped(self, one: Mapped, rows: pa.Table) -> None:
        table = TABLES[one.ours]
        out: dict[str, tuple[str, Any]] = _times(rows)
        if one.thread:
            ids = self._global_ids(
                rows["process_id"], rows["thread_id"] if one.thread == "globalTid" else None
            )
            out[one.thread] = "INTEGER", ids
        for ours, theirs in one.columns.items():
            out[theirs] = "INTEGER", rows[ours]
        for ours, theirs in one.strings.items():
            column = rows[ours]
            if theirs == "demangledName":
                column = _coalesced(column, rows["name"])
            out[theirs] = "INTEGER", self._string_ids(column)
        for ours, (theirs, kind) in one.enums.items():
            out[theirs] = "INTEGER", self._codes(rows[ours], kind)
        for theirs, sql_type in one.extra.items():
            out[theirs] = sql_type, pa.chunked_array([pa.nulls(rows.num_rows, pa.int64())])
        for column in table.columns:
            if column.name not in one.stated and rows[column.name].null_count < rows.num_rows:
                out[column.name] = _TYPES.get(column.type, "INTEGER"), rows[column.name]
        self._create(one.theirs, out, rows.num_rows)

    def _nvtx(self, rows: pa.Table) -> None:
        styles = {word: code for code, word in nsys.STYLES.items()}
        kinds = _numbered(rows["style"], styles.get).fill_null(nsys.PUSH_POP)
        marks = pc.equal(kinds, nsys.MARK)
        out = _times(rows)
        out["end"] = (
            "INTEGER",
            pc.if_else(pc.and_(marks, pc.equal(rows["duration_ns"], 0)), None, out["end"][1]),
        )
        domains, categories = _distinct(rows["domain"]), _distinct(rows["category"])
        ids = self._global_ids(rows["process_id"], rows["thread_id"])
        out |= {
            "eventType": ("INTEGER", kinds),
            "globalTid": ("INTEGER", ids),
            "textId": ("INTEGER", self._string_ids(rows["name"])),
            "text": ("TEXT", pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])),
            "domainId": ("INTEGER", _numbered(rows["domain"], domains.get)),
            "category": ("INTEGER", _numbered(rows["category"], categories.get)),
            "color": ("INTEGER", rows["color"]),
            "jsonText": ("TEXT", rows["payload"]),
        }
        # nsys numbers categories within a domain; ours are the same in all domains.
        stated = {
            "start_ns",
            "duration_ns",
            "process_id",
            "thread_id",
            "name",
            "style",
            "domain",
            "category",
            "color",
            "payload",
        }
        for column in TABLES["tx"].columns:
            if column.name not in stated and rows[column.name].null_count < rows.num_rows:
                out[column.name] = _TYPES.get(column.type, "INTEGER"), rows[column.name]
        self._create("NVTX_EVENTS", out, rows.num_rows)
        named: list[tuple[int, int | None, int | None, str]] = [
            (nsys.DOMAIN, number, None, word) for word, number in domains.items()
        ]
        named += [
            (nsys.CATEGORY, domain, number, word)
            for word, number in categories.items()
            for domain in [None, *domains.values()]
        ]
        self._database.executemany(
            "INSERT INTO NVTX_EVENTS (start, eventType, domainId, category, text) VALUES (0, ?, ?, ?, ?)",
            named,
        )

    def _own(self, table: Table, rows: pa.Table) -> None:
        columns = {
            column.name: (_TYPES.get(column.type, "INTEGER"), rows[column.name])
            for column in table.columns
            if rows[column.name].null_count < rows.num_rows or column.name == "start_ns"
        }
        if table.kind is Kind.INTERVAL:
            columns["end_ns"] = "INTEGER", _times(rows)["end"][1]
        self._create(nsys.OWN_PREFIX + table.name.upper(), columns, rows.num_rows)

    def _create(self, table: str, columns: dict[str, tuple[str, Any]], rows: int) -> None:
        """A table with all its rows; the values pass from columns to SQLite without a step of Python's for
        each."""
        definitions = ", ".join(f'"{name}" {kind}' for name, (kind, _) in columns.items())
        self._database.execute(f'CREATE TABLE "{table}" ({definitions})')
        marks = ", ".join("?" * len(columns))
        data = pa.table({name: _plain(values) for name, (_, values) in columns.items()})
        for at in range(0, rows, BATCH_ROWS):
            part = data.slice(at, BATCH_ROWS)
            self._database.executemany(
                f'INSERT INTO "{table}" VALUES ({marks})',
                zip(*(column.to_pylist() for column in part.columns), strict=True),
            )

    def _lists(self) -> None:
        """Strings, enumerations, and the names of processes, threads and devices as nsys keeps them."""
        execute, many = self._database.execute, self._database.executemany
        for kind in (nsys.COPY, nsys.MEMORY, nsys.SYNC):
            codes = self._enums.get(kind.table)
            if codes is not None:
                execute(f"CREATE TABLE {kind.table} (id INTEGER, name TEXT, label TEXT)")
                many(
                    f"INSERT INTO {kind.table} VALUES (?, ?, ?)",
                    [(code, word, word) for word, code in codes.items()],
                )
        processes = self._session.table("process", ("process_id", "name")).to_pylist()
        execute("CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)")
        many(
            "INSERT INTO PROCESSES VALUES (?, ?, ?)",
            [(self._global_id(row["process_id"], 0), row["process_id"], row["name"]) for row in processes],
        )
        threads = [
            row
            for row in self._session.table("thread", ("process_id", "thread_id", "name")).to_pylist()
            if row["name"]
        ]
        execute("CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER)")
        many(
            "INSERT INTO ThreadNames VALUES (?, NULL, ?)",
            [
                (
                    self._strings.setdefault(row["name"], len(self._strings)),
                    self._global_id(row["process_id"], row["thread_id"]),
                )
                for row in threads
            ],
        )
        devices = self._session.table("device", ("device_id", "name", "kind")).to_pylist()
        execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)")
        many(
            "INSERT INTO TARGET_INFO_GPU VALUES (?, ?)",
            list(dict.fromkeys((row["device_id"], row["name"]) for row in devices)),
        )
        execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
        many(
            "INSERT INTO StringIds VALUES (?, ?)", [(number, word) for word, number in self._strings.items()]
        )
        if self._odd_threads:
            execute(
                f"CREATE TABLE {nsys.THREAD_MAP} (globalTid INTEGER, processId INTEGER, threadId INTEGER)"
            )
            many(
                f"INSERT INTO {nsys.THREAD_MAP} VALUES (?, ?, ?)",
                [(number, pid, tid) for number, (pid, tid) in self._odd_threads.items()],
            )


def _times(rows: pa.Table) -> dict[str, tuple[str, Any]]:
    start, duration = (np.asarray(whole(rows[name])) for name in ("start_ns", "duration_ns"))
    return {
        "start": ("INTEGER", rows["start_ns"]),
        "end": ("INTEGER", pa.chunked_array([from_numpy(end_of(start, duration))])),
    }


def _plain(values: Any) -> Any:
    return pc.cast(values, pa.string()) if pa.types.is_dictionary(values.type) else values


def _coalesced(column: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    if not column.null_count:
        return column
    text = pc.coalesce(pc.cast(column, pa.string()), pc.cast(other, pa.string()))
    return text.dictionary_encode()


def _numbered(column: pa.ChunkedArray, number: Callable[[str], int | None]) -> pa.ChunkedArray:
    """Names as numbers; null for null. Each distinct name of a chunk is asked for once."""
    chunks = []
    for chunk in column.chunks:
        ids = [None if word is None else number(word) for word in chunk.dictionary.to_pylist()]
        chunks.append(pa.array(ids, pa.int64()).take(chunk.indices))
    return pa.chunked_array(chunks, pa.int64())


def _distinct(column: pa.ChunkedArray) -> dict[str, int]:
    """The names of a column, numbered from 1 on."""
    return {word: place for place, word in enumerate(column.unique().to_pylist(), 1) if word is not None}


def _ranks(column: pa.ChunkedArray) -> tuple[dict[int | None, int], np.ndarray[Any, np.dtype[np.int64]]]:
    """(rank of each value, rank of each row)."""
    encoded = pa.chunked_array(column, pa.int64()).combine_chunks().dictionary_encode("encode")
    values = encoded.dictionary.to_pylist()
    return {value: i for i, value in enumerate(values)}, np.asarray(encoded.indices)
