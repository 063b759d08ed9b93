"""What sampling costs: CPU time of the program in interleaved pairs, and of the sampler; how many samples."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks import measure
from benchmarks.python_mixes import MIXES, Mix
from benchmarks.python_tools import OURS, PEERS, Tool, printed
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

PAIRS: Final = 32
_PEER_RUNS: Final = 5
_BAR_COST: Final = 1.01
_BAR_OWN_PERCENT: Final = 5.0
_BAR_RATE_HZ: Final = 950.0
_SHORT_S, _LONG_S = 2.0, 10.0

# The same work each time: calls of Python functions and methods, containers, and native code between them.
_WORK = """
import hashlib, sys, time, zlib
STARTED = time.process_time()

class Account:
    def __init__(self, start):
        self.balance = start
    def add(self, amount):
        self.balance += amount
        return self.balance

def total(values):
    result = 0
    for value in values:
        result += value
    return result

def step(number):
    account = Account(number)
    values = {key: key * number for key in range(40)}
    return account.add(total(values.values()))

def native(block):
    return len(zlib.compress(hashlib.sha256(block).digest() * 400, 1))

def main(rounds):
    found, block = 0, bytes(60_000)
    for number in range(rounds):
        for each in range(40):
            found ^= step(number + each)
        found ^= native(block)
    return found

main(int(sys.argv[1]))
print("BENCH", time.process_time() - STARTED)
print("START", STARTED)
"""
_ROUNDS: Final = 4000


def rows() -> Iterator[Row]:
    """The claims of cost."""
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as name:
        folder = Path(name)
        yield from _of_program(folder)
        yield from _own(folder)


def _of_program(folder: Path) -> Iterator[Row]:
    script = folder / "work.py"
    script.write_text(_WORK, encoding="utf-8")
    words, mix = [str(script), str(_ROUNDS)], MIXES[0]
    usable = [tool for tool in PEERS if not tool.why_not]
    times: dict[str, list[float]] = {name: [] for name in ("plain", OURS.name, *(t.name for t in usable))}
    starts: dict[str, list[float]] = {name: [] for name in times}

    def run(name: str, command: list[str]) -> None:
        out = measure.run_child(command).stdout
        times[name].append(float(printed(out, "BENCH")))
        starts[name].append(float(printed(out, "START")))

    broken: dict[str, str] = {}
    for pair in range(PAIRS):
        # in turn who is first: what the machine does in between meets both alike
        both = [
            ("plain", measure.python(*words)),
            (OURS.name, OURS.command(folder / "work.topsprof", mix, words)),
        ]
        for name, command in both if pair % 2 else reversed(both):
            run(name, command)
        if pair >= _PEER_RUNS:
            continue
        for tool in usable:
            if tool.name in broken:
                continue
            try:
                run(tool.name, tool.command(folder / f"work-{tool.name}.json", mix, words))
            except measure.ChildError as problem:
                broken[tool.name] = str(problem)
    plain, ours = times["plain"], times[OURS.name]
    limit = measure.upper_limit([mine / other for mine, other in zip(ours, plain, strict=True)])
    yield compare(
        "CPU time of a sampled program, mean", "s", statistics.fmean(ours), statistics.fmean(plain),
        "not sampled", bar=_BAR_COST, limit=limit,
        note=f"{PAIRS} pairs, upper 95 % limit {limit:.4f}, median {_median_ratio(ours, plain):.4f}",
    )  # fmt: skip
    yield compare(
        "CPU time that it starts with", "s", statistics.median(starts[OURS.name]),
        statistics.median(starts["plain"]), "not sampled",
    )  # fmt: skip
    for tool in PEERS:
        claim = f"the same with {tool.name}"
        why = tool.why_not or broken.get(tool.name, "")
        if why:
            yield missing(claim, "s", None, "not sampled", why)
            continue
        theirs = times[tool.name]
        note = f"{len(theirs)} runs, median of ratios {_median_ratio(theirs, plain[: len(theirs)]):.3f}"
        yield compare(
            claim, "s", statistics.fmean(theirs), statistics.fmean(plain[: len(theirs)]), "not sampled",
            note=note,
        )  # fmt: skip


def _median_ratio(ours: list[float], plain: list[float]) -> float:
    return statistics.median(mine / other for mine, other in zip(ours, plain, strict=True))


def _own(folder: Path) -> Iterator[Row]:
    """What a sampler itself takes, and how much it sees, of one busy thread."""
    mix = MIXES[0]
    script = folder / "busy.py"
    script.write_text(mix.source, encoding="utf-8")
    percent, fixed, out = _own_cpu(OURS, mix, script)
    rate = _rate_hz(out)
    yield compare(
        "the sampler's own CPU, while it samples one busy thread", "% of a core", percent, None, "",
        bar=_BAR_OWN_PERCENT, bar_on="ours",
        note=f"a run of {_LONG_S:g} s less one of {_SHORT_S:g} s; beginning and end take {fixed:.2f} s more",
    )  # fmt: skip
    yield compare(
        "samples of one busy thread", "a second", rate, None, "", bar=_BAR_RATE_HZ, bar_on="ours",
        at_least=True,
    )  # fmt: skip
    for tool in (tool for tool in PEERS if tool.outside):
        claim = f"{tool.name}'s own CPU, while it samples one busy thread"
        if tool.why_not:
            yield missing(claim, "% of a core", None, "ours", tool.why_not)
            continue
        try:
            theirs, fixed, out = _own_cpu(tool, mix, script)
        except measure.ChildError as problem:
            yield missing(claim, "% of a core", None, "ours", str(problem))
            continue
        lines = out.read_text(encoding="utf-8").splitlines()
        counts = [int(line.rpartition(" ")[2]) for line in lines if line[-1:].isdigit()]
        seen = sum(counts) if tool.name == "py-spy" else len(counts)
        yield Row(
            claim, theirs, percent, "ours", "% of a core", theirs / percent if percent else None,
            note=f"about {seen / _LONG_S:,.0f} samples a second",
        )  # fmt: skip


def _own_cpu(tool: Tool, mix: Mix, script: Path) -> tuple[float, float, Path]:
    """Percent of a core between a short and a long run; s of CPU that both take beside; the output of the
    long one."""
    taken: list[float] = []
    out = script
    for seconds in (_SHORT_S, _LONG_S):
        out = script.with_name(f"busy-{tool.name}-{seconds:g}{'.topsprof' if tool is OURS else '.txt'}")
        usage = measure.run_child(tool.command(out, mix, [str(script), str(seconds)]))
        taken.append(usage.cpu_s - float(printed(usage.stdout, "BENCH")))
    slope = (taken[1] - taken[0]) / (_LONG_S - _SHORT_S)
    return 100 * slope, taken[0] - slope * _SHORT_S, out


def _rate_hz(session: Path) -> float:
    """Samples a second of the thread that has most of them."""
    query = """
        SELECT count(*) AS samples, max(start_ns) - min(start_ns) AS ns FROM sample
        WHERE stack_id IS NOT NULL GROUP BY process_id, thread_id ORDER BY 1 DESC LIMIT 1
    """
    done = measure.run_child(measure.topsprof("sql", str(session), query, "-f", "json"))
    (row,) = json.loads(done.stdout)
    return float(row["samples"] / row["ns"] * 1e9)
