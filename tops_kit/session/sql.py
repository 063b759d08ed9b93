"""SQL over a session: DuckDB views on the mapped segments, and nothing else within reach."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.dataset as ds

from tops_kit.session import columns as cols
from tops_kit.session.schema import SLICE_TABLES, TABLES, Table

if TYPE_CHECKING:
    from tops_kit.session.reader import Session
    from tops_kit.session.selection import Selection

# Columns of the view `slice`: name, SQL type, and the columns of a table that may serve for it.
SLICE_COLUMNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("start_ns", "BIGINT", ("start_ns",)),
    ("end_ns", "BIGINT", ("end_ns",)),
    ("duration_ns", "BIGINT", ("duration_ns",)),
    ("name", "VARCHAR", ("name",)),
    ("process_id", "BIGINT", ("process_id",)),
    ("thread_id", "BIGINT", ("thread_id",)),
    ("device_id", "BIGINT", ("device_id",)),
    ("context_id", "BIGINT", ("context_id",)),
    ("stream_id", "BIGINT", ("stream_id",)),
    ("correlation_id", "BIGINT", ("correlation_id",)),
    ("domain", "VARCHAR", ("domain",)),
    ("category", "VARCHAR", ("category", "scope")),
    ("depth", "INTEGER", ("depth",)),
    ("args", "VARCHAR", ("args",)),
)
_SETTINGS = (
    "SET python_enable_replacements = false",  # no reach into the caller's variables
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class LazyTable(ds.InMemoryDataset):  # type: ignore[misc]
    """A table of a session as DuckDB sees it: columns are read (and decompressed) only when a query names
    them.

    DuckDB asks a dataset for its `schema`, and for a `scanner` of the columns and conditions that it pushes
    down.
    """

    def __new__(cls, session: Session, table: Table, selection: Selection | None) -> LazyTable:
        created: LazyTable = super().__new__(cls)
        return created

    def __init__(self, session: Session, table: Table, selection: Selection | None) -> None:
        super().__init__(cols.logical_schema(table).empty_table())
        self._session = session
        self._table = table
        self._selection = selection

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **options: Any) -> ds.Scanner:
        needed = self.schema.names if columns is None else list(columns)
        if filter is not None:
            words = set(re.findall(r"\w+", str(filter)))
            needed += [name for name in self.schema.names if name in words and name not in needed]
        if not needed:
            needed = [self.schema.names[0]]  # count(*): any column tells the rows
        rows = self._session.scan(self._table, needed, self._selection)
        return ds.InMemoryDataset(rows).scanner(columns=columns, filter=filter, **options)


def connect(session: Session, selection: Selection | None) -> duckdb.DuckDBPyConnection:
    """See Session.sql_connection."""
    from tops_kit.session.reader import MERGE_KEYS

    connection = duckdb.connect(":memory:")
    for name, table in TABLES.items():
        if not session.segments(name):
            connection.register(name, cols.logical_schema(table).empty_table())
        elif name in MERGE_KEYS:
            connection.register(name, session.table(name))
        else:
            connection.register(name, LazyTable(session, table, selection))
    connection.execute(_slice_view())
    connection.execute(_cause_view(session.info["kind"] == "recording"))
    # Large queries spill there, not into a folder `.tmp` where the user happens to stand.
    spill = Path(tempfile.gettempdir()) / f"topsprof-sql-{os.getpid()}"
    connection.execute("SET temp_directory = ?", [str(spill)])
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


_WORK = ("kernel", "memcpy", "memset", "graph", "host_function", "gcu_event")
"""Tables of what calls cause on a device."""
_OF_A_STREAM = "stream wait event"
_OF_GRAPHS = ("kernel", "memcpy", "memset", "host_function")


def _cause_view(recorded: bool) -> str:
    """The view `cause`: who caused whom. A trace of another tool says so itself; of a recording it follows
    from correlation ids, edges of graphs, events and ranges."""
    columns = [column.name for column in TABLES["link"].columns]
    parts = [f"SELECT {', '.join(columns)} FROM link"]
    if recorded:
        work = " UNION ALL ".join(
            f"SELECT process_id, stream_id, start_ns, correlation_id FROM {name}" for name in _WORK
        )
        nodes = " UNION ALL ".join(
            f"SELECT process_id, stream_id, start_ns, correlation_id, graph_node_id FROM {name} "
            "WHERE graph_node_id IS NOT NULL"
            for name in _OF_GRAPHS
        )
        parts += [
            # of a runtime and a driver call with one number the outer one
            f"""SELECT 'ac2g', work.correlation_id, call.process_id, call.thread_id, call.start_ns,
                    work.process_id, work.stream_id, work.start_ns
                FROM ({work}) work JOIN (
                    SELECT process_id, correlation_id, min(start_ns) AS start_ns,
                           arg_min(thread_id, start_ns) AS thread_id
                    FROM api WHERE correlation_id > 0 GROUP BY process_id, correlation_id
                ) call USING (process_id, correlation_id)""",
            f"""SELECT 'graph', after.correlation_id, before.process_id, before.stream_id, before.start_ns,
                    after.process_id, after.stream_id, after.start_ns
                FROM (
                    SELECT DISTINCT process_id, exec_id, graph_node_id,
                        unnest(string_split(trim("after", '[]'), ',')) AS waits_for
                    FROM graph_node WHERE "after" <> '[]'
                ) edge
                JOIN graph launch ON launch.process_id = edge.process_id AND launch.exec_id = edge.exec_id
                JOIN ({nodes}) after ON after.process_id = launch.process_id
                    AND after.correlation_id = launch.correlation_id
                    AND after.graph_node_id = edge.graph_node_id
                JOIN ({nodes}) before ON before.process_id = launch.process_id
                    AND before.correlation_id = launch.correlation_id
                    AND before.graph_node_id = CAST(edge.waits_for AS BIGINT)""",
            # a wait is for the record that was called before it; the host goes on when it ends
            f"""SELECT 'event', waited.event_id, reached.process_id, reached.stream_id, reached.start_ns,
                    waited.process_id, waited.thread_id, waited.end_ns
                FROM (SELECT * FROM sync WHERE event_id IS NOT NULL AND name <> '{_OF_A_STREAM}') waited
                ASOF JOIN gcu_event reached ON reached.process_id = waited.process_id
                    AND reached.event_id = waited.event_id
                    AND reached.correlation_id <= waited.correlation_id""",
            # a stream with what it was given next
            f"""SELECT 'event', waited.event_id, waited.process_id, waited.source_stream, waited.reached_ns,
                    work.process_id, work.stream_id, work.start_ns
                FROM (
                    SELECT waited.process_id, waited.event_id, waited.stream_id, waited.correlation_id,
                        reached.stream_id AS source_stream, reached.start_ns AS reached_ns
                    FROM (SELECT * FROM sync WHERE name = '{_OF_A_STREAM}') waited
                    ASOF JOIN gcu_event reached ON reached.process_id = waited.process_id
                        AND reached.event_id = waited.event_id
                        AND reached.correlation_id <= waited.correlation_id
                ) waited
                ASOF JOIN ({work}) work ON work.process_id = waited.process_id
                    AND work.stream_id = waited.stream_id AND work.correlation_id > waited.correlation_id""",
            # the innermost range of the thread that a call was made in
            """SELECT 'tx', call.correlation_id, call.process_id, call.thread_id, max(tx.start_ns),
                    call.process_id, call.thread_id, call.start_ns
                FROM (SELECT * FROM api WHERE correlation_id > 0) call
                JOIN tx ON tx.process_id = call.process_id AND tx.thread_id = call.thread_id
                    AND tx.style <> 'Mark' AND tx.start_ns <= call.start_ns
                    AND tx.start_ns + tx.duration_ns >= call.start_ns + call.duration_ns
                GROUP BY call.correlation_id, call.process_id, call.thread_id, call.start_ns""",
        ]
    return f"CREATE VIEW cause ({', '.join(columns)}) AS " + " UNION ALL ".join(parts)


def _slice_view() -> str:
    parts = []
    for name in SLICE_TABLES:
        known = cols.logical_schema(TABLES[name]).names
        selected = [f"'{name}' AS table_name"]
        for column, type_, sources in SLICE_COLUMNS:
            source = next((source for source in sources if source in known), None)
            selected.append(f"CAST({source or 'NULL'} AS {type_}) AS {column}")
        parts.append(f"SELECT {', '.join(selected)} FROM {name}")
    return "CREATE VIEW slice AS " + " UNION ALL ".join(parts)
