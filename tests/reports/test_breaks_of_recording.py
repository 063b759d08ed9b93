"""What reports say of programs that were recorded in parts, or that did not end by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topsprof.reports import _remarks

from tops_kit.session import Session

ROOT = Path(__file__).resolve().parents[2]
Rows = Callable[..., list[dict[str, Any]]]

BREAKS = """
import sys
import numpy as np
import tops_kit as tops

tops.profiler_start()
blocks = [tops.malloc(1 << 20) for _ in range(4)]
array = tops.zeros(1 << 10)
pinned = [tops.host_malloc(4096) for _ in range(2)]
tops.profiler_stop()
tops.free(blocks[0])
tops.host_free(pinned[0])
unseen = tops.malloc(1 << 21)
tops.profiler_start()
tops.free(blocks[1])
tops.profiler_stop()
tops.free(blocks[2])
del array
tops.synchronize()
"""


def record(folder: Path, code: str, *arguments: str, **environment: str) -> Session:
    (folder / "program.py").write_text(textwrap.dedent(code))
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TOPSTX_", "TOPS_"))}
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof"))
    subprocess.run(
        [sys.executable, "-m", "topsprof", "run", "-o", "case", *arguments, "--",
         sys.executable, "program.py"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=240,
        env=keep | {"PYTHONPATH": paths, "TOPS_STATE_DIR": str(folder)} | environment,
    )  # fmt: skip
    return Session.open(folder / "case.topsprof")


@pytest.mark.parametrize("twin", [False, True])
def test_memory_that_is_freed_in_a_break_is_no_leak(twin: bool, tmp_path: Path, report_json: Rows) -> None:
    environment = {"TOPSKIT_PURE": "1"} if twin else {}
    session = record(
        tmp_path, BREAKS, "-c", "topsProfilerApi", "--capture-range-end", "repeat", **environment
    )
    kept = {row["Memory"]: row for row in report_json(session, "mem_alloc") if row["Kept"]}
    assert {kind: (row["Allocs"], row["Frees"], row["Kept"]) for kind, row in kept.items()} == {
        "Device": (4, 3, 1),
        "Pinned": (2, 1, 1),
    }
    leaks = report_json(session, "mem_alloc:leaks")
    assert [(row["State"], row["Size (bytes)"]) for row in leaks] == [("leaked", 1 << 20), ("leaked", 4096)]
    assert all(row["Size (MB)"] < 2 for row in report_json(session, "mem_alloc:timeline"))
    assert "recording activities" in _remarks.cost(session)  # told in a break, too


def test_memory_in_use_when_the_recording_ended_may_be_freed_later(
    make_session: Callable[..., Session], report_json: Rows
) -> None:
    memory = {
        "start_ns": [5, 6], "name": ["alloc"] * 2, "process_id": [1, 2], "size_bytes": [64, 32],
        "allocated_bytes": [64, 32], "allocation": [1, 1], "device_id": [0, 0],
        "memory_kind": ["Device"] * 2, "place": ["a.py:1"] * 2,
    }  # fmt: skip
    process = {"process_id": [1, 2], "pid": [1, 2], "ended_by": [None, "exit"]}
    session = make_session({"memory": memory, "process": process})
    states = {row["PID"]: row["State"] for row in report_json(session, "mem_alloc:leaks")}
    assert states == {1: "in use", 2: "leaked"}


def test_a_killed_program_does_not_say_what_profiling_cost(tmp_path: Path) -> None:
    code = """
    import os, tops_kit as tops
    tops.zeros(4)
    tops.synchronize()
    os.kill(os.getpid(), 9)
    """
    assert "is not known" in _remarks.cost(record(tmp_path, code))
