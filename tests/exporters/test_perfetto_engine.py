"""What Perfetto's own engine sees of our chrome and perfetto exports of real traces: as many slices as the
session has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session
from tops_kit.session.schema import TABLES, Kind

pytestmark = pytest.mark.traces
TRACES = (
    "kineto/alexnet.json.gz",
    "kineto/rocm_mi250.json.gz",
    "kineto/sampled_rank0.json.gz",
    "kineto/nccl.json.gz",
    "kineto/ns_resolution_rank0.json.gz",
    "chrome/chrome116.json",
    "viztracer/multithread.json",
)
PROBLEMS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def expected(session: Session) -> tuple[int, int]:
    """(slices and instants, sum of the durations)."""
    count = total = 0
    for name, rows in session.tables().items():
        if TABLES[name].kind is Kind.INTERVAL:
            count += rows
            total += sum(session.table(name, ["duration_ns"])["duration_ns"].to_pylist())
        elif name == "memory":
            count += rows
    return count, total


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("kind", ["perfetto", "chrome"])
def test_the_engine_loads_every_slice(
    kind: str, trace: str, traces_dir: Path, trace_processor: Any, export: Any, import_file: Any
) -> None:
    session = import_file(traces_dir / trace)
    path, _ = export(session, kind)
    totals, problems, flows = trace_processor(
        path, "select count(*), sum(dur) from slice", PROBLEMS, "select count(*) from flow"
    )
    assert totals == [expected(session)]
    assert problems == []
    if kind == "perfetto" and session.tables().get("link"):
        assert flows[0][0] > 0
