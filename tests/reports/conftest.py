"""Hand-made sessions for the tests of reports."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topsprof import tables
from topsprof.reports import registry
from topsprof.reports.data import Data

from tops_kit.session import Session, SessionWriter

EPOCH = 1_700_000_000_000_000_000
"""begin of the hand-made sessions: an absolute time whose ns a float64 can't hold"""

Tables = dict[str, dict[str, Any]]
MakeSession = Callable[[Tables], Session]


@pytest.fixture
def epoch() -> int:
    return EPOCH


@pytest.fixture
def make_session(tmp_path: Path) -> MakeSession:
    """Makes a session of tables; values of `start_ns` are relative to EPOCH."""
    made = 0

    def make(content: Tables) -> Session:
        nonlocal made
        made += 1
        path = tmp_path / f"made{made}.topsprof"
        with SessionWriter.create(path, kind="import", command=["made"]) as writer:
            for table, columns in content.items():
                shifted = {
                    name: [value + EPOCH for value in values] if name == "start_ns" else values
                    for name, values in columns.items()
                }
                writer.append(table, shifted)
        return Session.open(path)

    return make


@pytest.fixture
def report_json() -> Callable[..., list[dict[str, Any]]]:
    """Rows of one report as its JSON says, optionally filtered."""

    def rows(session: Session, name: str, **filters: str) -> list[dict[str, Any]]:
        key, report = registry.find(name)
        data = Data.filtered(session, **filters)
        out = io.StringIO()
        tables.write_json_object(
            [(key, tables.Sheet(report.columns, report.rows(data)))], out, tables.Style("json")
        )
        found: list[dict[str, Any]] = json.loads(out.getvalue())[key]
        return found

    return rows


@pytest.fixture
def small(make_session: MakeSession) -> Session:
    """Four kernels, their calls, copies, nested ranges, on one thread and one stream."""
    return make_session(SMALL)


SMALL: Tables = {
    "kernel": {
        "start_ns": [100, 200, 300, 900],
        "duration_ns": [50, 61, 70, 1],
        "name": ["a", "a", "b", "c"],
        "full_name": ["void a<1>()", "void a<2>()", "b", None],
        "process_id": 1,
        "device_id": 0,
        "context_id": 1,
        "stream_id": 7,
        "correlation_id": [1, 2, 3, 4],
        "grid_x": [1, 1, 2, None],
        "grid_y": 1,
        "grid_z": 1,
        "block_x": 32,
        "block_y": 1,
        "block_z": 1,
    },
    "api": {
        "start_ns": [50, 120, 290, 500],
        "duration_ns": [20, 20, 20, 10],
        "name": ["launch"] * 3 + ["sync"],
        "process_id": 1,
        "thread_id": 5,
        "correlation_id": [1, 2, 3, 9],
    },
    "memcpy": {
        "start_ns": [1000, 1200],
        "duration_ns": [100, 0],
        "name": ["x", "y"],
        "copy_kind": ["HtoD", "weird"],
        "size_bytes": [1_000_000, None],
        "process_id": 1,
        "device_id": 0,
        "stream_id": 7,
        "src_kind": "Pinned",
        "dst_kind": "Device",
    },
    "memset": {
        "start_ns": [1100],
        "duration_ns": [10],
        "name": ["Memset"],
        "size_bytes": [400],
        "process_id": 1,
        "device_id": 0,
        "stream_id": 7,
    },
    "tx": {
        "start_ns": [0, 40, 60, 280, 281],
        "duration_ns": [1000, 200, 0, 100, 98],
        "name": ["step", "fwd", "mark", "bwd", "bwd"],
        "process_id": 1,
        "thread_id": 5,
        "task_id": 0,
        "style": ["PushPop", "PushPop", "Mark", "PushPop", "StartEnd"],
        "domain": ["", "model", "", "", ""],
    },
    "device": {"process_id": [1], "device_id": [0], "name": ["GCU S60"], "kind": ["gcu"]},
}
