"""Sessions to test on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tops_kit.session import Session, SessionWriter, _lanes_py
from tops_kit.session.backend import backend

Rows = list[dict[str, Any]]


def _backends() -> list[Any]:
    own = backend()
    return [_lanes_py] if own is _lanes_py else [own, _lanes_py]


@pytest.fixture(params=_backends(), ids=lambda module: module.__name__.rpartition(".")[2])
def lanes_module(request: pytest.FixtureRequest) -> Any:
    """The C extension (where it is built) and its twin."""
    return request.param


@pytest.fixture
def nested_ranges() -> Callable[..., dict[str, Any]]:
    """Columns of table tx: `calls` ranges with two ranges in each, in order of their ends."""

    def build(calls: int, *, seed: int = 1, start_ns: int = 0, thread_id: int = 7) -> dict[str, Any]:
        random = np.random.default_rng(seed)
        length = random.integers(200, 9000, calls)
        begin = start_ns + np.cumsum(length + random.integers(10, 3000, calls)) - length
        names = pa.array([f"range {i}" for i in range(20)])
        codes = pa.array(random.integers(0, 20, 3 * calls).astype(np.int32))
        return {
            "start_ns": np.stack([begin + 10, begin + length // 2, begin], 1).ravel(),
            "duration_ns": np.stack([length // 3, length // 4, length], 1).ravel(),
            "name": pa.DictionaryArray.from_arrays(codes, names),
            "process_id": 1,
            "thread_id": thread_id,
            "task_id": 0,
            "domain": "",
            "style": "PushPop",
            "depth": np.tile(np.array([1, 1, 0], np.int32), calls),
        }

    return build


@pytest.fixture
def make_session(tmp_path: Path, nested_ranges: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    """Writes a session of several raw segments on two threads, and returns its path."""

    def make(name: str = "made.topsprof", *, segments: int = 3, calls: int = 400) -> Path:
        path = tmp_path / name
        with SessionWriter.create(path, kind="recording", command=["app", "--x"]) as writer:
            for number in range(segments):
                for thread in (7, 8):
                    writer.append(
                        "tx",
                        nested_ranges(
                            calls, seed=number * 10 + thread, start_ns=number * 20_000_000, thread_id=thread
                        ),
                    )
                writer.append("process", {"process_id": [1], "pid": [100 + number]})
                writer.flush(meta={"part": number})
        return path

    return make


@pytest.fixture
def rows_of() -> Callable[..., Rows]:
    """All rows of a table in an order that doesn't depend on how they lie on disk."""

    def rows(session: Session | Path, table: str = "tx", columns: list[str] | None = None) -> Rows:
        opened = session if isinstance(session, Session) else Session.open(session)
        return sorted(opened.table(table, columns).to_pylist(), key=repr)

    return rows
