"""py_sum: own and whole time of functions, from samples and from traced calls; and the nesting it rests
on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topsprof.reports.nesting import nest

SAMPLED = {
    "sample": {
        "start_ns": [0, 10, 20, 30],
        "process_id": 1,
        "thread_id": 1,
        "stack_id": [2, 2, 3, 1],
        "weight": [1000.0, 1000.0, 1000.0, 500.0],
        "unit": "ns",
    },
    "stack": {"stack_id": [1, 2, 3], "parent_id": [None, 1, 2], "name": ["main", "f", "f"]},
}
CALLS = {
    "python": {
        "start_ns": [0, 10, 20, 50],
        "duration_ns": [100, 80, 20, 10],
        "name": ["f", "g", "f", "h"],
        "process_id": 1,
        "thread_id": 1,
    },
}


@pytest.mark.smoke
def test_samples_count_a_recursive_function_once(make_session, report_json):
    rows = report_json(make_session(SAMPLED), "py_sum")
    shares = [row.pop("Self (%)") for row in rows]
    assert shares == pytest.approx([100 * 3000 / 3500, 100 * 500 / 3500])  # of time
    assert rows == [
        {"Self Time (ns)": 3000, "Total Time (ns)": 3000, "Samples": 3, "Name": "f"},
        {"Self Time (ns)": 500, "Total Time (ns)": 3500, "Samples": 1, "Name": "main"},
    ]


def test_traced_calls_give_own_time(make_session, report_json):
    rows = {row["Name"]: row for row in report_json(make_session(CALLS), "py_sum")}
    assert (rows["f"]["Self Time (ns)"], rows["f"]["Total Time (ns)"], rows["f"]["Samples"]) == (40, 100, 2)
    assert (rows["g"]["Self Time (ns)"], rows["g"]["Total Time (ns)"]) == (50, 80)
    assert sum(row["Self Time (ns)"] for row in rows.values()) == 100


def test_samples_go_before_calls_and_arguments_choose(make_session, report_json):
    session = make_session({**SAMPLED, **CALLS})
    assert {row["Name"] for row in report_json(session, "py_sum")} == {"f", "main"}
    assert {row["Name"] for row in report_json(session, "py_sum:calls")} == {"f", "g", "h"}
    assert report_json(session, "py_sum:samples") == report_json(session, "py_sum")


def test_samples_without_a_clock_count_but_have_no_time(make_session, report_json):
    session = make_session(
        {
            "sample": {"start_ns": [0, 1], "stack_id": [1, 1], "weight": [3.0, 1.0], "unit": "samples"},
            "stack": {"stack_id": [1], "name": ["f"]},
        }
    )
    (row,) = report_json(session, "py_sum")
    assert (row["Self (%)"], row["Self Time (ns)"], row["Samples"]) == (100.0, 0, 4)


def test_a_stack_that_runs_in_a_circle_ends(make_session, report_json):
    session = make_session(
        {
            "sample": {"start_ns": [0], "stack_id": [1], "weight": [1.0], "unit": "ns"},
            "stack": {"stack_id": [1, 2], "parent_id": [2, 1], "name": ["f", "g"]},
        }
    )
    assert {row["Name"] for row in report_json(session, "py_sum")} == {"f", "g"}


@st.composite
def trees(draw):
    """Properly nested intervals of two tracks: (track, start, duration, parent) in depth-first order."""
    found = []

    def grow(track, parent, begin, end, depth):
        at = begin
        for _ in range(draw(st.integers(0, 3))):
            start = at + draw(st.integers(0, 5))
            stop = start + draw(st.integers(1, 30))
            if stop > end:
                return
            index = len(found)
            found.append((track, start, stop - start, parent))
            if depth < 4:
                grow(track, index, start, stop, depth + 1)
            at = stop

    for track in (1, 2):
        grow(track, -1, 0, 200, 0)
    return found


@settings(max_examples=100, deadline=None)
@given(trees(), st.randoms(use_true_random=False))
def test_nesting_of_any_tree(tree, random):
    order = list(range(len(tree)))
    random.shuffle(order)
    track, start, duration = (np.array([tree[i][k] for i in order], np.int64) for k in range(3))
    nesting = nest(track, start, duration)
    for place, i in enumerate(order):
        children = [node for node in tree if node[3] == i]
        ancestors = 0
        parent = tree[i][3]
        while parent >= 0:
            ancestors, parent = ancestors + 1, tree[parent][3]
        identical = [n for n in tree if n[:3] == tree[i][:3]]
        if len(identical) == 1:  # parent and only child of the same extent can't be told apart
            assert nesting.depth[place] == ancestors
            assert nesting.child_ns[place] == sum(child[2] for child in children)


def test_what_has_no_length_is_nested_too():
    nesting = nest(np.ones(3, np.int64), np.array([0, 5, 10]), np.array([10, 0, 3]))
    assert nesting.depth.tolist() == [0, 1, 0]
    assert nesting.parent.tolist() == [-1, 0, -1]


def test_parts_of_a_generator_are_one_call(make_session, report_json):
    session = make_session(
        {
            "python": {
                "start_ns": [0, 5, 20, 30, 60, 80],
                "duration_ns": [100, 5, 10, 10, 7, 1],
                "name": ["main", "gen", "gen", "gen", "gen", "len"],
                "module": ["__main__", "app", "app", "app", "app", "builtins"],
                "call": ["call", "call", "resume", "call", "resume", "c"],
                "generator_id": [None, 7, 7, 7, 7, None],  # the number came again
                "process_id": 1,
                "thread_id": 1,
            },
            "overhead": {
                "start_ns": [90, 95],
                "duration_ns": [0, 0],
                "name": "Python calls, counted only",
                "function": ["gen", "gen"],
                "module": ["app", "app"],
                "calls": [40, 2],
                "process_id": 1,
                "thread_id": 1,
            },
        }
    )
    rows = {row["Name"]: row for row in report_json(session, "py_call_sum")}
    assert set(rows) == {"main", "app.gen", "len"}
    gen = rows["app.gen"]
    assert (gen["Num Calls"], gen["Total Time (ns)"], gen["Min (ns)"], gen["Max (ns)"]) == (2, 32, 15, 17)
    assert (gen["Med (ns)"], gen["Counted Only"]) == (16.0, 42)
    assert rows["main"]["Self Time (ns)"] == 100 - 32 - 1
