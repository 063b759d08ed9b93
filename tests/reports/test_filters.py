"""--filter-time and --filter-tx: what overlaps counts whole."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topsprof.reports import filters
from topsprof.reports.data import Data

from tops_kit.errors import UserError


@pytest.mark.smoke
def test_what_overlaps_the_window_counts_whole(small, report_json):
    names = {
        row["Name"]: row["Total Time (ns)"] for row in report_json(small, "gcu_kern_sum:base", time="149/201")
    }
    assert names == {"a": 111}


@pytest.mark.parametrize(
    ("window", "starts"),
    [
        ("150/200", []),
        ("149/200", [100]),
        ("150/201", [200]),
        ("/101", [100]),
        ("900/901", [900]),
        ("901/", [1000, 1100, 1200]),
        ("1200/1201", [1200]),
        ("1199/1200", []),
        ("0.00015ms/0.201us", [200]),
    ],
)
def test_windows_are_half_open(small, report_json, window, starts):
    assert [row["Start (ns)"] for row in report_json(small, "gcu_trace", time=window)] == starts


def test_absolute_times_are_exact(small, report_json, epoch):
    rows = report_json(small, "gcu_trace", time=f"@{epoch + 200}/@{epoch + 201}")
    assert [row["Start (ns)"] for row in rows] == [200]


def test_ranges_filter_by_the_time_of_their_instances(small, report_json):
    assert [row["Start (ns)"] for row in report_json(small, "gcu_trace", tx="fwd@model")] == [100, 200]
    assert [row["Start (ns)"] for row in report_json(small, "gcu_trace", tx="bwd")] == [300]
    assert [row["Start (ns)"] for row in report_json(small, "gcu_trace", tx="bwd/1")] == [300]


def test_both_filters_leave_what_they_have_in_common(small, report_json):
    assert [row["Start (ns)"] for row in report_json(small, "gcu_trace", tx="fwd", time="180/")] == [200]
    assert report_json(small, "gcu_trace", tx="fwd", time="500/") == []


def test_many_instances_filter_like_few(make_session, report_json):
    content = {
        "tx": {
            "start_ns": [i * 100 for i in range(50)],
            "duration_ns": [10] * 50,
            "name": ["r"] * 50,
            "style": "PushPop",
        },
        "api": {"start_ns": [i * 10 for i in range(500)], "duration_ns": [1] * 500, "name": ["call"] * 500},
    }
    (row,) = report_json(make_session(content), "api_sum", tx="r")
    assert row["Num Calls"] == 50
    (row,) = report_json(make_session(content), "api_sum", tx="r/3")
    assert row["Num Calls"] == 1


def test_a_name_may_hold_the_signs_of_the_syntax(make_session, report_json):
    session = make_session(
        {
            "tx": {"start_ns": [0, 50], "duration_ns": [10, 10], "name": ["a@b/1", "a"], "style": "PushPop"},
            "api": {"start_ns": [5, 55], "duration_ns": [1, 1], "name": ["x", "y"]},
        }
    )
    assert [row["Name"] for row in report_json(session, "api_sum", tx="a@b/1")] == ["x"]
    assert [row["Name"] for row in report_json(session, "api_sum", tx="a@default/0")] == ["y"]


def test_a_step_is_a_range_too(make_session, report_json):
    session = make_session(
        {
            "step": {"start_ns": [0, 50], "duration_ns": [10, 10], "name": ["Step#4", "Step#5"]},
            "tx": {
                "start_ns": [20],
                "duration_ns": [10],
                "name": ["Step#4"],
                "domain": "gpu_user_annotation",
                "style": "PushPop",
            },
            "api": {"start_ns": [5, 25, 55], "duration_ns": [1, 1, 1], "name": ["x", "y", "z"]},
        }
    )

    def names(tx):
        return sorted(row["Name"] for row in report_json(session, "api_sum", tx=tx))

    assert names("Step#5") == ["z"]
    assert names("Step#4") == ["x", "y"]
    assert names("Step#4/0") == ["x"]
    assert names("Step#4@gpu_user_annotation") == ["y"]


@pytest.mark.parametrize("text", ["", "5", "5/4", "5/5", "x/7", "1h/2h", "1/2/3"])
def test_bad_times_are_one_line(small, text):
    with pytest.raises(UserError) as error:
        Data.filtered(small, time=text)
    assert "--filter-time" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["nothing", "fwd@other", "bwd/7", "@model"])
def test_ranges_that_are_not_there_are_one_line(small, text):
    with pytest.raises(UserError) as error:
        Data.filtered(small, tx=text)
    assert "--filter-tx" in str(error.value) and "\n" not in str(error.value)


def test_a_session_without_ranges_says_so(make_session):
    session = make_session({"api": {"start_ns": [0], "duration_ns": [1], "name": ["x"]}})
    with pytest.raises(UserError, match="no range"):
        Data.filtered(session, tx="r")


windows = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair))), max_size=8
)


@given(windows, windows)
def test_windows_are_sets_of_points(left, right):
    def points(found):
        return {at for start, end in found for at in range(start, max(end, start + 1))}

    first, second = filters.merge(left), filters.merge(right)
    assert points(first) == points(left)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(first))
    common = filters.intersect(first, second)
    assert (points(common) if common else set()) == points(left) & points(right)


@pytest.mark.parametrize("text", ["99999999999999999999/", "/99999999999999999999", "@99999999999999999999/"])
def test_times_beyond_all_are_called_so(text):
    with pytest.raises(UserError, match="999 is beyond"):
        filters.parse_time_range(text, 0)
