"""What part of the program's life is recorded, and what happens when the session ends before the program."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
from topsprof.capture import attached, process_table
from topstx.recorder import layout

from tops_kit.collect import control

STEPS = """
import topstx
io = topstx.get_domain("io")
for number in range(4):
    with topstx.annotate("step"):
        with io.annotate("read"):
            topstx.mark("in step")
    topstx.mark("between")
"""

# answers each line on stdin by one mark of that name
ECHO = """
import sys, topstx
print("up", flush=True)
for line in sys.stdin:
    topstx.mark(line.strip())
    print(line.strip(), flush=True)
"""

ReadLine = Callable[..., str]
Until = Callable[..., Any]
ONE_STEP = ["in step", "read", "step"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-p", "step"], ONE_STEP),
        (["-c", "topstx", "-p", "step", "--capture-range-end", "repeat:2"], ONE_STEP * 2),
        (["-c", "nvtx", "-p", "step", "--capture-range-end", "repeat"], ONE_STEP * 4),
        (["-p", "step", "--capture-range-end", "none"], ONE_STEP * 4 + ["between"] * 4),
        (["-p", "read@io"], ["in step", "read"]),
        (["--topstx-domain-include", "io"], ["read"] * 4),
        (["--topstx-domain-exclude", "io,other"], ["between", "in step", "step"] * 4),
    ],
)
def test_ranges_and_domains(options: list[str], expected: list[str], cli: Any, here: Any) -> None:
    recording = here(*options)
    recording.run(sys.executable, cli.script(STEPS))
    assert recording.names() == sorted(expected)


SWITCHED = """
import topstx
for number in range(4):
    topstx.mark("between")
    topstx.profiler_start()
    topstx.mark("within")
    topstx.profiler_stop()
