"""Who caused whom in a recording: in SQL, and as arrows of exports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from topsprof.cli import main

from tops_kit.session import Session

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import topstx
import tops_kit as tops

@tops.kernel
def add_one(x: tops.ptr(tops.f32)):
    for i in range(200):
        tops.store(x[0:1024], tops.load(x[0:1024]) + 1.0)

x, y = tops.zeros(1024), tops.zeros(1024)
first, second, reached = tops.Stream(), tops.Stream(), tops.Event()
for _ in range(3):  # the same event each time
    with topstx.annotate("outer"):
        tops.memset(x, 0)
        with topstx.annotate("step"):
            add_one.options(stream=first)[1](x)
            reached.record(first)
            second.wait_event(reached)
            add_one.options(stream=second)[1](y)
        reached.synchronize()
tops.synchronize()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    (folder / "program.py").write_text(PROGRAM)
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TOPSTX_", "TOPS_"))}
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "tx", "prof"))
    subprocess.run(
        [sys.executable, "-m", "topsprof", "run", "-o", "case", "--", sys.executable, "program.py"],
        cwd=folder, capture_output=True, text=True, check=True, timeout=240,
        env=keep | {"PYTHONPATH": paths, "TOPS_STATE_DIR": str(folder), "TOPS_CLOCK": "model"},
    )  # fmt: skip
    return folder / "case.topsprof"


def query(session: Path, sql: str) -> list[tuple[Any, ...]]:
    return Session.open(session).sql_connection().execute(sql).fetchall()


def test_events_link_what_reached_them_to_who_waited(recorded: Path) -> None:
    links = query(
        recorded,
        "select source_thread_id, source_ns, target_thread_id, target_ns from cause where kind = 'event' "
        "order by source_ns, target_thread_id",
    )
    ends = query(recorded, "select end_ns from kernel where stream_id = 1 order by 1")
    starts = query(recorded, "select start_ns from kernel where stream_id = 2 order by 1")
    ((thread,),) = query(recorded, "select distinct thread_id from api")
    expected = []
    for (end,), (start,) in zip(ends, starts, strict=True):
        assert start >= end
        expected += [(1, end, 2, start), (1, end, thread, end)]  # a stream, and the host
    assert links == expected


def test_ranges_link_to_the_calls_within_them(recorded: Path) -> None:
    found = query(
        recorded,
        "select tx.name, api.name, count(*) from cause join api on api.correlation_id = link_id "
        "join tx on tx.start_ns = source_ns where kind = 'tx' group by all order by 1, 2",
    )
    assert found == [
        ("outer", "topsEventSynchronize", 3), ("outer", "topsMemset", 3),
        ("step", "topsEventRecord", 3), ("step", "topsLaunchKernel", 6), ("step", "topsStreamWaitEvent", 3),
    ]  # fmt: skip


def test_arrows_of_events_are_drawn(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    assert main(["export", str(recorded), "-t", "chrome", "-o", str(path)]) == 0
    events = json.loads(path.read_text())["traceEvents"]
    drawn = [one["ph"] for one in events if one.get("cat") == "event" and one["ph"] in "sf"]
    assert drawn.count("s") == drawn.count("f") == 6
