"""The nsys importer against small databases like those of `nsys export --type sqlite`."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tops_kit.errors import TraceError
from tops_kit.session import Session

PID, TID = 1234, 77
THREAD = 0x01 << 56 | PID << 24 | TID  # the hardware's number stands above

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'void gemm<float>(float*)'), (3, 'cudaLaunchKernel_v7000'), (4,
'cuMemAlloc_v2'),
  (5, 'step'), (6, 'main'), (7, 'read');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER,
contextId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
  registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER,
  blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 150, 0, 1, 7, 9, {pid}, 2, 1, 32, 4, 2, 1, 128, 1, 1,
1024, 512, NULL); CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
contextId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind
  INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (200, 210, 0, 1, 7, 10, {pid}, 4096, 1, 0, 2), (220, 210, 0, 1,
7, 11, {pid}, 1, 99, 0, 2); CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (99, 'New kind', 'new');
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER, memKind INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (300, 301, 0, 1, 7, 12, {pid}, 255, 64, 2);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId
INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (400, 450, 0, 1, 7, 13, {pid}, 3);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
correlationId INTEGER,
  nameId INTEGER, returnValue INTEGER, callchainId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (90, 99, 0, {thread}, 9, 3, 0, NULL), (80, 85, 1, {thread}, 0,
4, 2, NULL); CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER,
category INTEGER, color INTEGER, text TEXT,
  globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value
  INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonText TEXT);
INSERT INTO NVTX_EVENTS (start, end, eventType, category, color, text, globalTid, endGlobalTid, textId,
domainId, int64Value) VALUES
  (0, NULL, 75, NULL, NULL, 'Library', {thread}, NULL, NULL, 3, NULL), (0, NULL, 33, 8, NULL, 'io', {thread},
  NULL, NULL, 3, NULL), (10, 20, 59, 8, -16711936, NULL, {thread}, NULL, 5, 3, 42), (11, NULL, 34, NULL, NULL,
  'mark', {thread}, NULL, NULL, NULL, NULL), (12, 30, 60, NULL, NULL, 'across', {thread}, {thread} + 1, NULL,
  NULL, NULL), (1, NULL, 39, NULL, NULL, 'resource', {thread}, NULL, NULL, 3, NULL);
CREATE TABLE OSRT_API (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER,
returnValue INTEGER); INSERT INTO OSRT_API VALUES (500, 510, 27, {thread}, 7, 16);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100');
CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
INSERT INTO ThreadNames VALUES (6, 0, {thread});
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
INSERT INTO PROCESSES VALUES ({pid}, 1234, '/usr/bin/python3');
""".replace("{thread}", str(THREAD)).replace("{pid}", str(THREAD - TID))


@pytest.fixture
def database(tmp_path: Path) -> Any:
    """`database(more SQL)` -> bytes of the database."""

    def make(more: str = "", schema: str = SCHEMA) -> bytes:
        path = tmp_path / "made.sqlite"
        path.unlink(missing_ok=True)
        connection = sqlite3.connect(path)
        connection.executescript(schema + more)
        connection.commit()
        connection.close()
        return path.read_bytes()

    return make


def rows(session: Session, table: str, *columns: str) -> list[tuple[Any, ...]]:
    data = session.table(table)
    table_rows = zip(
        data["start_ns"].to_pylist() if "start_ns" in data.column_names else [0] * data.num_rows,
        zip(*(data[name].to_pylist() for name in columns), strict=True),
        strict=True,
    )
    return [row for _, row in sorted(table_rows, key=lambda pair: pair[0])]


