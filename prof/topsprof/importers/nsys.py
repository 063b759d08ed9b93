"""Imports what `nsys export --type sqlite` writes, and our own sqlite export, which adds columns and tables
to that.

Any table or column may be missing.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.errors import TraceError
from tops_kit.session.schema import TABLES, Kind, Table
from topsprof.importers import nsys_schema as nsys
from topsprof.importers.base import ImportOptions, Source, Tally
from topsprof.importers.nsys_database import MAGIC, Database, connect, plain_file
from topsprof.importers.nsys_schema import MAPPED, NVTX, Mapped

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

_DRIVER = r"^cu[A-Z]"
# Columns of NVTX_EVENTS; the payload is the first of its columns that is not null.
_PAYLOAD: Final = (
    "jsonText",
    "uint64Value",
    "int64Value",
    "doubleValue",
    "uint32Value",
    "int32Value",
    "floatValue",
)
_EVENT: Final = (
    "start",
    "end",
    "eventType",
    "category",
    "color",
    "text",
    "textId",
    "globalTid",
    "endGlobalTid",
    "domainId",
    *_PAYLOAD,
)


class NsysImporter:
    """The SQLite export of nsys."""

    name = "nsys"
    suffixes = (".sqlite", ".sqlite3", ".db")

    def detects(self, head: bytes, path: Path) -> bool:
        return head.startswith(MAGIC)

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        try:
            with plain_file(source) as path, closing(connect(path)) as connection:
                _Import(connection, source, writer, options).run()
        except sqlite3.Error as error:
            raise TraceError(
                f"{source.path}: not a readable SQLite database ({error}); export it again with "
                "'nsys export --type sqlite'"
            ) from error


class _Import:
    """One import under way."""

    def __init__(
        self, connection: sqlite3.Connection, source: Source, writer: SessionWriter, options: ImportOptions
    ) -> None:
        self._source = source
        self._writer = writer
        self._options = options
        self._tally = Tally(writer.ledger, "nsys", source, options)
        self._database = Database(connection, self._tally)
        self._tables = self._database.tables
        self._threads = self._thread_map()
        self._seen: set[int] = set()  # pids

    def run(self) -> None:
        known = {one.theirs for one in MAPPED} | {NVTX}
        own = {nsys.OWN_PREFIX + name.upper(): table for name, table in TABLES.items()}
        if not self._tables & (known | own.keys()):
            raise TraceError(
                f"{self._source.path}: no table of nsys is in this database; export the report with "
                "'nsys export --type sqlite'"
            )
        for one in MAPPED:
            if one.theirs in self._tables:
                self._mapped(one)
        if NVTX in self._tables:
            self._nvtx()
        for name, table in own.items():
            if name in self._tables:
                self._own(name, table)
        self._names()

    def _thread_map(self) -> dict[int, tuple[int, int]]:
        if nsys.THREAD_MAP not in self._tables:
            return {}
        rows = self._database.rows(f"SELECT globalTid, processId, threadId FROM {nsys.THREAD_MAP}")
        return {row[0]: (row[1], row[2]) for row in rows}

    def _ids(self, numbers: list[Any]) -> tuple[pa.Array, pa.Array]:
        """(process_id, thread_id) of global numbers."""
        array = pa.array(numbers, pa.int64())
        distinct, inverse = np.unique(np.asarray(array.fill_null(-1)), return_inverse=True)
        process: list[int | None] = []
        thread: list[int | None] = []
        for number in distinct.tolist():
            if number == -1:
                process.append(None)
                thread.append(None)
                continue
            pid, tid = self._threads.get(number, (number >> nsys.PID_BITS & 0xFFFFFF, number & 0xFFFFFF))
            if pid is not None:
                self._seen.add(pid)
            process.append(None if pid is None else self._options.process_id(pid))
            thread.append(tid)
        index = pa.array(inverse)
        return pa.array(process, pa.int64()).take(index), pa.array(thread, pa.int64()).take(index)

    # Tables

    def _mapped(self, one: Mapped) -> None:
        table = TABLES[one.ours]
        there = self._database.columns(one.theirs)
        if "start" not in there:
            self._tally.dropped("table_without_start", 1, f"table {one.theirs}")
            return
        wanted = ["start", *(name for name in ("end", one.thread) if name in there)]
        wanted += [
            name
            for name in {
                *one.columns.values(),
                *one.strings.values(),
                *(name for name, _ in one.enums.values()),
            }
            if name in there
        ]
        own = [
            column.name
            for column in table.columns
            if column.name in there and column.name not in one.stated and column.name not in wanted
        ]
        summed = "staticSharedMemory" in there and "shared_bytes" in one.columns
        wanted += [*own, *(["staticSharedMemory"] if summed else [])]
        for rows in self._database.fetch(one.theirs, wanted):
            columns = self._times(rows, table)
            if one.thread in rows:
                process, thread = self._ids(rows[one.thread])
                columns["process_id"] = process
                if one.thread == "globalTid":
                    columns["thread_id"] = thread
            columns |= {ours: rows[theirs] for ours, theirs in one.columns.items() if theirs in rows}
            columns |= {
                ours: self._database.text(rows[theirs])
                for ours, theirs in one.strings.items()
                if theirs in rows
            }
            columns |= {
                ours: self._database.enum(rows[theirs], kind)
                for ours, (theirs, kind) in one.enums.items()
                if theirs in rows
            }
            columns |= {name: rows[name] for name in own}
            if summed and "shared_bytes" in columns:
                columns["shared_bytes"] = pc.add(
                    pa.array(columns["shared_bytes"], pa.int64()),
                    pc.fill_null(pa.array(rows["staticSharedMemory"], pa.int64()), 0),
                )
            self._name(one.ours, columns)
            self._put(table, columns)

    def _name(self, ours: str, columns: dict[str, Any]) -> None:
        """Names of what nsys gives no name, and which side of the runtime a call is of."""
        if ours == "api" and "domain" not in columns and "name" in columns:
            driver = pc.match_substring_regex(columns["name"].dictionary_decode().fill_null(""), _DRIVER)
            columns["domain"] = pc.if_else(driver, "driver", "runtime")
        if "name" in columns:
            return
        kind = {"memcpy": "copy_kind", "sync": "sync_kind"}.get(ours)
        word = {"memcpy": "Memcpy", "memset": "Memset", "graph": "Graph", "sync": "Sync"}.get(ours, ours)
        if kind not in columns:
            columns["name"] = word
            return
        kinds = columns[kind].dictionary_decode()
        if ours == "memcpy":
            columns["name"] = pc.binary_join_element_wise(word, kinds.fill_null("?"), " ")
        else:
            columns["name"] = pc.coalesce(kinds, pa.scalar(word))

    def _nvtx(self) -> None:
        there = self._database.columns(NVTX)
        if not {"start", "eventType"} <= set(there):
            self._tally.dropped("table_without_start", 1, f"table {NVTX}")
            return
        domains, categories = self._nvtx_names(there)
        used = [name for name in _EVENT if name in there]
        own = [
            column.name
            for column in TABLES["tx"].columns
            if column.name in there
            and column.name not in used
            and column.name not in ("start_ns", "duration_ns", "style", "domain")
        ]
        kinds = ", ".join(map(str, nsys.STYLES))
        ((other,),) = self._database.rows(
            f"SELECT count(*) FROM {NVTX} WHERE eventType NOT IN ({kinds}, {nsys.CATEGORY}, {nsys.DOMAIN})"
        )
        self._tally.unsupported("nvtx_event_type", other, "resources, names and domains' ends")
        for rows in self._database.fetch(NVTX, used + own, f"WHERE eventType IN ({kinds})"):
            columns = self._times(rows, TABLES["tx"])
            columns |= {name: rows[name] for name in own}
            n = len(rows["start"])
            text = pa.array(rows["text"], pa.string()) if "text" in rows else pa.nulls(n, pa.string())
            columns["name"] = (
                pc.coalesce(text, self._database.text(rows["textId"]).dictionary_decode())
                if "textId" in rows
                else text
            )
            columns["style"] = [nsys.STYLES[kind] for kind in rows["eventType"]]
            if "globalTid" in rows:
                columns["process_id"], columns["thread_id"] = self._ids(rows["globalTid"])
            if "endGlobalTid" in rows:
                columns["end_thread_id"] = self._ids(rows["endGlobalTid"])[1]
            if "color" in rows:
                bits = pa.array(rows["color"], pa.int64())
                columns["color"] = pc.cast(pc.bit_wise_and(bits, 0xFFFFFFFF), pa.uint32())
            domain = rows.get("domainId", [None] * n)
            columns["domain"] = [domains.get(one) for one in domain]
            if "category" in rows:
                columns["category"] = [
                    None if two is None else categories.get((one, two), str(two) if two else None)
                    for one, two in zip(domain, rows["category"], strict=True)
                ]
            columns["payload"] = self._payload(rows, n)
            self._put(TABLES["tx"], columns)

    def _nvtx_names(self, there: list[str]) -> tuple[dict[Any, str], dict[tuple[Any, Any], str]]:
        """Names of domains and of (domain, category): rows of the same table, and few."""
        if not {"domainId", "category"} <= set(there):
            return {}, {}
        text = ", ".join(name if name in there else "NULL" for name in ("text", "textId"))
        rows = self._database.rows(
            f"SELECT eventType, domainId, category, {text} FROM {NVTX} "
            f"WHERE eventType IN ({nsys.CATEGORY}, {nsys.DOMAIN})"
        )
        named = [
            (*row[:3], row[3] if row[3] is not None else self._database.text([row[4]]).to_pylist()[0])
            for row in rows
        ]
        return (
            {row[1]: row[3] for row in named if row[0] == nsys.DOMAIN and row[3] is not None},
            {(row[1], row[2]): row[3] for row in named if row[0] == nsys.CATEGORY and row[3] is not None},
        )

    def _payload(self, rows: dict[str, list[Any]], n: int) -> pa.Array:
        out = pa.nulls(n, pa.string())
        for name in _PAYLOAD:
            if name in rows and any(value is not None for value in rows[name]):
                values = pa.array(rows[name], pa.float64() if name in ("doubleValue", "floatValue") else None)
                out = pc.coalesce(out, values.cast(pa.string()))
        return out

    def _own(self, name: str, table: Table) -> None:
        """A table that our export wrote under the names of our own columns."""
        stored = self._database.columns(name)
        there = [column.name for column in table.columns if column.name in stored]
        for rows in self._database.fetch(name, there):
            columns: dict[str, Any] = dict(rows)
            for key in ("process_id", "parent_id") if table.name == "process" else ("process_id",):
                if key in columns:
                    columns[key] = pa.array(
                        [None if one is None else self._options.process_id(one) for one in columns[key]],
                        pa.int64(),
                    )
            if table.kind is Kind.PLAIN:
                self._writer.append(table.name, _booleans(table, columns))
            else:
                self._put(table, columns)

    def _times(self, rows: dict[str, list[Any]], table: Table) -> dict[str, Any]:
        start = pa.array(rows["start"], pa.int64())
        columns: dict[str, Any] = {"start_ns": start}
        if table.kind is Kind.INTERVAL:
            end = pa.array(rows["end"], pa.int64()) if "end" in rows else pa.nulls(len(start), pa.int64())
            columns["duration_ns"] = pc.subtract(pc.coalesce(end, start), start)
        return columns

    def _put(self, table: Table, columns: dict[str, Any]) -> None:
        start = (
            pa.array(columns["start_ns"], pa.int64())
            if not isinstance(columns["start_ns"], pa.Array)
            else columns["start_ns"]
        )
        self._tally.read(len(start))
        if start.null_count:
            self._tally.dropped("row_without_start", start.null_count, f"in {table.name}")
            whole = pa.table(
                {
                    name: value if isinstance(value, (pa.Array, list)) else pa.repeat(value, len(start))
                    for name, value in columns.items()
                }
            ).filter(start.is_valid())
            columns = {name: whole[name] for name in whole.column_names}
        if table.kind is Kind.INTERVAL:
            duration = columns["duration_ns"]
            duration = (
                duration
                if isinstance(duration, (pa.Array, pa.ChunkedArray))
                else pa.array(duration, pa.int64())
            )
            negative = pc.sum(pc.less(duration, 0)).as_py() or 0
            self._tally.repaired("ends_before_it_starts", negative, "their length is 0")
            if negative:
                columns["duration_ns"] = pc.max_element_wise(duration, 0)
        n = len(columns["start_ns"])
        if n:
            self._writer.append(table.name, _booleans(table, columns))
            self._tally.written(n)

    def _names(self) -> None:
        """Processes, threads and devices as nsys names them."""
        own = {nsys.OWN_PREFIX + name for name in ("PROCESS", "THREAD", "DEVICE")} & self._tables
        processes: dict[int, str | None] = dict.fromkeys(self._seen)
        if "PROCESSES" in self._tables and {"pid", "name"} <= set(self._database.columns("PROCESSES")):
            processes |= dict(self._database.rows("SELECT pid, name FROM PROCESSES"))
        if processes and nsys.OWN_PREFIX + "PROCESS" not in own:
            pids = sorted(pid for pid in processes if pid is not None)
            names = [processes[pid] for pid in pids]
            self._writer.append(
                "process",
                {
                    "process_id": [self._options.process_id(pid) for pid in pids],
                    "pid": pids,
                    "name": pa.array([name and Path(str(name)).name for name in names], pa.string()),
                },
            )
        if "ThreadNames" in self._tables and nsys.OWN_PREFIX + "THREAD" not in own:
            rows = self._database.rows("SELECT globalTid, nameId FROM ThreadNames")
            if rows:
                process, thread = self._ids([row[0] for row in rows])
                self._writer.append(
                    "thread",
                    {
                        "process_id": process,
                        "thread_id": thread,
                        "name": self._database.text([row[1] for row in rows]),
                    },
                )
        if "TARGET_INFO_GPU" in self._tables and nsys.OWN_PREFIX + "DEVICE" not in own:
            there = self._database.columns("TARGET_INFO_GPU")
            if {"id", "name"} <= set(there):
                rows = self._database.rows("SELECT id, name FROM TARGET_INFO_GPU")
                if rows:
                    self._writer.append(
                        "device",
                        {
                            "device_id": [row[0] for row in rows],
                            "name": [row[1] for row in rows],
                            "kind": "gpu",
                        },
                    )


def _booleans(table: Table, columns: dict[str, Any]) -> dict[str, Any]:
    """SQLite keeps truth values as numbers."""
    numbers = {column.name for column in table.columns if column.type == "bool"} & columns.keys()
    return columns | {name: pc.not_equal(pa.array(columns[name], pa.int64()), 0) for name in numbers}
