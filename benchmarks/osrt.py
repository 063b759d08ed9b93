"""What recording a call of the operating system costs it, beside strace and perf trace in the same run.

The call is the cheapest there is, a write() to /dev/null, so that what is added stands out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

DESCRIPTION = "cost of recording a call of the operating system, against strace and perf trace"

_ROUNDS = 7
_CALLS = 200_000
_TRACED_CALLS = 10_000  # of tools that take tens of us a call

_PROGRAM = """
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static double ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
int main(int argc, char **argv) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    long calls = argc > 1 ? atol(argv[1]) : 1;
    int fd = open("/dev/null", O_WRONLY);
    double wall, cpu, locks;
    for (long k = 0; k < 1000; k++) if (write(fd, "abcde", 5) != 5) return 1;
    wall = ns(CLOCK_MONOTONIC), cpu = ns(CLOCK_PROCESS_CPUTIME_ID);
    for (long k = 0; k < calls; k++) if (write(fd, "abcde", 5) != 5) return 1;
    wall = ns(CLOCK_MONOTONIC) - wall, cpu = ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    locks = ns(CLOCK_PROCESS_CPUTIME_ID);
    for (long k = 0; k < calls; k++) pthread_mutex_lock(&lock), pthread_mutex_unlock(&lock);
    locks = ns(CLOCK_PROCESS_CPUTIME_ID) - locks;
    printf("BENCH %.2f %.2f %.2f\\n", wall / (double)calls, cpu / (double)calls, locks / (double)calls);
    return 0;
}
"""
_WALL, _CPU, _LOCK = 0, 1, 2


def rows() -> Iterator[Row]:
    """What a call costs under each tool."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        yield missing("a write() that is recorded", "ns", None, "no tool", "there is no C compiler")
        return
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as name:
        folder = Path(name)
        source, program = folder / "calls.c", folder / "calls"
        source.write_text(_PROGRAM, encoding="utf-8")
        subprocess.run([compiler, "-O2", "-pthread", str(source), "-o", str(program)], check=True)
        yield from _measured(folder, program)


def _commands(folder: Path, program: Path) -> dict[str, list[str]]:
    words = [str(program), str(_CALLS)]
    few = [str(program), str(_TRACED_CALLS)]

    def ours(name: str, threshold: str) -> list[str]:
        options = ["-f", "-o", str(folder / name), "-t", "osrt", "--osrt-threshold", threshold]
        return measure.topsprof("run", *options, "--", *words)

    found = {"plain": words, "counted": ours("counted", "1000ms"), "recorded": ours("recorded", "0")}
    if shutil.which("strace"):
        found["strace"] = ["strace", "-f", "-T", "-e", "trace=write", "-o", str(folder / "strace"), *few]
    if shutil.which("perf"):
        found["perf trace"] = ["perf", "trace", "-e", "write", "-o", str(folder / "perf"), *few]
    return found


def _measured(folder: Path, program: Path) -> Iterator[Row]:
    commands = _commands(folder, program)
    times: dict[str, list[list[float]]] = {}
    failed: dict[str, str] = {}
    for _ in range(_ROUNDS):
        for tool, command in commands.items():
            if tool in failed:
                continue
            try:
                figures = _figures(measure.run_child(command).stdout)
                times.setdefault(tool, []).append(figures)
            except measure.ChildError as error:  # perf may not be allowed here
                failed[tool] = str(error).strip().splitlines()[-1]
    best = {tool: [min(run[k] for run in runs) for k in range(3)] for tool, runs in times.items()}
    plain = best["plain"]
    note = f"CPU time; {plain[_CPU]:.0f} ns without us"
    added = {tool: values[_CPU] - plain[_CPU] for tool, values in best.items()}
    yield compare(
        "write() that -t osrt only counts, what it adds", "ns", added["counted"], plain[_CPU],
        "the call itself", note=note,
    )  # fmt: skip
    yield compare(
        "write() that -t osrt records, what it adds", "ns", added["recorded"], plain[_CPU], "the call itself",
        note=f"{note}; {_recorded(folder / 'recorded.topsprof')}",
    )  # fmt: skip
    yield compare(
        "lock that is free, with -t osrt", "ns", best["recorded"][_LOCK], plain[_LOCK], "no tool",
        note="lock and unlock, CPU time",
    )  # fmt: skip
    wall = {tool: values[_WALL] - plain[_WALL] for tool, values in best.items()}
    for tool in ("strace", "perf trace"):
        claim = f"write() that is recorded, the time it adds, against {tool}"
        if tool not in best:
            yield missing(claim, "ns", wall["recorded"], tool, failed.get(tool, f"{tool} is not installed"))
            continue
        yield compare(
            claim, "ns", wall["recorded"], wall[tool], tool, note=f"{_TRACED_CALLS:,} calls of the peer"
        )


def _recorded(session: Path) -> str:
    """What the session has of the calls."""
    facts = json.loads(measure.run_child(measure.topsprof("info", str(session), "--json")).stdout)
    count = facts["tables"].get("osrt", {}).get("rows", 0)
    return f"{count:,} calls recorded of {_CALLS + 1000:,} and a few"


def _figures(stdout: str) -> list[float]:
    line = next(line for line in stdout.splitlines() if line.startswith("BENCH "))
    return [float(word) for word in line.split()[1:]]
