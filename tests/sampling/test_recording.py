"""Sampling from the command line: `run` and `attach`, and what the session and the reports have then."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session

MIX = """
import threading, time

def hot(n):
    total = 0
    for i in range(n):
        total += i
    return total

def cold(n):
    total = 0
    for i in range(n):
        total += i
    return total

def waits(event):
    event.wait()

event = threading.Event()
thread = threading.Thread(target=waits, args=(event,), name="patient")
thread.start()
spent = 0.0
while spent < 1.0:  # of processor time, however busy the machine is
    hot(30000)
    cold(10000)
    spent = time.process_time()
event.set()
thread.join()
print("done")
"""


def topsprof(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "topsprof", *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done


def rows(folder: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Session.open(folder).table("sample", columns).to_pylist()
    return found


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of MIX."""
    folder = tmp_path_factory.mktemp("mixed")
    program = folder / "mix.py"
    program.write_text(MIX, encoding="utf-8")
    done = topsprof("run", "-o", str(folder / "mix"), "--", sys.executable, str(program))
    assert done.stdout == "done\n"
    return folder / "mix.topsprof"


def test_shares_are_those_of_the_program(mixed: Path) -> None:
    """hot does three times what cold does."""
    session = Session.open(mixed)
    stacks = {row["stack_id"]: row for row in session.table("stack").to_pylist()}
    own: dict[str, float] = {}
    for row in rows(mixed):
        if row["state"] == "running" and row["stack_id"] is not None:
            name = stacks[row["stack_id"]]["name"]
            own[name] = own.get(name, 0.0) + row["weight"]
    assert own["hot"] + own["cold"] > 0.6 * sum(own.values())
    assert 0.6 < own["hot"] / (own["hot"] + own["cold"]) < 0.9


def test_stacks_are_a_tree_with_files_and_lines(mixed: Path) -> None:
    stacks = {row["stack_id"]: row for row in Session.open(mixed).table("stack").to_pylist()}
    hot = [row for row in stacks.values() if row["name"] == "hot"]
    assert hot
    assert {Path(row["file"]).name for row in hot} == {"mix.py"}
    assert {row["first_line"] for row in hot} == {4}
    assert all(4 <= row["line"] <= 8 for row in hot)
    assert {stacks[row["parent_id"]]["name"] for row in hot} == {"<module>"}


def test_a_waiting_thread_is_blocked_in_a_lock_and_has_its_name(mixed: Path) -> None:
    threads = {row["name"]: row["thread_id"] for row in Session.open(mixed).table("thread").to_pylist()}
    waits = {row["wait"] for row in rows(mixed) if row["thread_id"] == threads["patient"]}
    assert "lock" in waits


def test_the_reports_tell_functions_lines_and_waits(mixed: Path) -> None:
    text = topsprof("stats", str(mixed), "-r", "py_sum,py_line,py_waits,gil_sum,gc_sum,py_tasks").stdout
    assert "hot" in text
    assert "mix.py:" in text
    assert "lock" in text
    overview = topsprof("stats", str(mixed)).stdout
    assert "(py_sum)" in overview
    assert "(py_waits)" in overview


