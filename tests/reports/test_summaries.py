"""Grouped reports: exact figures, from the summaries and from SQL alike."""

from __future__ import annotations

import statistics
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topsprof.reports import registry
from topsprof.reports.data import Data

EVERYTHING = ((-(1 << 62), 5), (5, 1 << 62))
"""two windows that leave nothing out: several windows take the way through SQL"""


@pytest.mark.smoke
def test_kernel_summary_has_the_figures_of_a_sample(small, report_json):
    rows = report_json(small, "gcu_kern_sum:base")
    assert [row["Name"] for row in rows] == ["a", "b", "c"]
    assert rows[0] == {
        "Time (%)": pytest.approx(100 * 111 / 182),
        "Total Time (ns)": 111,
        "Instances": 2,
        "Avg (ns)": 56,
        "Med (ns)": 56,
        "Min (ns)": 50,
        "Max (ns)": 61,
        "StdDev (ns)": 8,
        "Name": "a",
    }
    assert rows[2]["StdDev (ns)"] == 0


def test_kernels_are_told_apart_by_full_name_unless_base_is_asked_for(small, report_json):
    assert [row["Name"] for row in report_json(small, "gcu_kern_sum")] == [
        "b",
        "void a<2>()",
        "void a<1>()",
        "c",
    ]


def test_columns_stand_in_the_order_users_know(small, report_json):
    assert list(report_json(small, "gcu_kern_sum")[0]) == [
        "Time (%)",
        "Total Time (ns)",
        "Instances",
        "Avg (ns)",
        "Med (ns)",
        "Min (ns)",
        "Max (ns)",
        "StdDev (ns)",
        "Name",
    ]
    assert list(report_json(small, "api_sum")[0])[2] == "Num Calls"
    assert list(report_json(small, "tx_sum")[0])[-2:] == ["Style", "Range"]
    assert list(report_json(small, "gcu_kern_gb_sum")[0])[-3:] == ["GridXYZ", "BlockXYZ", "Name"]


def test_grid_and_block_are_text_and_empty_where_unknown(small, report_json):
    shapes = {
        (row["Name"], row["GridXYZ"], row["BlockXYZ"]) for row in report_json(small, "gcu_kern_gb_sum:base")
    }
    assert shapes == {("a", "1 1 1", "32 1 1"), ("b", "2 1 1", "32 1 1"), ("c", None, "32 1 1")}


def test_ranges_show_their_domain_and_marks_count(small, report_json):
    rows = {(row["Style"], row["Range"]): row["Instances"] for row in report_json(small, "tx_sum")}
    assert rows == {
        ("PushPop", "step"): 1,
        ("PushPop", "model:fwd"): 1,
        ("PushPop", "bwd"): 1,
        ("StartEnd", "bwd"): 1,
        ("Mark", "mark"): 1,
    }
    assert [row["Range"] for row in report_json(small, "tx_startend_sum")] == ["bwd"]
    assert [row["Range"] for row in report_json(small, "tx_pushpop_sum")] == ["step", "model:fwd", "bwd"]


def test_memory_operations_by_time_and_by_size(small, report_json):
    times = report_json(small, "mem_time_sum")
    assert [(row["Operation"], row["Count"], row["Total Time (ns)"]) for row in times] == [
        ("[memcpy Host-to-Device]", 1, 100),
        ("[memset]", 1, 10),
        ("[memcpy weird]", 1, 0),
    ]
    sizes = report_json(small, "mem_size_sum")
    assert [(row["Operation"], row["Count"], row["Total (MB)"]) for row in sizes] == [
        ("[memcpy Host-to-Device]", 1, 1.0),
        ("[memset]", 1, 0.0004),
    ]


def test_device_work_and_calls_in_one_table(small, report_json):
    rows = report_json(small, "api_gcu_sum")
    assert sum(row["Time (%)"] for row in rows) == pytest.approx(100)
    assert {row["Category"] for row in rows} == {"API", "KERNEL", "MEMORY_OPER"}


@pytest.mark.parametrize(
    "name", [name for name in registry.names() if registry.find(name)[1].grouping is not None]
)
def test_summaries_and_sql_agree(small, name):
    report = registry.find(name)[1]
    if report.missing(Data(small).tables):
        pytest.skip("the hand-made session has no such table")
    stored = [tuple(row) for row in report.rows(Data(small))]
    queried = [tuple(row) for row in report.rows(Data(small, EVERYTHING))]
    assert len(stored) == len(queried)
    for left, right in zip(stored, queried, strict=True):
        for a, b in zip(left, right, strict=True):
            assert a == (pytest.approx(b) if isinstance(b, float) else b)


def test_kept_summaries_load_neither_duckdb_nor_pandas(small):
    small.write_summaries()  # as closing a recording or an import does
    code = (
        "import sys; from tops_kit.session import Session; from topsprof.reports.output import show\n"
        f"show(Session.open({str(small.path)!r}))\n"
        "assert not {'duckdb', 'pandas'} & set(sys.modules), 'heavy modules'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_totals_of_huge_durations_stay_exact(make_session, report_json):
    huge = (1 << 62) // 3
    session = make_session({"tx": {"start_ns": [0, 1, 2], "duration_ns": [huge, huge, 5], "name": ["x"] * 3}})
    row = report_json(session, "tx_sum")[0]
    assert row["Total Time (ns)"] == 2 * huge + 5
    assert row["Max (ns)"] == huge
    filtered = report_json(session, "tx_sum", time="0/")[0]
    assert filtered["Total Time (ns)"] == 2 * huge + 5


def test_names_of_any_script_and_without_a_name(make_session, report_json):
    names = ["训练", "naïve", "a\tb\nc", "", "🚀" * 3, None]
    session = make_session(
        {
            "tx": {
                "start_ns": list(range(6)),
                "duration_ns": [6, 5, 4, 3, 2, 1],
                "name": names,
                "style": "PushPop",
            }
        }
    )
    assert [row["Range"] for row in report_json(session, "tx_sum")] == names


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**12)), min_size=1, max_size=40))
def test_figures_equal_those_of_the_statistics_module(make_session, report_json, calls):
    session = make_session(
        {
            "api": {
                "start_ns": list(range(len(calls))),
                "duration_ns": [ns for _, ns in calls],
                "name": [name for name, _ in calls],
            }
        }
    )
    rows = report_json(session, "api_sum")
    assert {row["Name"] for row in rows} == {name for name, _ in calls}
    for row in rows:
        values = [ns for name, ns in calls if name == row["Name"]]
        assert row["Total Time (ns)"] == sum(values)
        assert row["Num Calls"] == len(values)
        assert (row["Min (ns)"], row["Max (ns)"]) == (min(values), max(values))
        assert row["Med (ns)"] == pytest.approx(statistics.median(values), abs=0.51)
        deviation = statistics.stdev(values) if len(values) > 1 else 0
        assert row["StdDev (ns)"] == pytest.approx(deviation, abs=0.51, rel=1e-9)
