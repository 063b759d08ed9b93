"""Calls of Python functions: which are recorded, and that they are those that happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topstx.recorder import layout as L
from topstx.recorder.calls import CallOptions, Choice

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


SCRIPT_BEGIN = """
import os, sys, threading, topstx
from topstx.recorder.calls import CallOptions, Calls
recorder = Calls(topstx._recorder, CallOptions(["__main__"], limit=int(os.environ.get("LIMIT", "0"))))
def leaf(): pass
"""


def script(code: str) -> str:
    return SCRIPT_BEGIN + textwrap.dedent(code)


def names(process: Any) -> list[str]:
    return [record.name for record in calls(process)]


def test_threads_begun_before_and_after(program: Any) -> None:
    recording = program(
        script("""
        import _thread
        def work(name):
            leaf()
            done.append(name)
        def wait_and_work():
            go.wait()
            work("before")
        done, go, ended = [], threading.Event(), _thread.allocate_lock()
        before = threading.Thread(target=wait_and_work)
        before.start()
        recorder.start()
        go.set()
        before.join()
        after = threading.Thread(target=work, args=("after",))
        after.start(); after.join()
        ended.acquire()
        def raw():
            work("raw")
            ended.release()
        _thread.start_new_thread(raw, ())
        ended.acquire()
        recorder.stop()
        assert done == ["before", "after", "raw"]
        """),
        **ROOMY,
    )
    process = recording.only
    by_thread: dict[int, list[str]] = {}
    for record in calls(process):
        by_thread.setdefault(record.tid, []).append(record.name)
    found = sorted("".join(name[0] for name in group) for group in by_thread.values())
    twin_on_the_hook = program.backend == "twin" and sys.version_info < (3, 12)
    assert found == (["lw"] if twin_on_the_hook else ["lw", "lw", "lwr"])


def test_a_fork_child_has_its_own_calls(program: Any) -> None:
    recording = program(
        script("""
        def child(): leaf()
        def parent():
            if not (pid := os.fork()):
                child()
                os._exit(0)
            os.waitpid(pid, 0)
            leaf()
        recorder.start()
        parent()
        recorder.stop()
        """),
        **ROOMY,
    )
    parent, child = sorted(recording.processes, key=lambda process: process.header["parent_serial"] != 0)
    assert names(parent) == ["leaf", "parent"]
    assert names(child) == ["leaf", "child"]
    assert not parent.open and not child.open


def test_what_runs_at_a_kill_is_in_the_open_table(program: Any) -> None:
    recording = program(
        script("""
        import signal
        def deep(n):
            if n: deep(n - 1)
            leaf()
            os.kill(os.getpid(), signal.SIGKILL)
        def gen():
            deep(300)
            yield
        recorder.start()
        next(gen())
        """),
        expect=-9,
        **ROOMY,
    )
    process = recording.only
    assert names(process) == ["leaf"]
    assert [record.name for record in process.open] == ["gen"] + ["deep"] * 301
    assert [record.depth for record in process.open] == list(range(302))
    assert {record.kind for record in process.open} == {L.KIND_CALL}


def test_deep_recursion_and_a_stack_that_runs_out(program: Any) -> None:
    depth = 20_000 if program.backend == "c" else 2_000
    recording = program(
        script(f"""
        def deep(n):
            return deep(n - 1) if n else 0
        sys.setrecursionlimit(1_000_000)
        recorder.start()
        deep({depth})
        sys.setrecursionlimit(500)
        try:
            deep(1000)
        except RecursionError:
            leaf()
        recorder.stop()
        """),
        **ROOMY,
    )
    found = calls(recording.only)
    check_nesting(found)
    first = [record for record in found if record.name == "deep" and not record.flags & L.FLAG_ERROR]
    assert len(first) == depth + 1 and max(record.depth for record in first) == depth
    if program.backend == "twin":
        return  # written in Python, it runs out of stack as well
    raised = [record for record in found if record.flags & L.FLAG_ERROR]
    assert 400 < len(raised) < 500
    assert found[-1].name == "leaf" and not recording.only.open


def test_recording_that_goes_off_within(program: Any) -> None:
    recording = program(
        script("""
        def inner(n):
            if n == 3: topstx.profiler_stop()
            if n == 5: topstx.profiler_start()
            if n < 8: inner(n + 1)
        recorder.start()
        inner(0)
        leaf()
        recorder.stop()
        """),
        capture_end=L.CAPTURE_END_NONE,
        **ROOMY,
    )
    # 4 and 5 began while it was off
    assert names(recording.only) == ["inner"] * 7 + ["leaf"]
    assert not recording.only.open


def test_calls_past_the_limit_are_counted(program: Any) -> None:
    recording = program(
        script("""
        def often(n):
            if n: often(n - 1)
        def gen():
            for _ in range(30): yield
        recorder.start()
        for _ in range(100): often(9)
        for _ in range(50): list(gen())
        leaf()
        recorder.stop()
        """),
        env={"LIMIT": "100"},
        **ROOMY,
    )
    process = recording.only
    skipped = {record.name: 0 for record in process.records if record.kind == L.KIND_CALLS_SKIPPED}
    for record in process.records:
        if record.kind == L.KIND_CALLS_SKIPPED:
            skipped[record.name] += record.task
    recorded = names(process)
    assert recorded.count("often") + skipped["often"] == 1000 and 100 <= recorded.count("often") <= 101
    began = [r for r in calls(process) if r.name == "gen" and not r.flags & L.CALL_RESUMED]
    assert len(began) + skipped["gen"] == 50
    assert recorded.count("leaf") == 1 and set(skipped) == {"often", "gen"}
    assert not process.open
    check_nesting(calls(process))


def test_functions_in_c(program: Any) -> None:
    recording = program(
        script("""
        recorder = Calls(topstx._recorder, CallOptions(["__main__"], c_calls=True))
        def work():
            found = []
            found.append(len("abc"))
            sorted([3, 1], key=lambda value: -value)
            try:
                int("x")
                open("/nowhere/at/all")
            except (ValueError, OSError):
                pass
            try:
                getattr(found, "missing")
            except AttributeError:
                pass
        recorder.start()
        work()
        recorder.stop()
        """),
        **ROOMY,
    )
    found = calls(recording.only)
    in_c = {record.name: record for record in found if record.flags & L.CALL_C}
    assert {"list.append", "len", "sorted", "getattr"} <= set(in_c)
    assert in_c["getattr"].flags & L.FLAG_ERROR and not in_c["len"].flags & L.FLAG_ERROR
    keys = [record for record in found if record.name.endswith("<lambda>")]
    assert len(keys) == 2 and all(record.depth == in_c["sorted"].depth + 1 for record in keys)
    assert in_c["len"].place == ("builtins", "", 0)
    check_nesting(found)


def test_code_that_goes_away(program: Any) -> None:
    """Code objects are made and freed; what comes at their address is told apart."""
    recording = program(
        script("""
        recorder.start()
        for k in range(300):
            space = {"__name__": "__main__"}
            exec(f"def made_{k}(): pass\\nmade_{k}()", space)
            space.clear()
        recorder.stop()
        """),
        **ROOMY,
    )
    assert [name for name in names(recording.only) if name.startswith("made")] == [
        f"made_{k}" for k in range(300)
    ]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("patterns", "module", "file", "traced"),
    [
        ((), "__main__", "/home/me/job.py", True),
        ((), "__main__", "<string>", True),
        ((), "json.decoder", str(Path(os.__file__).parent / "json" / "decoder.py"), False),
        ((), "numpy", "/venv/lib/python3.11/site-packages/numpy/__init__.py", False),
        ((), "importlib._bootstrap", "<frozen importlib._bootstrap>", False),
        (("json",), "json.decoder", str(Path(os.__file__).parent / "json" / "decoder.py"), True),
        (("json.*",), "json", "json/__init__.py", True),
        (("json.*",), "jsonlike", "jsonlike.py", False),
        (("*.decoder",), "json.decoder", "decoder.py", True),
        (("job.py",), "__main__", "/home/me/job.py", True),
        (("job.py",), "__main__", "/home/me/my_job.py", False),
        (("me/*.py",), "x", "/home/me/job.py", True),
        (("/home/me/*",), "x", "/home/me/job.py", True),
        (("other", "job.py"), "x", "/home/you/job.py", True),
    ],
)
def test_which_code_is_traced(patterns: tuple[str, ...], module: str, file: str, traced: bool) -> None:
    assert Choice(patterns)(module, file, "" if file.startswith("<") else file) is traced


def test_generated_code_goes_with_its_module() -> None:
    library = str(Path(os.__file__).parent / "enum.py")
    assert not Choice(())("enum", "<string>", library)
    assert Choice(())("app", "<string>", "/home/me/app.py")
    assert not Choice(())("namedtuple_Point", "<string>", "")
    assert Choice(())("__main__", "<stdin>", "")


def test_options_survive_the_environment() -> None:
    options = CallOptions(("a.*", "b/c.py"), c_calls=True, limit=5)
    again = CallOptions.of_text(options.text)
    assert (again.patterns, again.c_calls, again.limit) == (options.patterns, True, 5)
