"""Pythons that can't be sampled, as a user meets them: `run`, `attach` and `dump` say it in one line.

There is no such Python here; a program's memory is made to say that it is one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session

FAKE = """
import struct, sys
from topsprof.capture.sampling import layouts
from topsprof_start import main

version, free_threaded = int(sys.argv[1], 16), int(sys.argv[2])
head = struct.pack("<8sQQ", layouts.COOKIE, version, free_threaded)
true_layout_of = layouts.layout_of


def layout_of(_, runtime_head):
    open("asked", "w").close()
    return true_layout_of(version, head + runtime_head[len(head):])


layouts.layout_of = layout_of
sys.argv[1:] = sys.argv[3:]
sys.exit(main())
"""
CASES = [
    pytest.param(
        "030E00F0", "0", "Python 3.14 is unknown to this topsprof, which samples 3.11 to 3.13", id="3.14"
    ),
    pytest.param(
        "030E00F0", "1", "Python 3.14 is unknown to this topsprof, which samples 3.11 to 3.13", id="3.14t"
    ),
    pytest.param("030D00F0", "1", "free-threaded builds (Python 3.13t) can't be sampled yet", id="3.13t"),
]


@pytest.fixture
def faked(tmp_path: Path) -> Any:
    def run(version: str, free_threaded: str, *words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", FAKE, version, free_threaded, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run


@pytest.mark.parametrize(("version", "free_threaded", "message"), CASES)
@pytest.mark.parametrize("verb", ["dump", "attach"])
def test_attach_and_dump_refuse(
    verb: str, version: str, free_threaded: str, message: str, faked: Any, start: Any, tmp_path: Path
) -> None:
    program = start("print('ready')\ninput()\n")
    done = faked(version, free_threaded, verb, program.pid)
    assert done.returncode == 2 and done.stdout == ""
    assert message in done.stderr and f"process {program.pid}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("*.topsprof"))
    program.tell()
    assert program.process.wait() == 0


@pytest.mark.parametrize(("version", "free_threaded", "message"), CASES)
def test_run_goes_on_without_samples_and_says_so(
    version: str, free_threaded: str, message: str, faked: Any, tmp_path: Path
) -> None:
    program = (
        "import os, topstx\nwith topstx.annotate('work'):\n"
        "    while not os.path.exists('asked'):\n        pass\nprint('done')"
    )
    done = faked(version, free_threaded, "run", "-o", "a", "--sample", "100", "-t", "topstx", "--",
                 sys.executable, "-c", program)  # fmt: skip
    assert done.returncode == 0 and done.stdout == "done\n"
    assert sum(message in line for line in done.stderr.splitlines()) == 1
    session = Session.open(tmp_path / "a.topsprof")
    assert session.table("tx")["name"].to_pylist() == ["work"]
    assert [entry.code for entry in session.ledger.entries if not entry.clean] == ["not_sampled"]