@pytest.mark.smoke
def test_every_table_of_an_export(database: Any, import_bytes: Any) -> None:
    session = import_bytes(database(), name="report.sqlite")
    assert rows(
        session,
        "kernel",
        "start_ns",
        "duration_ns",
        "name",
        "full_name",
        "process_id",
        "device_id",
        "context_id",
        "stream_id",
        "correlation_id",
        "grid_x",
        "block_x",
        "registers",
        "shared_bytes",
        "graph_node_id",
    ) == [(100, 50, "gemm", "void gemm<float>(float*)", PID, 0, 1, 7, 9, 4, 128, 32, 1536, None)]
    assert rows(
        session, "memcpy", "name", "copy_kind", "src_kind", "dst_kind", "size_bytes", "duration_ns"
    ) == [
        ("Memcpy HtoD", "HtoD", "Pageable", "Device", 4096, 10),
        ("Memcpy New kind", "New kind", "Pageable", "Device", 1, 0),
    ]
    assert rows(session, "memset", "value", "size_bytes", "memory_kind") == [(255, 64, "Device")]
    assert rows(session, "sync", "sync_kind", "name") == [("Stream Synchronize", "Stream Synchronize")]
    assert rows(
        session, "api", "name", "domain", "process_id", "thread_id", "correlation_id", "return_value"
    ) == [("cuMemAlloc_v2", "driver", PID, TID, 0, 2), ("cudaLaunchKernel_v7000", "runtime", PID, TID, 9, 0)]
    assert rows(
        session,
        "tx",
        "name",
        "start_ns",
        "duration_ns",
        "style",
        "domain",
        "category",
        "color",
        "payload",
        "end_thread_id",
    ) == [
        ("step", 10, 10, "PushPop", "Library", "io", 0xFF00FF00, "42", None),
        ("mark", 11, 0, "Mark", None, None, None, None, None),
        ("across", 12, 18, "StartEnd", None, None, None, None, TID + 1),
    ]
    assert rows(session, "osrt", "name", "return_value", "thread_id") == [("read", 16, TID)]
    assert rows(session, "device", "device_id", "name") == [(0, "NVIDIA A100")]
    assert rows(session, "thread", "process_id", "thread_id", "name") == [(PID, TID, "main")]
    assert rows(session, "process", "process_id", "name") == [(PID, "python3")]
    assert {f"{one.kind}:{one.code}": one.count for one in session.ledger.entries if not one.clean} == {
        "repaired:ends_before_it_starts": 1,
        "unsupported:nvtx_event_type": 1,
    }


def test_tables_and_columns_may_be_missing(database: Any, import_bytes: Any) -> None:
    schema = """CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, shortName INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 5), (NULL, 3, 5);
    CREATE TABLE NVTX_EVENTS (start INTEGER, eventType INTEGER, text TEXT); INSERT INTO NVTX_EVENTS VALUES (4,
    34, 'm');"""
    session = import_bytes(gzip.compress(database(schema=schema)), name="report.sqlite.gz")
    assert rows(session, "kernel", "start_ns", "duration_ns", "name", "process_id") == [(1, 1, None, None)]
    assert rows(session, "tx", "name", "style") == [("m", "Mark")]
    assert {f"{one.kind}:{one.code}": one.count for one in session.ledger.entries if not one.clean} == {
        "repaired:undefined_string": 2,
        "dropped:row_without_start": 1,
    }


@pytest.mark.parametrize("schema", ["CREATE TABLE something (a INTEGER);"])
def test_other_databases_are_refused_in_one_line(database: Any, import_bytes: Any, schema: str) -> None:
    with pytest.raises(TraceError, match="no table of nsys"):
        import_bytes(database(schema=schema), name="x.sqlite")


def test_a_damaged_database_is_refused_in_one_line(database: Any, import_bytes: Any) -> None:
    raw = bytearray(database())
    raw[4096:8192] = b"\x5a" * 4096
    with pytest.raises(TraceError) as raised:
        import_bytes(bytes(raw[:9000]), name="x.sqlite")
    assert "\n" not in str(raised.value)


def test_text_in_columns_of_numbers(database: Any, import_bytes: Any) -> None:
    data = database(
        """
        UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET registersPerThread = 'many', gridX = '4', streamId = x'00ff';
        UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 'never' WHERE correlationId = 10;
        UPDATE NVTX_EVENTS SET color = 'red', globalTid = 1.5e300 WHERE eventType = 34;
        UPDATE NVTX_EVENTS SET text = x'6162' WHERE text = 'across';
        """
    )
    session = import_bytes(data, name="a.sqlite")
    assert session.tables()["kernel"] == 1
    assert session.tables()["memcpy"] == 1
    assert "ab" in session.table("tx", ["name"]).column(0).to_pylist()
    counted = {f"{entry.kind}:{entry.code}": entry.count for entry in session.ledger.entries}
    assert counted["dropped:row_without_start"] == 1
    assert counted["repaired:value_of_no_use"] >= 4


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE StringIds; CREATE TABLE StringIds (id, value); INSERT INTO StringIds VALUES ('x', 1)",
        "INSERT INTO PROCESSES (pid, name) VALUES ('x', 'a'), (1, 'b')",
        "DELETE FROM TARGET_INFO_GPU; INSERT INTO TARGET_INFO_GPU (id, name) VALUES ('x', 5)",
        "INSERT INTO ThreadNames (globalTid, nameId) VALUES ('x', 'y')",
    ],
)
def test_what_can_not_be_taken_for_a_number_is_one_line(
    database: Any, import_bytes: Any, change: str
) -> None:
    try:
        import_bytes(database(change), name="a.sqlite")
    except TraceError as error:
        assert "a.sqlite" in str(error) and "nsys" in str(error) and "\n" not in str(error)
