"""Garbage collections as ranges: when, in which thread and function, and which generation."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session

# Big enough that a collection of all of it takes many ticks.
PROGRAM = """
import gc, json, sys, threading
gc.disable()
print("ready", flush=True)
input()
junk = [[number, {}] for number in range(300_000)]

def tidies(generation):
    gc.collect(generation)

def many():
    for _ in range(5):
        tidies(2)

thread = threading.Thread(target=many)
thread.start()
thread.join()
for _ in range(100):
    tidies(0)
print(json.dumps([entry["collections"] for entry in gc.get_stats()]), flush=True)
input()
"""


def test_pauses_of_each_python(start: Any, sampled: Any, until: Any) -> None:
    program = start(PROGRAM)
    samples, loop = sampled(program.pid)
    loop.run(0.01)
    before = samples.sampler.batch().collections
    assert sum(before) < 100
    pauses: list[Any] = []

    def take() -> tuple[int, ...]:
        loop.run(0.05)
        batch = samples.sampler.batch()
        pauses.extend(batch.pauses)
        return batch.collections

    program.tell()
    until(lambda: take()[2] == before[2] + 5)
    until(lambda: take()[0] == before[0] + 100)
    program.read()
    old = [pause for pause in pauses if pause[4] == 2]
    assert len(old) == 5  # 300,000 objects take many milliseconds
    assert len({tid for _, _, tid, _, _ in old}) == 1 and old[0][2] != program.pid
    for (begin, end, *_), (later, *_) in zip(old, [*old[1:], (sys.maxsize,)], strict=True):
        assert begin < end <= later


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A session of PROGRAM, and how many collections of each generation it says that there were."""
    import subprocess

    folder = tmp_path_factory.mktemp("collected")
    program = folder / "program.py"
    text = textwrap.dedent(PROGRAM).replace('print("ready", flush=True)\ninput()\n', "")
    program.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "topsprof", "run", "-o", "gc", "--", sys.executable, str(program)],
        input="\n", capture_output=True, text=True, cwd=folder, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "gc.topsprof", json.loads(done.stdout)


def test_they_are_ranges_of_the_session(collected: tuple[Path, list[int]]) -> None:
    session = Session.open(collected[0])
    stacks = {row["stack_id"]: row for row in session.table("stack").to_pylist()}
    old = [row for row in session.table("gc").to_pylist() if row["generation"] == 2]
    assert len(old) >= 5 and {row["name"] for row in old} == {"GC generation 2"}
    mine = [row for row in old if row["stack_id"] and stacks[row["stack_id"]]["name"] == "tidies"]
    assert len(mine) == 5
    assert {row["thread_id"] for row in mine}.isdisjoint(row["process_id"] for row in mine)
    # What the samples say and the ranges agree, to the grain of both.
    marked = sum(r["weight"] for r in session.table("sample").to_pylist() if r["gc"])
    ranged = sum(row["duration_ns"] for row in session.table("gc").to_pylist())
    assert ranged == pytest.approx(marked, rel=0.5)


def test_short_ones_are_counted(collected: tuple[Path, list[int]]) -> None:
    session = Session.open(collected[0])
    rows = [row for row in session.table("counter").to_pylist() if row["name"] == "garbage collections"]
    last: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: row["start_ns"]):
        last[row["series"]] = row["value"]
    # The last hand-over may come before the program's last collections.
    said = collected[1]
    assert last["generation 2"] >= 5
    assert all(last.get(f"generation {number}", 0) <= said[number] + 5 for number in range(3))


def test_reports_and_exports_show_them(
    collected: tuple[Path, list[int]], topsprof: Any, tmp_path: Path
) -> None:
    session = collected[0]
    done = topsprof("stats", "-r", "gc_sum", "-f", "json", session)
    (rows,) = json.loads(done.stdout).values()
    assert {row["Name"] for row in rows if row["Generation"] == 2} >= {"tidies"}
    assert sum(row["Pauses"] for row in rows) == Session.open(session).tables()["gc"]
    for kind, file in (("chrome", "a.json"), ("perfetto", "a.pftrace")):
        assert topsprof("export", "-t", kind, "-o", tmp_path / file, session).returncode == 0
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    chosen = [event for event in events if event.get("cat") == "gc" and event["name"] == "GC generation 2"]
    assert len(chosen) >= 5 and all(event["ph"] == "X" and event["dur"] > 0 for event in chosen)
    assert b"GC generation 2" in (tmp_path / "a.pftrace").read_bytes()
