"""`topsprof run -t python`: from the command line to the session, its reports and exports."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

PROGRAM = """
import asyncio, json, topstx
def leaf(n): return n
def work(n):
    with topstx.annotate("outer"):
        leaf(n)
        with topstx.annotate("inner"):
            leaf(n)
    json.dumps({"n": n})
async def job(n):
    work(n)
    await asyncio.sleep(0)
    return leaf(n)
async def main():
    await asyncio.gather(job(1), job(2))
asyncio.run(main())
"""


@pytest.fixture(params=["0", "1"])
def pure(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"TOPSKIT_PURE": request.param}


def test_the_programs_own_code_beside_tx(cli: Any, pure: dict[str, str]) -> None:
    program = cli.script(PROGRAM)
    done = cli("run", "-o", "one", "-t", "python,topstx", "--", "python3", program, env=pure)
    assert done.returncode == 0, done.stderr
    rows = cli.table("one.topsprof", "python")
    assert {row["module"] for row in rows} == {"__main__"} and {row["file"] for row in rows} == {str(program)}
    found = sorted((row["name"], row["call"], row["ended"]) for row in rows)
    assert found.count(("job", "call", "yield")) == found.count(("job", "resume", "return")) == 2
    assert found.count(("leaf", "call", "return")) == 6 and found.count(("work", "call", "return")) == 2
    lines = {row["name"]: row["line"] for row in rows}
    assert lines["leaf"] == 3 and lines["work"] == 4
    ledger = cli("info", "one.topsprof", "--json")
    assert {entry["kind"] for entry in json.loads(ledger.stdout)["ledger"]["entries"]} == {
        "requested",
        "written",
    }
    cli("export", "one.topsprof", "-t", "chrome", "-o", "one.json")
    events = json.loads((cli.cwd / "one.json").read_text())["traceEvents"]
    check_nesting([event for event in events if event["ph"] == "X"])


def check_nesting(events: list[dict[str, Any]]) -> None:
    """Slices of a thread lie in each other or beside each other; ranges are in the calls that made them."""
    by_thread: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        by_thread.setdefault((event["pid"], event["tid"]), []).append(event)
    inside = set()
    for group in by_thread.values():
        stack: list[dict[str, Any]] = []
        for event in sorted(group, key=lambda e: (e["ts"], -e["dur"])):
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
                stack.pop()
            if stack:
                assert event["ts"] + event["dur"] <= stack[-1]["ts"] + stack[-1]["dur"] + 0.001
                inside.add((event["name"].rpartition(" ")[2], stack[-1]["name"].rpartition(" ")[2]))
            stack.append(event)
    assert {("leaf", "outer"), ("leaf", "inner"), ("inner", "outer")} <= inside
    assert ("outer", "work") in inside


def test_a_pattern_takes_modules_of_the_library(cli: Any) -> None:
    program = cli.script(PROGRAM)
    done = cli("run", "-o", "one", "-t", "python:json.*", "--", "python3", program)
    assert done.returncode == 0, done.stderr
    rows = cli.table("one.topsprof", "python")
    assert {row["module"].partition(".")[0] for row in rows} == {"json"}
    assert sum(row["name"] == "dumps" for row in rows) == 2
    assert not cli.table("one.topsprof", "tx")


def test_what_ran_at_a_kill_is_unfinished(cli: Any, pure: dict[str, str]) -> None:
    program = cli.script(
        "import os, signal\ndef leaf(): pass\ndef work():\n    leaf()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\nwork()\n"
    )
    done = cli("run", "-o", "one", "-t", "python", "--", "python3", program, env=pure)
    assert done.returncode == 128 + signal.SIGKILL
    ended = {row["name"]: row["ended"] for row in cli.table("one.topsprof", "python")}
    assert ended == {"leaf": "return", "work": "unfinished", "<module>": "unfinished"}


def test_counted_calls_are_told(cli: Any) -> None:
    program = cli.script("def leaf(): pass\nfor _ in range(5000): leaf()\n")
    done = cli("run", "-o", "one", "-t", "python", "--python-call-limit", "100", "--", "python3", program)
    assert done.returncode == 0 and "frequent calls" in done.stderr
    recorded = sum(row["name"] == "leaf" for row in cli.table("one.topsprof", "python"))
    counted = sum(row["calls"] for row in cli.table("one.topsprof", "overhead") if row["function"] == "leaf")
    assert recorded + counted == 5000 and recorded <= 101


def test_another_profiler_in_the_program_is_undisturbed(cli: Any, pure: dict[str, str]) -> None:
    program = cli.script(
        "import cProfile, pstats\ndef leaf(): pass\nprofile = cProfile.Profile()\n"
        "profile.runcall(lambda: [leaf() for _ in range(10)])\n"
        "stats = pstats.Stats(profile).stats\nprint([v[0] for k, v in stats.items() if k[2] == 'leaf'])\n"
    )
    done = cli("run", "-o", "one", "-t", "python", "--", "python3", program, env=pure)
    assert done.returncode == 0 and done.stdout == "[10]\n", done.stderr
