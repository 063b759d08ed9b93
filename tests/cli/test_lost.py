"""What a recording says of processes that could not be recorded."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tops_kit.collect import control
from tops_kit.collect import process as collect_process


@pytest.mark.parametrize("pure", ["", "1"])
def test_a_fork_child_that_gets_no_files_is_counted(cli: Any, pure: str) -> None:
    program = cli.script(
        "import topstx, os, resource\n"
        "topstx.mark('parent')\n"
        "first = os.open('/', os.O_RDONLY)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (first, first))\n"
        "if not os.fork():\n"
        "    topstx.mark('child')\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = cli("run", "-o", "a", "--strict", program, env={"TOPSKIT_PURE": pure})
    assert done.returncode == 99, done.stderr
    assert "dropped 1 (process without files)" in done.stderr
    assert cli.names("a.topsprof") == ["parent"]
    entries = json.loads((cli.cwd / "a.topsprof" / "session.json").read_text())["ledger"]
    assert [(e["stream"], e["count"]) for e in entries if e["code"] == "process_without_files"] == [
        ("collector", 1)
    ]


@pytest.mark.parametrize("pure", ["", "1"])
def test_calls_that_had_nothing_to_record_are_in_the_ledger(cli: Any, here: Any, pure: str) -> None:
    recording = here()
    program = cli.script(
        "import topstx\ntopstx.mark('n' * 5000)\ntopstx.end_range(10**15)\ntopstx.counter('c').sample('x')\n"
    )
    recording.run(sys.executable, program, env={"TOPSKIT_PURE": pure})
    assert recording.names() == ["n" * 4096]
    entries = json.loads((cli.cwd / "a.topsprof" / "session.json").read_text())["ledger"]
    counts = {e["code"] or e["kind"]: e["count"] for e in entries}
    assert counts == {"requested": 2, "written": 1, "unbalanced": 1, "no_number": 1, "name": 1}


WAITS = """
import topstx, os, time
topstx.mark("here")
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
"""


def test_a_killed_collector_is_named_and_recover_finds_the_records(
    cli: Any, read_line: Any, until: Any
) -> None:
    run = cli.start("run", "-o", "a", "--", sys.executable, cli.script(WAITS))
    assert read_line(run) == "ready"
    os.kill(control.open_control(cli.cwd / "a.topsprof").collector_pid, signal.SIGKILL)
    (cli.cwd / "go").touch()
    error = run.communicate(timeout=60)[1].decode()
    assert "topsprof recover" in error
    assert "nothing recorded" not in error and "is complete" not in error
    assert cli("recover", "a.topsprof").returncode == 0
    assert cli.names("a.topsprof") == ["here"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_removed_while_recording_is_one_clear_line(cli: Any, read_line: Any, replaced: bool) -> None:
    run = cli.start("run", "-o", "a", "--", sys.executable, cli.script(WAITS))
    assert read_line(run) == "ready"
    shutil.rmtree(cli.cwd / "a.topsprof", ignore_errors=True)
    if replaced:
        (cli.cwd / "a.topsprof").mkdir(exist_ok=True)
    (cli.cwd / "go").touch()
    error = run.communicate(timeout=60)[1].decode()
    assert run.returncode == 0
    assert len(error.splitlines()) == 1 and "was removed while it was being recorded" in error
    assert "Errno" not in error and "recover" not in error


def test_a_program_without_our_environment_is_explained(cli: Any) -> None:
    done = cli(
        "run", "--sample", "off", "-o", "a", "--", "env", "-i", sys.executable,
        cli.script("import topstx; topstx.mark(1)"),
    )  # fmt: skip
    assert done.returncode == 0
    # it is named where it lived long enough to be seen
    assert "nothing recorded" in done.stderr and "environment" in done.stderr


@pytest.mark.parametrize(
    ("error", "text"), [(MemoryError(), "not enough memory"), (OSError(28, "x"), "the disk is full")]
)
def test_why_recording_stopped_is_one_line_for_people(tmp_path: Path, error: Exception, text: str) -> None:
    line = collect_process._line(tmp_path, error)
    assert text in line and "recover" in line
    assert "Error" not in line and "\n" not in line
