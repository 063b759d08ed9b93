"""What sampling its memory costs a program that allocates ten million small objects, beside tracemalloc and
others in the same run; and how far the estimate of a known program is from the truth.
"""

from __future__ import annotations

import csv
import io
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

DESCRIPTION = "cost of sampling the memory of a program, against tracemalloc, memray and scalene"

_PAIRS = 10
_OBJECTS = 10_000_000
_BAR = 1.10
_KNOWN_MB = 200.0
_ERROR_BAR = 0.10

_SCRIPT = """
import sys, time

def pairs(rounds):
    kept = None
    for _ in range(rounds):
        kept = [(number, number) for number in range(1000)]
    return kept

def texts(rounds):
    kept = None
    for _ in range(rounds):
        kept = [b"%d" % number for number in range(1000)]
    return kept

begin = time.process_time()
pairs(int(sys.argv[1]) // 4000)
texts(int(sys.argv[1]) // 2000)
print("BENCH", time.process_time() - begin)
"""
# a pair is a tuple and, from 257 on, a number; a text is itself and a number

_KNOWN = """
def blocks():
    return [bytearray(999) for _ in range(200_000)]

kept = blocks()
"""


def rows() -> Iterator[Row]:
    """The claims of memory sampling."""
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as name:
        folder = Path(name)
        yield from _cost(folder)
        yield _estimate(folder)


def _cost(folder: Path) -> Iterator[Row]:
    script = folder / "allocates.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    words = [str(script), str(_OBJECTS)]
    session, profile = str(folder / "memory.topsprof"), folder / "memray.bin"
    tools: dict[str, list[str]] = {
        "plain": measure.python(*words),
        "topsprof": measure.topsprof(
            "run", "-f", "-o", session, "-t", "pymem", "--", *measure.python(*words)
        ),
        "tracemalloc": measure.python("-X", "tracemalloc=1", *words),
    }
    if measure.installed("memray"):
        tools["memray"] = measure.python("-m", "memray", "run", "-q", "-f", "-o", str(profile), *words)
        tools["memray with Python's allocators"] = measure.python(
            "-m", "memray", "run", "--trace-python-allocators", "-q", "-f", "-o", str(profile), *words
        )
    if measure.installed("scalene"):
        tools["scalene"] = measure.python(
            "-m", "scalene", "run", "--memory", "-o", str(folder / "scalene.json"), *words
        )
    times: dict[str, list[float]] = {tool: [] for tool in tools}
    failed: dict[str, str] = {}
    for _ in range(_PAIRS):
        for tool, command in tools.items():
            if tool in failed:
                continue
            try:
                times[tool].append(_cpu_s(measure.run_child(command).stdout))
            except (measure.ChildError, StopIteration) as error:
                if tool in ("plain", "topsprof", "tracemalloc"):
                    raise
                failed[tool] = str(error) or "it printed nothing"
    plain = times["plain"]
    for tool in ("topsprof", "tracemalloc", "memray", "memray with Python's allocators", "scalene"):
        claim = f"10 M small objects, their memory recorded by {tool}: CPU time"
        if tool not in times or tool in failed:
            yield missing(claim, "s", None, "no profiler", failed.get(tool, f"{tool} is not installed"))
            continue
        ratio = statistics.median(mine / other for mine, other in zip(times[tool], plain, strict=True))
        yield compare(
            claim,
            "s",
            min(times[tool]),
            min(plain),
            "no profiler",
            bar=_BAR if tool == "topsprof" else None,
            limit=ratio,
            note=f"median of ratios {ratio:.3f}",
        )


def _estimate(folder: Path) -> Row:
    """200 MB of blocks of 1,000 bytes: how far the estimate is off at the default rate."""
    script = folder / "known.py"
    script.write_text(_KNOWN, encoding="utf-8")
    session = str(folder / "known.topsprof")
    measure.run_child(
        measure.topsprof("run", "-f", "-o", session, "-t", "pymem", "--", *measure.python(str(script)))
    )
    text = measure.run_child(
        measure.topsprof("stats", session, "-r", "pymem_sum:total", "-f", "csv", "--rows", "0")
    ).stdout
    found = next(row for row in csv.DictReader(io.StringIO(text)) if row["Name"] == "blocks")
    estimate, error = float(found["At End (MB)"]), float(found["Error (MB)"])
    truth = _KNOWN_MB + 200_000 * (56 + 8) / 1e6  # the blocks, their objects, and the list
    return compare(
        "memory of a known program at 512 KB: |estimate / truth - 1|",
        "share",
        abs(estimate / truth - 1),
        None,
        "the truth",
        bar=_ERROR_BAR,
        bar_on="ours",
        note=f"{estimate:.1f} MB, truth {truth:.1f} MB, told standard error {error:.1f} MB",
    )


def _cpu_s(stdout: str) -> float:
    line = next(line for line in stdout.splitlines() if line.startswith("BENCH "))
    return float(line.split()[1])