@pytest.mark.parametrize("kind", ["speedscope", "collapsed"])
def test_recorded_samples_are_exported(mixed: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    topsprof("export", str(mixed), "-t", kind, "-o", str(out))
    (file,) = tmp_path.iterdir()
    assert "hot" in file.read_text(encoding="utf-8")


def test_samples_fit_into_the_session_s_time(mixed: Path) -> None:
    session = Session.open(mixed)
    (process,) = session.table("process").to_pylist()
    starts = [row["start_ns"] for row in rows(mixed)]
    assert process["start_ns"] is not None
    assert process["start_ns"] - 10**9 < min(starts) <= max(starts) <= process["end_ns"] + 10**9


def test_children_are_sampled_too(tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import os, subprocess, sys, time\n"
        "def child_spins():\n"
        "    while time.process_time() < 1.0: pass\n"
        "if len(sys.argv) > 1:\n"
        "    child_spins()\n"
        "else:\n"
        "    subprocess.run([sys.executable, sys.argv[0], 'child'])\n",
        encoding="utf-8",
    )
    topsprof("run", "-o", str(tmp_path / "a"), "--", sys.executable, str(program))
    session = Session.open(tmp_path / "a.topsprof")
    assert "child_spins" in {row["name"] for row in session.table("stack").to_pylist()}
    assert {row["process_id"] for row in rows(session.path)} <= {
        row["process_id"] for row in session.table("process").to_pylist()
    }
    assert len({row["process_id"] for row in rows(session.path)}) == 2


def test_off_and_none_and_traces_take_no_samples(tmp_path: Path) -> None:
    for number, options in enumerate((["--sample", "off"], ["-t", "topstx"], ["-t", "none"])):
        out = tmp_path / f"n{number}"
        topsprof("run", *options, "-o", str(out), "--", sys.executable, "-c", "pass")
        assert rows(tmp_path / f"n{number}.topsprof") == []


def test_what_is_no_python_runs_as_ever_and_is_told_where_samples_were_asked_for(tmp_path: Path) -> None:
    usual = topsprof("run", "-o", str(tmp_path / "a"), "--", "true")
    assert "sampled" not in usual.stderr
    asked = topsprof("run", "--sample", "500", "-o", str(tmp_path / "b"), "--", "sleep", "0.2")
    assert "not sampled" in asked.stderr
    assert "is no Python" in asked.stderr or "ended before" in asked.stderr


def test_a_bad_rate_is_one_line(tmp_path: Path) -> None:
    done = topsprof("run", "--sample", "fast", "-o", str(tmp_path / "a"), "--", "true", code=2)
    assert "--sample fast" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_that_is_killed_keeps_its_samples(tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    program.write_text(
        "import os, signal, time\n"
        "def spins():\n"
        "    while time.process_time() < 0.7: pass\n"
        "spins()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        encoding="utf-8",
    )
    topsprof("run", "-o", str(tmp_path / "a"), "--", sys.executable, str(program), code=128 + signal.SIGKILL)
    assert rows(tmp_path / "a.topsprof")


def test_attach_samples_a_program_that_never_heard_of_us(tmp_path: Path) -> None:
    source = "def spins():\n    while True: pass\nprint('ready', flush=True)\nspins()\n"
    program = subprocess.Popen([sys.executable, "-I", "-c", source], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        done = topsprof("attach", str(program.pid), "-d", "0.7", "-o", str(tmp_path / "a"), "--stats")
        assert "spins" in done.stdout
        assert program.poll() is None
        session = Session.open(tmp_path / "a.topsprof")
        (process,) = session.table("process").to_pylist()
        assert process["pid"] == program.pid
        assert process["runtime"].startswith("CPython 3.")
    finally:
        program.kill()
        program.communicate()


def test_attach_to_nothing_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    program = subprocess.Popen([sys.executable, "-c", "pass"])
    program.wait()
    done = topsprof("attach", str(program.pid), "-o", str(tmp_path / "a"), code=2)
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def fields(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a protobuf message: numbers as ints, all else as bytes."""
    found: list[tuple[int, Any]] = []
    at = 0
    while at < len(data):
        tag, at = number(data, at)
        value, at = number(data, at)
        if tag & 7 == 2:
            found.append((tag >> 3, data[at : at + value]))
            at += value
        else:
            assert tag & 7 == 0
            found.append((tag >> 3, value))
    return found


def number(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 128:
            return value, at


def numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = number(data, at)
        found.append(value)
    return found


def test_pprof_has_the_stacks_and_their_time(mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "mix.pb.gz"
    topsprof("export", str(mixed), "-t", "pprof", "-o", str(out))
    profile = fields(gzip.decompress(out.read_bytes()))
    texts = [value.decode() for field, value in profile if field == 6]
    assert texts[0] == ""
    (kind,) = [dict(fields(value)) for field, value in profile if field == 1]
    assert (texts[kind[1]], texts[kind[2]]) == ("wall", "nanoseconds")
    functions = {f[1]: texts[f[2]] for f in (dict(fields(v)) for field, v in profile if field == 5)}
    places = {p[1]: dict(fields(p[4])) for p in (dict(fields(v)) for field, v in profile if field == 4)}
    total, leaves = 0, set()
    for sample in (dict(fields(value)) for field, value in profile if field == 2):
        stack = [functions[places[place][1]] for place in numbers(sample[1])]
        leaves.add(stack[0])
        total += sum(numbers(sample[2]))
    assert {"hot", "cold"} <= leaves
    expected = sum(row["weight"] for row in rows(mixed) if row["stack_id"] is not None)
    assert total == pytest.approx(expected, rel=1e-6)


def test_samples_stay_on_the_machines_clock_where_the_model_has_its_own(tmp_path: Path) -> None:
    code = "import time\nwhile time.process_time() < 0.5:\n    sum(range(1000))\n"
    begin = time.monotonic_ns()
    done = subprocess.run(
        [sys.executable, "-m", "topsprof", "run", "-o", "model", "--", sys.executable, "-c", code],
        cwd=tmp_path, env=os.environ | {"TOPS_CLOCK": "model"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    took = time.monotonic_ns() - begin
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "model.topsprof")
    times = [row["start_ns"] for row in found]
    assert 0 <= min(times) <= max(times) < took  # ns since the recording began, of a clock that goes on
    assert times == sorted(times)
    assert 0 < sum(row["weight"] for row in found) < took