"""


@pytest.mark.parametrize(("end", "times"), [("stop", 1), ("repeat:2", 2), ("repeat", 4), ("none", 4)])
def test_profiler_start_and_stop(end: str, times: int, cli: Any, here: Any) -> None:
    recording = here("-c", "topsProfilerApi", "--capture-range-end", end)
    recording.run(sys.executable, cli.script(SWITCHED))
    assert recording.names() == ["within"] * times


def test_run_between_profiler_start_and_stop(cli: Any) -> None:
    done = cli("run", "-c", "topsProfilerApi", "-o", "a", "--", sys.executable, cli.script(SWITCHED))
    assert done.returncode == 0
    assert cli.names("a.topsprof") == ["within"]


def _ask(process: Any, word: str, read_line: ReadLine) -> None:
    process.stdin.write(word.encode() + b"\n")
    assert read_line(process) == word


def test_delay(cli: Any, read_line: ReadLine, until: Until) -> None:
    process = cli.start(
        "run", "--delay", "0.3", "-o", "a", "--", sys.executable, cli.script(ECHO), stdin=-1, bufsize=0
    )
    assert read_line(process) == "up"
    switches = control.open_control(cli.cwd / "a.topsprof")
    until(lambda: switches.recording == layout.RECORDING_ON)
    _ask(process, "later", read_line)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert cli.names("a.topsprof") == ["later"]


def test_duration_ends_the_session_and_not_the_program(cli: Any, read_line: ReadLine, until: Until) -> None:
    process = cli.start(
        "run", "--duration", "0.3", "-o", "a", "--", sys.executable, cli.script(ECHO), stdin=-1, bufsize=0
    )
    assert read_line(process) == "up"
    until(lambda: not (cli.cwd / "a.topsprof" / "control").exists())
    _ask(process, "too late", read_line)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"is complete; the program goes on" in error
    assert cli.names("a.topsprof") == []


def test_kill_ends_the_program_and_what_it_started(cli: Any) -> None:
    # the child holds the pipe: communicate() would wait for it, were it not signalled as well
    shell = "sleep 1000; true"
    codes = {"sigterm": 143, "sigkill": 137, str(int(signal.SIGINT)): 130}
    running = {
        kill: cli.start("run", "--duration", "0.1", "--kill", kill, "-o", kill, "--", "sh", "-c", shell)
        for kill in codes
    }
    for kill, process in running.items():
        process.communicate(timeout=60)
        assert process.returncode == codes[kill], kill


def test_stop_shutdown_after_a_range(cli: Any) -> None:
    program = cli.script(STEPS + "import time\ntime.sleep(1000)\n")
    words = ["-p", "step", "--capture-range-end", "stop-shutdown", "--kill", "sigterm"]
    done = cli("run", "-o", "a", *words, "--", program)
    assert done.returncode == 143
    assert cli.names("a.topsprof") == ONE_STEP


def test_wait_all_waits_for_what_the_program_left_behind(cli: Any) -> None:
    child = cli.script("import sys, topstx\nsys.stdin.readline()\ntopstx.mark('child')\n", "child.py")
    shell = f"( sleep 0.2; echo go ) | '{sys.executable}' '{child}' >/dev/null 2>&1 & exit 4"
    done = cli("run", "--wait", "all", "-o", "a", "--", "sh", "-c", shell)
    assert done.returncode == 4
    assert cli.names("a.topsprof") == ["child"]


def test_helpers_of_multiprocessing_are_not_told_of(cli: Any) -> None:
    program = cli.script(
        "import multiprocessing as mp, topstx\n"
        "def job(n): topstx.mark('job'); return n\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'forkserver'):\n"
        "        with mp.get_context(method).Pool(1) as pool: assert pool.map(job, [1]) == [1]\n"
    )
    done = cli("run", "-o", "a", "--", sys.executable, program)
    assert done.returncode == 0 and "still run" not in done.stderr


def test_only_helpers_that_end_are_left_out(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = b"python\0-c\0from multiprocessing.forkserver import main; main(...)\0"
    lines = {
        1: b"python\0-c\0from multiprocessing.resource_tracker import main;main(4)\0",
        2: server,
        3: server,  # forked by it
        4: b"python\0job.py\0",
    }
    headers = [{"pid": pid, "proc_start": 5, "parent_serial": 7 if pid == 3 else 0} for pid in lines]
    monkeypatch.setattr(attached, "_headers", lambda folder: iter(headers))
    monkeypatch.setattr(process_table, "start_time", lambda pid: 5)
    monkeypatch.setattr(process_table, "command_line", lines.__getitem__)
    assert attached.left_behind(cli.cwd) == {3, 4}


def test_processes_left_behind_are_told_of(cli: Any, read_line: ReadLine) -> None:
    child = cli.script(
        "import os, topstx\ntopstx.mark('child')\nprint(os.getpid(), flush=True)\nos.read(0, 1)\n"
    )
    # the program ends with its input; the child waits for a byte that never comes
    shell = f"mkfifo never; '{sys.executable}' '{child}' <>never & cat >/dev/null"
    process = cli.start("run", "-o", "a", "--", "sh", "-c", shell, stdin=-1, bufsize=0)
    pid = int(read_line(process))
    process.stdin.close()
    assert process.wait(60) == 0
    os.kill(pid, signal.SIGKILL)
    assert f"still run ({pid})" in process.stderr.read().decode()
    assert cli.names("a.topsprof") == ["child"]


def test_start_and_stop_from_another_terminal(cli: Any, read_line: ReadLine) -> None:
    words = ["run", "--session", "mine", "--profile-from-start", "off", "-o", "a", "--"]
    process = cli.start(*words, sys.executable, cli.script(ECHO), stdin=-1, bufsize=0)
    assert read_line(process) == "up"
    listed = json.loads(cli("sessions", "--json").stdout)
    assert [(one["name"], one["state"]) for one in listed] == [("mine", "off")]
    _ask(process, "before", read_line)
    assert cli("start", "--session", "mine").returncode == 0
    _ask(process, "on", read_line)
    assert cli("stop", "--session", "mine").returncode == 0
    _ask(process, "paused", read_line)
    assert cli("start").returncode == 0  # the only one there is
    _ask(process, "on again", read_line)
    stopped = cli("stop", "--session", "mine", "--shutdown")
    assert stopped.returncode == 0 and "a.topsprof" in stopped.stderr
    assert cli.names("a.topsprof") == ["on", "on again"]  # complete, although the program still runs
    _ask(process, "after", read_line)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert cli.names("a.topsprof") == ["on", "on again"]


def test_no_session_and_unknown_ones(cli: Any, read_line: ReadLine) -> None:
    none = cli("stop")
    assert none.returncode == 2 and "no session is running" in none.stderr
    process = cli.start(
        "run", "--session", "mine", "-o", "a", "--", sys.executable, cli.script(ECHO), stdin=-1, bufsize=0
    )
    assert read_line(process) == "up"
    unknown = cli("start", "--session", "other")
    assert unknown.returncode == 2 and "'mine'" in unknown.stderr and unknown.stderr.count("\n") == 1
    taken = cli("run", "--session", "mine", "-o", "b", "true")
    assert taken.returncode == 2 and "is running" in taken.stderr
    assert not (cli.cwd / "b.topsprof").exists()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_recover_of_a_killed_collector(cli: Any, read_line: ReadLine) -> None:
    process = cli.start("run", "-o", "a", "--", sys.executable, cli.script(ECHO), stdin=-1, bufsize=0)
    assert read_line(process) == "up"
    _ask(process, "one", read_line)
    os.kill(control.open_control(cli.cwd / "a.topsprof").collector_pid, signal.SIGKILL)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"recover" in error
    assert cli("recover", "a").returncode == 0
    assert cli.names("a.topsprof") == ["one"]
