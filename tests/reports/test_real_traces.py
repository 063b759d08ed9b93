"""Reports of imported traces of real machines against sums straight from the JSON."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal

import pytest

from tops_kit.session import Session

KERNELS = {"kernel"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "driver"}
FILES = [
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
pytestmark = pytest.mark.traces


def read_events(path):
    """Complete events with exact times: ts and dur as decimals of us."""
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    found = json.loads(text, parse_float=Decimal, parse_int=Decimal, strict=False)
    return [event for event in found["traceEvents"] if event.get("ph") == "X"]


def sums(events, categories):
    """name -> (count, total ns) of the events of some categories."""
    found = defaultdict(lambda: (0, 0))
    for event in events:
        if str(event.get("cat", "")).lower() in categories:
            count, total = found[event["name"]]
            found[event["name"]] = (count + 1, total + int(Decimal(event["dur"]) * 1000))
    return dict(found)


@pytest.fixture(scope="module")
def imported(traces_dir, tmp_path_factory):
    """Imports a trace once: name -> (session, its events)."""
    from topsprof.cli import main

    cache = {}

    def get(name):
        if name not in cache:
            file = traces_dir / "kineto" / f"{name}.json.gz"
            target = tmp_path_factory.mktemp("imported") / f"{name}.topsprof"
            assert main(["import", str(file), "-o", str(target)]) == 0
            cache[name] = Session.open(target), read_events(file)
        return cache[name]

    return get


@pytest.mark.parametrize("name", FILES)
def test_kernels_are_those_of_the_json(imported, report_json, name):
    session, events = imported(name)
    expected = sums(events, KERNELS)
    rows = report_json(session, "gcu_kern_sum") if "kernel" in session.tables() else []
    assert {row["Name"]: row["Instances"] for row in rows} == {
        key: count for key, (count, _) in expected.items()
    }
    for row in rows:
        count, total = expected[row["Name"]]
        # each length may be rounded to a whole ns once
        assert row["Total Time (ns)"] == pytest.approx(total, abs=count)
    assert [row["Total Time (ns)"] for row in rows] == sorted(
        (row["Total Time (ns)"] for row in rows), reverse=True
    )


@pytest.mark.parametrize("name", FILES)
def test_calls_are_those_of_the_json(imported, report_json, name):
    session, events = imported(name)
    expected = sums(events, CALLS)
    rows = report_json(session, "api_sum") if "api" in session.tables() else []
    assert {row["Name"]: row["Num Calls"] for row in rows} == {
        key: count for key, (count, _) in expected.items()
    }


@pytest.mark.parametrize("name", FILES)
def test_launches_meet_their_kernels(imported, report_json, name):
    session, events = imported(name)
    if not {"api", "kernel"} <= set(session.tables()):
        pytest.skip("the trace has no launches")
    calls = {
        int(e["args"]["correlation"])
        for e in events
        if str(e.get("cat", "")).lower() in CALLS and "correlation" in e.get("args", {})
    }
    kernels = [
        int(e["args"]["correlation"])
        for e in events
        if str(e.get("cat", "")).lower() in KERNELS and "correlation" in e.get("args", {})
    ]
    rows = report_json(session, "kern_exec_sum")
    assert sum(row["Count"] for row in rows) == sum(1 for number in kernels if number in calls and number > 0)


@pytest.mark.parametrize("name", FILES)
def test_every_report_runs_on_every_trace(imported, report_json, name):
    from topsprof.reports import registry
    from topsprof.reports.data import Data

    session, _ = imported(name)
    tables = Data(session).tables
    for report_name in registry.names():
        if not registry.find(report_name)[1].missing(tables):
            report_json(session, report_name)
            report_json(session, report_name, time="0/1ms")
