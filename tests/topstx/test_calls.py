"""Calls of Python functions: which are recorded, and that they are those that happened."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topstx.recorder import layout as L

HERE = Path(__file__).parent
ROOMY = {"ring_initial_bytes": 1 << 24, "ring_max_records": 1 << 19}

ENDS = st.sampled_from(["return", "raise", "close", "throw", "leave"])
KINDS = st.sampled_from(["call", "generator", "delegate", "coroutine", "recurse", "builtin"])
TREES = st.recursive(
    st.tuples(KINDS, st.integers(0, 2), st.just([]), ENDS),
    lambda inner: st.tuples(KINDS, st.integers(0, 2), st.lists(inner, max_size=3), ENDS),
    max_leaves=8,
)


def called(record: Any) -> tuple[str, int, bool, str]:
    """A record in the words of the reference."""
    ended = "raise" if record.flags & L.FLAG_ERROR else "yield" if record.flags & L.CALL_YIELDED else "return"
    return record.name, record.depth, bool(record.flags & L.CALL_RESUMED), ended


def calls(process: Any) -> list[Any]:
    return [record for record in process.records if record.kind == L.KIND_CALL]


def check_nesting(records: list[Any]) -> None:
    """Calls of a thread lie in each other or beside each other, and depth says how deep."""
    open_calls: list[Any] = []
    for record in sorted(records, key=lambda r: (r.begin, -r.end, r.depth)):
        while open_calls and open_calls[-1].end < record.begin:
            open_calls.pop()
        while len(open_calls) > record.depth:  # equal times
            open_calls.pop()
        assert len(open_calls) == record.depth, record
        assert not open_calls or record.end <= open_calls[-1].end
        open_calls.append(record)


def run_trees(program: Any, trees: list[Any]) -> None:
    program.create(**ROOMY)
    done = subprocess.run(
        [sys.executable, str(HERE / "call_programs.py")],
        input=json.dumps(trees),
        env=program.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = [[tuple(call) for call in calls] for calls in json.loads(done.stdout)]
    process = program.read().only
    assert not process.open and not process.dropped
    groups: list[list[Any]] = []
    for record in process.records:
        if record.kind == L.KIND_MARK:
            groups.append([])
        elif record.kind == L.KIND_CALL:
            groups[-1].append(record)
    for tree, group, wanted in zip(trees, groups, expected, strict=True):
        assert [called(record) for record in group] == wanted, tree
        check_nesting(group)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees=st.lists(TREES, min_size=10, max_size=40))
def test_every_call_is_the_one_of_a_reference_tracer(
    program: Any, tmp_path_factory: Any, trees: list[Any]
) -> None:
    fresh = type(program)(program.backend, tmp_path_factory.mktemp("calls") / "session")
    run_trees(fresh, trees)
