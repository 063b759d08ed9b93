"""Stacks and modules of operators, from the Python functions around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from topsprof.importers import chrome_events, kineto_stacks, source

from tops_kit.session import Session

Import = Callable[..., Session]

pytestmark = pytest.mark.usefixtures("backend")

STACKS = {"with_stack": 1}


def event(category: str, name: str, ts: float, dur: float, tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "pid": 100, "tid": tid}


def trace(threads: int, calls: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(operators, functions): calls of main > Net > forward > Linear, an operator in and one after it."""
    operators, functions = [], []
    for tid in range(1, threads + 1):
        functions.append(event("python_function", f"main{tid}", 0, 1000 * calls, tid))
        for i in range(calls):
            at = 1000 * i
            operators += [
                event("cpu_op", "in", at + 30, 5, tid),
                event("cpu_op", "same", at + 30, 40, tid),
                event("cpu_op", "after", at + 85, 5, tid),
                event("cpu_op", "outside", at + 500, 5, tid),
            ]
            functions += [
                event("python_function", "nn.Module: Net_0", at + 10, 100, tid),
                event("python_function", "net.py(3): forward;", at + 20, 80, tid),
                event("python_function", "nn.Module: Linear_0", at + 30, 40, tid),
            ]
    return operators, functions


def found(session: Session) -> set[tuple[str, int, str | None, str | None]]:
    return {
        (row["name"], row["thread_id"], row["module"], row["stack"])
        for row in session.table("op").to_pylist()
    }


def expected(threads: int) -> set[tuple[str, int, str | None, str | None]]:
    out: set[tuple[str, int, str | None, str | None]] = set()
    for tid in range(1, threads + 1):
        forward = f"main{tid};nn.Module: Net_0;net.py(3): forward,"
        linear = f"{forward};nn.Module: Linear_0"
        out |= {
            ("in", tid, "Net_0.Linear_0", linear),
            ("same", tid, "Net_0.Linear_0", linear),
            ("after", tid, "Net_0", forward),
            ("outside", tid, None, f"main{tid}"),
        }
    return out


@pytest.mark.smoke
@pytest.mark.parametrize("top", [{}, STACKS])
def test_operators_have_the_functions_and_modules_around_them(
    import_events: Import, top: dict[str, int]
) -> None:
    operators, functions = trace(2, 3)
    session = import_events(operators + functions, top=top, importer="kineto")
    assert found(session) == expected(2)


@pytest.mark.parametrize("merged", [7, 1 << 19])
@pytest.mark.parametrize("shuffled", [False, True])
def test_functions_that_all_come_after_the_operators(
    import_events: Import, monkeypatch: pytest.MonkeyPatch, merged: int, shuffled: bool
) -> None:
    monkeypatch.setattr(source, "_READ_BYTES", 2000)
    monkeypatch.setattr(chrome_events, "BATCH_ROWS", 50)
    monkeypatch.setattr(kineto_stacks, "_MERGED_ROWS", merged)
    operators, functions = trace(3, 40)
    if shuffled:
        np.random.default_rng(1).shuffle(functions)
    session = import_events(operators + functions, top=STACKS, importer="kineto")
    assert session.tables()["op"] == len(operators)
    assert found(session) == expected(3)


def test_operators_wait_in_bounded_memory(import_events: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_READ_BYTES", 2000)
    monkeypatch.setattr(chrome_events, "BATCH_ROWS", 50)
    monkeypatch.setattr(kineto_stacks.LateOperators.__init__, "__defaults__", (10_000,))
    operators, functions = trace(1, 200)
    session = import_events(operators + functions, top=STACKS, importer="kineto")
    assert session.tables()["op"] == len(operators)
    counts = {entry.code: entry.count for entry in session.ledger.entries}
    assert 0 < counts["operator_before_functions"] < len(operators)


def test_what_the_trace_states_goes_first(import_events: Import) -> None:
    operator = event("cpu_op", "a", 1, 1)
    operator["args"] = {"Call stack": "x;y", "Module Hierarchy": "A.B"}
    session = import_events(
        [operator, event("python_function", "nn.Module: Net_0", 0, 9)], top=STACKS, importer="kineto"
    )
    assert found(session) == {("a", 1, "A.B", "x;y")}
