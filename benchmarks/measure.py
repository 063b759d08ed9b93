"""Measuring whole child processes and pairs of them: wall time, CPU time of the process tree, peak memory."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class ChildError(RuntimeError):
    """A measured child failed; the message ends with what it said."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one child process took. CPU time counts the children it waited for; memory is the largest of
    them."""

    wall_s: float
    cpu_s: float
    rss_bytes: int
    stdout: str


@dataclass
class Usages:
    """Repetitions of one child."""

    runs: list[Usage] = field(default_factory=list)

    @property
    def wall_s(self) -> float:
        """The least wall time."""
        return min(run.wall_s for run in self.runs)

    @property
    def median_wall_s(self) -> float:
        return statistics.median(run.wall_s for run in self.runs)

    @property
    def cpu_s(self) -> float:
        """The least CPU time."""
        return min(run.cpu_s for run in self.runs)

    @property
    def median_cpu_s(self) -> float:
        return statistics.median(run.cpu_s for run in self.runs)

    @property
    def rss_bytes(self) -> int:
        """The largest peak."""
        return max(run.rss_bytes for run in self.runs)

    @property
    def note(self) -> str:
        """Minimum and median of the wall time, and the CPU time."""
        return f"min {self.wall_s:.3f} s, median {self.median_wall_s:.3f} s, CPU {self.cpu_s:.3f} s"


def run_child(argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Usage:
    """Run a program to its end. Raises ChildError when it does not end with 0."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        argv,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # read first, then wait4: the only call that tells what this one child took
    out, err = _drain(child)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - begin
    if child.returncode:
        last = (err.strip() or out.strip() or "no output").splitlines()[-1]
        raise ChildError(f"{_brief(argv)} ended with {child.returncode}: {last}")
    return Usage(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, out)


def _brief(argv: Sequence[str]) -> str:
    return " ".join(word.splitlines()[0] for word in argv[1:4] if word)


def _drain(child: subprocess.Popen[str]) -> tuple[str, str]:
    import threading

    assert child.stdout is not None and child.stderr is not None
    errors: list[str] = []
    reader = threading.Thread(target=lambda stream: errors.append(stream.read()), args=(child.stderr,))
    reader.start()
    out = child.stdout.read()
    reader.join()
    child.stdout.close()
    child.stderr.close()
    return out, "".join(errors)


def interleaved(children: Mapping[str, Callable[[], Usage]], repetitions: int) -> dict[str, Usages]:
    """Run children in turn, so that a slow minute of the machine meets all of them."""
    found = {name: Usages() for name in children}
    for _ in range(repetitions):
        for name, child in children.items():
            found[name].runs.append(child())
    return found


def upper_limit(ratios: Sequence[float]) -> float:
    """Upper end of the two-sided 95 % interval of the mean of paired ratios (normal approximation; at least
    30 pairs)."""
    if len(ratios) < 30:
        raise ValueError("an interval of fewer than 30 pairs says nothing")
    return statistics.fmean(ratios) + 1.96 * statistics.stdev(ratios) / math.sqrt(len(ratios))


def python(*arguments: str) -> list[str]:
    """A command line for this interpreter."""
    return [sys.executable, *arguments]


def topsprof(*arguments: str) -> list[str]:
    """A command line for `topsprof`."""
    return [sys.executable, "-m", "topsprof", *arguments]


def installed(module: str) -> bool:
    """Whether a peer can be imported here."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
