"""Reports that pair device work with the calls and ranges that caused it, and traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topsprof.reports._projection import grouped_figures


@pytest.mark.smoke
def test_device_trace_is_in_order_and_counts_from_the_session_start(small, report_json):
    rows = report_json(small, "gcu_trace")
    assert [row["Start (ns)"] for row in rows] == [100, 200, 300, 900, 1000, 1100, 1200]
    assert rows[0]["Name"] == "void a<1>()"
    assert (rows[0]["GrdX"], rows[0]["BlkX"], rows[0]["CorrId"], rows[0]["Device"]) == (
        1,
        32,
        1,
        "GCU S60 (0)",
    )
    copy = rows[4]
    assert (copy["Bytes (MB)"], copy["SrcMemKd"], copy["DstMemKd"]) == (1.0, "Pinned", "Device")
    assert copy["Throughput (MB/s)"] == pytest.approx(1e7)
    assert rows[6]["Throughput (MB/s)"] is None


def test_launches_are_split_into_call_queue_and_kernel(small, report_json):
    rows = {row["Kernel Name"]: row for row in report_json(small, "kern_exec_sum:base")}
    assert set(rows) == {"a", "b"}  # the call of c is not in the session
    a = rows["a"]
    assert (a["PID"], a["TID"], a["DevId"], a["Count"], a["QCount"]) == (1, 5, 0, 2, 2)
    assert (a["TMin (ns)"], a["TMax (ns)"]) == (100, 141)
    assert (a["QMin (ns)"], a["QMax (ns)"], a["AAvg (ns)"], a["KMax (ns)"]) == (30, 60, 20, 61)
    b = rows["b"]  # began while its call was still running: it never queued
    assert (b["QCount"], b["QAvg (ns)"], b["TAvg (ns)"]) == (0, None, 80)


def test_one_launch_a_row(small, report_json):
    rows = report_json(small, "kern_exec_trace")
    assert [(row["API Start (ns)"], row["Queue Dur (ns)"], row["Kernel Start (ns)"]) for row in rows] == [
        (50, 30, 100),
        (120, 60, 200),
        (290, None, 300),
    ]


def test_ranges_projected_to_the_device(small, report_json):
    rows = {(row["Range"], row["Style"]): row for row in report_json(small, "tx_gcu_proj_sum")}
    assert set(rows) == {
        ("step", "PushPop"),
        ("model:fwd", "PushPop"),
        ("bwd", "PushPop"),
        ("bwd", "StartEnd"),
    }
    assert rows["step", "PushPop"]["Total Proj Time (ns)"] == 370 - 100
    assert rows["model:fwd", "PushPop"]["Total Proj Time (ns)"] == 261 - 100
    assert rows["bwd", "PushPop"]["Total GCU Ops"] == 1
    assert rows["step", "PushPop"]["Total Range Time (ns)"] == 1000


def test_work_of_other_threads_is_not_projected(make_session, report_json):
    session = make_session(
        {
            "tx": {
                "start_ns": [0],
                "duration_ns": [100],
                "name": ["r"],
                "process_id": 1,
                "thread_id": 1,
                "style": "PushPop",
            },
            "api": {
                "start_ns": [10, 20],
                "duration_ns": [1, 1],
                "name": ["l", "l"],
                "process_id": 1,
                "thread_id": [1, 2],
                "correlation_id": [1, 2],
            },
            "kernel": {
                "start_ns": [50, 500],
                "duration_ns": [5, 5],
                "name": ["k", "k"],
                "process_id": 1,
                "correlation_id": [1, 2],
            },
        }
    )
    (row,) = report_json(session, "tx_gcu_proj_sum")
    assert (row["Total GCU Ops"], row["Total Proj Time (ns)"]) == (1, 5)
    (row,) = report_json(session, "tx_kern_sum")
    assert (row["Kern Inst"], row["TX Inst"], row["Total Time (ns)"]) == (1, 1, 5)


def test_push_pop_trace_shows_the_tree(small, report_json):
    rows = report_json(small, "tx_pushpop_trace")
    assert [(row["Name"], row["Lvl"], row["ParentId"], row["RangeStack"]) for row in rows] == [
        ("step", 0, None, ":1"),
        ("model:fwd", 1, 1, ":1:2"),
        ("bwd", 1, 1, ":1:3"),
    ]
    assert (rows[0]["DurChild (ns)"], rows[0]["DurNonChild (ns)"], rows[0]["NumChild"]) == (300, 700, 2)


def test_trace_reports_list_every_event(small, report_json):
    assert [row["Name"] for row in report_json(small, "api_trace")] == ["launch"] * 3 + ["sync"]
    assert [row["Range"] for row in report_json(small, "tx_trace")] == [
        "step",
        "model:fwd",
        "mark",
        "bwd",
        "bwd",
    ]


def test_counters_and_allocations(make_session, report_json):
    session = make_session(
        {
            "counter": {
                "start_ns": [0, 10, 20],
                "name": ["loss"] * 3,
                "value": [3.0, 1.0, 2.0],
                "process_id": 1,
            },
            "memory": {
                "start_ns": [0, 5],
                "name": ["alloc", "free"],
                "size_bytes": [2_000_000, -1_000_000],
                "device_type": "gcu",
                "device_id": 0,
                "process_id": 1,
                "allocated_bytes": [2_000_000, 1_000_000],
            },
        }
    )
    (row,) = report_json(session, "counter_sum")
    assert (row["Count"], row["Min"], row["Max"], row["First"], row["Last"]) == (3, 1.0, 3.0, 3.0, 2.0)
    (row,) = report_json(session, "memory_sum")
    assert (row["Allocs"], row["Frees"], row["Allocated (MB)"], row["Peak (MB)"]) == (1, 1, 2.0, 2.0)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 60), st.sampled_from("ab"), st.integers(1, 2)),
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(0, 150), st.integers(0, 50), st.integers(1, 2)), min_size=1, max_size=12),
)
def test_projection_of_any_ranges(make_session, report_json, ranges, launches):
    """Overlapping, nested, empty ranges of two threads against the definition, one by one."""
    numbers = list(range(1, len(launches) + 1))
    starts = [call + wait for call, wait, _ in launches]
    session = make_session(
        {
            "tx": {
                "start_ns": [start for start, *_ in ranges] or [0],
                "duration_ns": [length for _, length, *_ in ranges] or [0],
                "name": [name for _, _, name, _ in ranges] or ["none"],
                "thread_id": [thread for *_, thread in ranges] or [1],
                "process_id": 1,
                "style": "StartEnd",
            },
            "api": {
                "start_ns": [call for call, *_ in launches],
                "duration_ns": [1] * len(launches),
                "name": ["launch"] * len(launches),
                "thread_id": [thread for *_, thread in launches],
                "process_id": 1,
                "correlation_id": numbers,
            },
            "kernel": {
                "start_ns": starts,
                "duration_ns": numbers,
                "name": ["k"] * len(launches),
                "process_id": 1,
                "correlation_id": numbers,
            },
        }
    )
    expected: dict[str, list[tuple[int, int]]] = {}
    for start, length, name, thread in ranges:
        inside = [
            (starts[i], starts[i] + numbers[i])
            for i, (call, _, of) in enumerate(launches)
            if of == thread and start <= call < start + length
        ]
        if inside:
            projection = max(end for _, end in inside) - min(begin for begin, _ in inside)
            expected.setdefault(name, []).append((projection, len(inside)))
    rows = {row["Range"]: row for row in report_json(session, "tx_gcu_proj_sum")}
    assert set(rows) == set(expected)
    for name, found in expected.items():
        assert rows[name]["Range Instances"] == len(found)
        assert rows[name]["Total Proj Time (ns)"] == sum(projection for projection, _ in found)
        assert rows[name]["Total GCU Ops"] == sum(count for _, count in found)
    kernels = {row["TX Range"]: 0 for row in report_json(session, "tx_kern_sum")}
    for row in report_json(session, "tx_kern_sum"):
        kernels[row["TX Range"]] += row["Kern Inst"]
    assert kernels == {name: sum(count for _, count in found) for name, found in expected.items()}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**6)), min_size=1))
def test_figures_by_group_are_those_of_numpy(pairs):
    codes, values = (np.array(side) for side in zip(*pairs, strict=True))
    for code, count, total, *rest in grouped_figures(codes, values):
        mine = values[codes == code]
        assert (count, total) == (len(mine), mine.sum())
        deviation = np.std(mine, ddof=1) if len(mine) > 1 else 0
        expected = [mine.mean(), np.median(mine), mine.min(), mine.max(), deviation]
        assert rest == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["tx_gcu_proj_sum", "tx_kern_sum"])
def test_projections_bring_no_warning_to_the_user(small, report_json, name):
    assert report_json(small, name)


def test_push_pop_trace_of_endless_recursion_stays_small(make_session, report_json):
    depth = 3000
    session = make_session(
        {
            "tx": {
                "start_ns": list(range(depth)),
                "duration_ns": [2 * (depth - i) for i in range(depth)],
                "name": ["f"] * depth,
                "style": "PushPop",
                "process_id": 1,
                "thread_id": 1,
            }
        }
    )
    rows = report_json(session, "tx_pushpop_trace")
    assert [row["Lvl"] for row in rows] == list(range(depth))
    assert [row["ParentId"] for row in rows] == [None, *range(1, depth)]
    assert rows[63]["RangeStack"].endswith(":63:64")
    assert rows[64]["RangeStack"] == rows[-1]["RangeStack"] == rows[63]["RangeStack"] + ":…"
    assert rows[-1]["NameTree"] == "  " * 64 + "…f"
