"""What tracing every call of a call-heavy script costs it, beside cProfile and viztracer in the same run.

The bar is for a script whose functions do as much as makes cProfile double its time: some 0.4 us a call.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

DESCRIPTION = "cost of tracing the calls of a call-heavy script, against cProfile and viztracer"

_PAIRS = 12
_ROUNDS = 40_000
_CALLS = 5 * _ROUNDS
_BAR = 1.20

_SCRIPT = """
import sys, time

def total(values):
    result = 0
    for value in values:
        result += value
    return result

class Account:
    def __init__(self, start):
        self.balance = start
    def add(self, amount):
        self.balance += amount
        return self.balance

def step(number):
    account = Account(number)
    values = [number, 1, 2, 3, 5, 8, 13, 21] * 4
    return account.add(total(values))

def main(rounds):
    found = 0
    for number in range(rounds):
        found ^= step(number) ^ total((number, 7, 11, 13) * 6)
    return found

begin = time.process_time()
main(int(sys.argv[1]))
print("BENCH", time.process_time() - begin)
"""


def rows() -> Iterator[Row]:
    """The claim of function tracing."""
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as name:
        folder = Path(name)
        script = folder / "call_heavy.py"
        script.write_text(_SCRIPT, encoding="utf-8")
        yield from _measured(folder, script)


def _measured(folder: Path, script: Path) -> Iterator[Row]:
    session = folder / "calls.topsprof"
    words = [str(script), str(_ROUNDS)]
    tools: dict[str, list[str]] = {
        "plain": measure.python(*words),
        "ours": measure.topsprof(
            "run", "-f", "-o", str(session), "-t", "python", "--python-call-limit", "off", "--",
            *measure.python(*words),
        ),
        "cProfile": measure.python("-m", "cProfile", "-o", str(folder / "calls.prof"), *words),
    }  # fmt: skip
    if measure.installed("viztracer"):
        quiet = ["--tracer_entries", str(4 * _CALLS), "--quiet", "-o", str(folder / "calls.json")]
        tools["viztracer"] = measure.python("-m", "viztracer", *quiet, "--ignore_c_function", "--", *words)
    times: dict[str, list[float]] = {tool: [] for tool in tools}
    for _ in range(_PAIRS):
        for tool, command in tools.items():
            times[tool].append(_cpu_s(measure.run_child(command).stdout))
    facts = json.loads(measure.run_child(measure.topsprof("info", str(session), "--json")).stdout)
    recorded = facts["tables"].get("python", {}).get("rows", 0)
    told = f"{recorded:,} calls recorded of {_CALLS + 3:,}"
    plain = times["plain"]
    for tool in ("ours", "cProfile", "viztracer"):
        claim = f"call-heavy script traced by {'topsprof' if tool == 'ours' else tool}, its CPU time"
        if tool not in times:
            yield missing(claim, "s", None, "no profiler", f"{tool} is not installed")
            continue
        note = f"median of ratios {_ratio(times[tool], plain):.2f}" + (f"; {told}" if tool == "ours" else "")
        yield compare(
            claim,
            "s",
            min(times[tool]),
            min(plain),
            "no profiler",
            bar=_BAR if tool == "ours" else None,
            note=note,
        )


def _ratio(ours: list[float], plain: list[float]) -> float:
    return statistics.median(mine / other for mine, other in zip(ours, plain, strict=True))


def _cpu_s(stdout: str) -> float:
    line = next(line for line in stdout.splitlines() if line.startswith("BENCH "))
    return float(line.split()[1])
