"""Real traces: what the session says equals what is computed straight from the JSON."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from topsprof.importers.base import ImportOptions
from topsprof.importers.job import JobOptions, import_files

from tops_kit.session import Session

pytestmark = [pytest.mark.traces, pytest.mark.usefixtures("backend")]

KINETO = [
    "alexnet",
    "diff_control",
    "diff_test",
    "nccl",
    "ns_resolution_rank0",
    "rocm_mi250",
    "sampled_rank0",
    "sampled_rank1",
    "simple_add",
]
LARGE = {"diff_control", "diff_test", "nccl", "ns_resolution_rank0"}
EXPLAINED = {
    "flow_end_alone",
    "flow_start_alone",
    "overlapping",
    "flow_ends_before_it_starts",
    "begin_without_end",
}
TABLES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "cuda_runtime": "api",
    "cuda_sync": "sync",
}


def ns(value: Any) -> int:
    return int((Decimal(str(value)) * 1000).to_integral_value())


def imported(file: Path, folder: Path) -> Session:
    target = folder / "out.topsprof"
    import_files([file], target, JobOptions(options=ImportOptions()))
    return Session.open(target)


@pytest.mark.parametrize("name", KINETO)
def test_kernels_equal_the_json(traces_dir: Path, tmp_path: Path, backend: str, name: str) -> None:
    if backend == "twin" and name in LARGE:
        pytest.skip("the twin is slow; the small traces do")
    file = traces_dir / "kineto" / f"{name}.json.gz"
    text = gzip.decompress(file.read_bytes())
    trace = json.loads(text, parse_float=Decimal)
    session = imported(file, tmp_path)
    assert {entry.code for entry in session.ledger.entries if not entry.clean} <= EXPLAINED

    slices = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    by_category = Counter(event["cat"] for event in slices)
    for category, table in TABLES.items():
        assert session.tables().get(table, 0) == by_category[category]
    kernels = [event for event in slices if event["cat"] == "kernel"]
    found = session.table("kernel").to_pylist()
    assert sum(row["duration_ns"] for row in found) == sum(ns(event["dur"]) for event in kernels)
    expected = Counter((event["name"], ns(event["ts"]), ns(event["dur"])) for event in kernels)
    assert Counter((row["full_name"], row["start_ns"], row["duration_ns"]) for row in found) == expected
    totals: Counter[str] = Counter()
    for event in kernels:
        totals[event["name"]] += ns(event["dur"])
    ours: Counter[str] = Counter()
    for row in found:
        ours[row["full_name"]] += row["duration_ns"]
    assert [total for _, total in ours.most_common(20)] == [total for _, total in totals.most_common(20)]
    assert ours == totals

    launches = {row["correlation_id"] for row in session.table("api", ["correlation_id"]).to_pylist()}
    stated = {event["args"]["correlation"] for event in slices if event["cat"] == "cuda_runtime"}
    assert launches == stated
    with_launch = sum(event["args"]["correlation"] in stated for event in kernels)
    assert sum(row["correlation_id"] in launches for row in found) == with_launch

    host = Counter(
        (event["name"], ns(event["ts"]))
        for event in slices
        if event["cat"] == "cpu_op" and not event["name"].startswith("ProfilerStep")
    )
    assert Counter((row["name"], row["start_ns"]) for row in session.table("op").to_pylist()) == host


def test_rank_and_devices(traces_dir: Path, tmp_path: Path) -> None:
    session = imported(traces_dir / "kineto" / "sampled_rank1.json.gz", tmp_path)
    (process,) = [row for row in session.table("process").to_pylist() if row["rank"] is not None]
    assert (process["process_id"], process["rank"]) == (4045, 1)
    assert set(session.table("kernel")["device_id"].to_pylist()) == {1}
    assert set(session.table("kernel")["process_id"].to_pylist()) == {4045}


@pytest.mark.parametrize("name", ["chrome116.json", "multi_thread_samples.json", "samples.json"])
def test_chrome(traces_dir: Path, tmp_path: Path, name: str) -> None:
    file = traces_dir / "chrome" / name
    trace = json.loads(file.read_text())
    session = imported(file, tmp_path)
    assert {entry.code for entry in session.ledger.entries if not entry.clean} <= EXPLAINED
    phases = Counter(event["ph"] for event in trace["traceEvents"])
    styles = (
        Counter(row["style"] for row in session.table("tx", ["style"]).to_pylist())
        if "tx" in session.tables()
        else {}
    )
    assert styles.get("PushPop", 0) == phases["X"]
    assert styles.get("Mark", 0) == phases["I"] + phases["R"] + phases["O"]
    assert session.tables()["sample"] == len(trace.get("samples", [])) or phases["P"]
