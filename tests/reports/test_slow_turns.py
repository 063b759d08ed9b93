"""py_slow: long turns of an event loop, what they were spent in, and who had what they waited for."""

from __future__ import annotations

from typing import Any

import pytest
from topsprof.reports._frames import Frame, Node, hot_paths, way

MS = 1_000_000
# a loop that calls a coroutine, which calls `a` and `b`; a callback; another thread, in and out of a lock
STACK = {
    "stack_id": [1, 2, 3, 4, 5, 6, 10, 11, 12],
    "parent_id": [None, 1, 2, 2, 1, None, None, 10, 10],
    "name": ["Handle._run", "serve", "a", "b", "callback", "select", "refresh", "locked", "idle"],
    "file": ["events.py", *["app.py"] * 4, "selectors.py", *["app.py"] * 3],
    "line": [80, 1, 2, 3, 4, 5, 6, 7, 8],
}
LOOP, OTHER = 1, 2


def sampled(*rows: tuple[Any, ...]) -> dict[str, Any]:
    """Tables of samples (thread, begin in ms, ms, stack, task, state, wait or "gc")."""
    threads, begins, lengths, stacks, tasks, states, waits = zip(*rows, strict=True)
    return {
        "stack": STACK,
        "sample": {
            "start_ns": [(begin + length) * MS for begin, length in zip(begins, lengths, strict=True)],
            "process_id": 1,
            "thread_id": list(threads),
            "stack_id": list(stacks),
            "task": list(tasks),
            "state": list(states),
            "wait": [None if wait == "gc" else wait for wait in waits],
            "gc": [wait == "gc" for wait in waits],
            "weight": [length * float(MS) for length in lengths],
            "unit": "ns",
        },
    }


def short(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (row["Cause"], row["Function"], row["Place"], row["Total Time (ns)"] // MS, row["Turns"])
        for row in rows
    ]


def test_turns_are_of_one_task_and_short_ones_are_none(make_session: Any, report_json: Any) -> None:
    session = make_session(
        sampled(
            (LOOP, 0, 15, 3, "T1", "running", None),  # two tasks, one after the other: neither is slow
            (LOOP, 15, 15, 3, "T2", "running", None),
            (LOOP, 30, 50, 6, None, "blocked", "poll"),
            (LOOP, 80, 12, 3, "T1", "running", None),  # one turn of 24 ms
            (LOOP, 92, 12, 4, "T1", "blocked", "sleep"),
            (LOOP, 104, 50, 6, None, "blocked", "poll"),
            (LOOP, 154, 30, 5, None, "running", None),  # a callback is no task
        )
    )
    assert sorted(short(report_json(session, "py_slow"))) == [
        ("running", "a", "app.py:2", 12, 1),
        ("running", "callback", "app.py:4", 30, 1),
        ("sleep", "b", "app.py:3", 12, 1),
    ]
    assert short(report_json(session, "py_slow:100ms")) == []
    assert sum(row[4] for row in short(report_json(session, "py_slow:5ms"))) == 5


def test_collecting_garbage_is_its_own_cause(make_session: Any, report_json: Any) -> None:
    session = make_session(
        sampled(
            (LOOP, 0, 10, 3, "T1", "running", None),
            (LOOP, 10, 40, 3, "T1", "running", "gc"),
        )
    )
    rows = report_json(session, "py_slow")
    assert short(rows) == [("gc", "a", "app.py:2", 40, 1), ("running", "a", "app.py:2", 10, 1)]
    assert [row["Longest (ns)"] for row in rows] == [50 * MS, 50 * MS]
    assert {row["Called By"] for row in rows} == {"serve"}


def test_who_most_likely_had_the_lock(make_session: Any, report_json: Any) -> None:
    waits = [(LOOP, 100 * n, 40, 3, "T1", "blocked", "lock") for n in range(4)]
    polls = [(LOOP, 100 * n + 40, 60, 6, None, "blocked", "poll") for n in range(4)]
    other = [(OTHER, 100 * n, 40, 11, None, "blocked", "sleep") for n in range(4)]
    others = [(OTHER, 100 * n + 40, 60, 12, None, "blocked", "sleep") for n in range(4)]
    session = make_session(sampled(*waits, *polls, *other, *others))
    (row,) = report_json(session, "py_slow")
    assert (row["Cause"], row["Turns"], row["Time (%)"]) == ("lock", 4, pytest.approx(100))
    assert row["Meanwhile"] == "2: refresh > locked (app.py:7)"


def test_programs_without_a_loop_have_no_row(make_session: Any, report_json: Any) -> None:
    session = make_session(sampled((LOOP, 0, 500, 10, None, "running", None)))
    assert report_json(session, "py_slow") == []


def test_a_path_ends_where_callees_are_many() -> None:
    root = Node()
    for name in "abcdefghij":
        root.add([Frame(None, "main", "m.py", 1), Frame(1, name, "m.py", 2)], 10)
    ((path, *_),) = hot_paths(root)
    assert path.name == "main"
    root = Node()
    for name, time in (("a", 60), ("b", 35), ("c", 5)):
        root.add([Frame(None, "main", "m.py", 1), Frame(1, name, "m.py", 2)], time)
    assert sorted(path[-1].name for path in hot_paths(root)) == ["a", "b"]
    assert way([Node(str(number)) for number in range(9)]) == "0 > 1 > 2 > ... > 6 > 7 > 8"
