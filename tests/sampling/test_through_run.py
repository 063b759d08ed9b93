"""`topsprof run` with the samples it takes by itself, of programs on every Python that is here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session

SPIN = """
import os, sys, threading, time

def spin(seconds):
    end = time.thread_time() + seconds  # of processor time, however busy the machine is
    while time.thread_time() < end:
        sum(range(500))
"""


class Recorded:
    """A session, and the reports of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = Session.open(folder)
        stacks = self.session.table("stack").to_pylist()
        self._stacks = {row["stack_id"]: row for row in stacks}
        self.samples = self.session.table("sample").to_pylist()

    def stack(self, sample: dict[str, Any]) -> list[str]:
        """Names of the frames of a sample, innermost first."""
        found, at = [], sample["stack_id"]
        while at in self._stacks:
            found.append(self._stacks[at]["name"])
            at = self._stacks[at]["parent_id"]
        return found

    def functions(self, process_id: int | None = None) -> set[str]:
        """All functions that were seen, of all processes or one."""
        of = [row for row in self.samples if process_id in (None, row["process_id"])]
        return {name for row in of for name in self.stack(row)}

    def report(self, name: str) -> list[dict[str, Any]]:
        words = [sys.executable, "-m", "topsprof", "stats", str(self.folder), "-r", name, "-f", "json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
        rows: list[dict[str, Any]] = json.loads(done.stdout)[name]
        return rows


@pytest.fixture
def record(python: str, tmp_path: Path) -> Callable[..., Recorded]:
    """Runs a program under `topsprof run`; it ends with 0 and prints "done"."""

    def run(source: str) -> Recorded:
        program = tmp_path / "program.py"
        program.write_text(SPIN + textwrap.dedent(source), encoding="utf-8")
        words = [
            sys.executable,
            "-m",
            "topsprof",
            "run",
            "-o",
            str(tmp_path / "a"),
            "--",
            python,
            str(program),
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("done\n")
        return Recorded(tmp_path / "a.topsprof")

    return run


def test_threads_that_want_the_gil_wait_for_each_other(record: Callable[..., Recorded]) -> None:
    found = record(
        """
        def first(): spin(0.5)
        def second(): spin(0.5)
        both = [threading.Thread(target=each, name=each.__name__) for each in (first, second)]
        for each in both: each.start()
        for each in both: each.join()
        print("done")
        """
    )
    rows = [row for row in found.report("gil_sum") if row["Waiting In"] == row["Held In"] == "spin"]
    pairs = {(row["Waiting Thread"], row["Holding Thread"]) for row in rows}
    assert any(one != other and (other, one) in pairs for one, other in pairs)
    assert any(row["state"] == "gil" and "first" in found.stack(row) for row in found.samples)


def test_tasks_of_asyncio_are_told_apart_and_who_holds_up_the_loop(record: Callable[..., Recorded]) -> None:
    found = record(
        """
        import asyncio

        async def computes():
            for _ in range(5):
                spin(0.06)
                await asyncio.sleep(0)

        async def blocks():
            for _ in range(3):
                time.sleep(0.2)
                await asyncio.sleep(0)

        async def main():
            first = asyncio.create_task(computes(), name="computer")
            await asyncio.gather(first, asyncio.create_task(blocks(), name="sleeper"))

        asyncio.run(main())
        print("done")
        """
    )
    tasks = {row["Task"]: row for row in found.report("py_tasks")}
    assert tasks["sleeper"]["Blocked Time (ns)"] > 4e8
    assert tasks["computer"]["Run Time (ns)"] > tasks["sleeper"]["Run Time (ns)"]
    slow = {(row["Cause"], row["Function"]): row for row in found.report("py_slow")}
    assert slow["sleep", "blocks"]["Total Time (ns)"] > 4e8
    assert ("running", "spin") in slow
    assert slow["running", "spin"]["Called By"] == "computes"


def test_pauses_of_the_garbage_collector_are_told(record: Callable[..., Recorded]) -> None:
    found = record(
        """
        import gc
        kept = [[number] for number in range(200_000)]

        def cleans_up():
            for _ in range(15):
                gc.collect()

        cleans_up()
        print("done")
        """
    )
    rows = {row["Name"]: row for row in found.report("gc_sum")}
    assert rows["cleans_up"]["Total Time (ns)"] > 1e7
    marked = [row for row in found.samples if row["gc"]]
    assert any("cleans_up" in found.stack(row) for row in marked)


def test_a_program_that_executes_another_is_sampled_on(record: Callable[..., Recorded]) -> None:
    found = record(
        """
        def before(): spin(0.5)
        def after(): spin(0.5)
        if len(sys.argv) == 1:
            before()
            os.execv(sys.executable, [sys.executable, __file__, "again"])
        after()
        print("done")
        """
    )
    assert {"before", "after"} <= found.functions()


def test_forked_children_are_processes_of_their_own(record: Callable[..., Recorded]) -> None:
    found = record(
        """
        def in_child(): spin(0.5)
        def in_parent(): spin(0.5)
        child = os.fork()
        if not child:
            in_child()
            os._exit(0)
        in_parent()
        os.waitpid(child, 0)
        print("done")
        """
    )
    seen = {
        each: found.functions(each) & {"in_child", "in_parent"}
        for each in {row["process_id"] for row in found.samples}
    }
    assert sorted(map(sorted, seen.values())) == [["in_child"], ["in_parent"]]


def test_only_what_is_between_start_and_stop_is_sampled(python: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    phases = """
def phase_0(): spin(0.4)
def phase_1(): spin(1.0)
def phase_2(): spin(0.4)
for phase in (phase_0, phase_1, phase_2):
    sys.stdin.readline()
    phase()
    print(phase.__name__, flush=True)
"""
    program.write_text(SPIN + phases, encoding="utf-8")
    name = f"sampling-{os.getpid()}"
    words = [sys.executable, "-m", "topsprof"]
    run = subprocess.Popen(
        [*words, "run", "--session", name, "--profile-from-start", "off", "-o", str(tmp_path / "a"), "--",
         python, str(program)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert run.stdin is not None and run.stdout is not None
        for number in range(3):
            run.stdin.write("go\n")
            run.stdin.flush()
            assert run.stdout.readline() == f"phase_{number}\n"
            verb = ("start", "stop", None)[number]
            if verb:
                subprocess.run(
                    [*words, verb, "--session", name], check=True, timeout=120, capture_output=True
                )
        assert run.wait(120) == 0
    finally:
        run.kill()
        run.communicate()
    found = Recorded(tmp_path / "a.topsprof")
    weights = {f"phase_{number}": 0.0 for number in range(3)}
    for row in found.samples:
        for phase in weights.keys() & set(found.stack(row)):
            weights[phase] += row["weight"]
    assert weights["phase_0"] == 0
    assert weights["phase_1"] > 0
    # a switch is seen within a turn of the sampling thread, which a busy machine makes late
    assert weights["phase_2"] < weights["phase_1"] / 2
