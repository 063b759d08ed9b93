"""Importing Kineto traces beside HolisticTraceAnalysis's parser and a bare `orjson.loads`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure, traces
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

DESCRIPTION = "import of real Kineto traces against HolisticTraceAnalysis and orjson, and of one of over 2 GB"

_REPETITIONS = 3
_BIG_REPETITIONS = 2
_MEMORY_BAR_GB = 1.5
_MEMORY_PER_BYTE = {"orjson": 9, "hta": 8}
"""what the peers need of memory per byte of the file, with some room (measured: 7.7 and 5.9)"""


def rows() -> Iterator[Row]:
    """All claims of the import."""
    yield from _real_traces()
    yield from _made_trace(traces.GIGABYTE // 2, _REPETITIONS)
    yield from _made_trace(2 * traces.GIGABYTE, _BIG_REPETITIONS)


def _real_traces() -> Iterator[Row]:
    """All Kineto traces of the folder together, seconds inside one warm process."""
    folder = Path(os.environ.get("TOPSKIT_TRACES", measure.ROOT.parent / "shared" / "traces")) / "kineto"
    files = [str(file) for file in sorted(folder.glob("*.json.gz"))]
    if not files:
        yield missing(
            "import of real traces", "s", None, "", "no traces: set TOPSKIT_TRACES to the folder of them"
        )
        return
    hows = [
        "topsprof",
        *(how for how, module in (("hta", "hta"), ("orjson", "orjson")) if measure.installed(module)),
    ]
    least: dict[str, float] = {}
    failed: dict[str, str] = {}
    for _ in range(_REPETITIONS):
        for how in hows:
            try:
                run = measure.run_child(measure.python("-m", "benchmarks.import_child", how, *files))
            except measure.ChildError as error:
                if how == "topsprof":
                    raise
                failed[how] = str(error)
                continue
            line = next(line for line in run.stdout.splitlines() if line.startswith("BENCH "))
            total = sum(json.loads(line.removeprefix("BENCH ")).values())
            least[how] = min(total, least.get(how, total))
    claim = f"import of {len(files)} real traces, warm process"
    for how, name, bar in (("hta", "HolisticTraceAnalysis", 1 / 3), ("orjson", "orjson.loads", 1.0)):
        if how in least:
            yield compare(claim, "s", least["topsprof"], least[how], name, bar=round(bar, 4))
        else:
            yield missing(claim, "s", least["topsprof"], name, failed.get(how, f"{how} is not installed"))


def _made_trace(size_bytes: int, repetitions: int) -> Iterator[Row]:
    """One trace that the benchmark makes itself, every reader as a whole process."""
    words = (
        f"of a CPU PyTorch trace of {size_bytes / traces.GIGABYTE:g} GiB (stacks, shapes, memory), "
        f"whole process"
    )
    claim, memory_claim = f"import {words}", f"memory of the import {words}"
    try:
        path = traces.big_trace(size_bytes)
    except (traces.NotEnoughMemoryError, subprocess.CalledProcessError, RuntimeError) as error:
        said = getattr(error, "stderr", None) or str(error)
        yield missing(claim, "s", None, "", f"no trace: {said.strip().splitlines()[-1]}")
        return
    ours = measure.Usages()
    peers: dict[str, measure.Usages | str] = {}
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as folder:
        command = measure.topsprof("import", str(path), "-o", str(Path(folder) / "big"), "--force-overwrite")
        for turn in range(repetitions):
            ours.runs.append(measure.run_child(command))
            for how in ("orjson", "hta"):
                if how == "orjson" or turn == 0:  # the slow one once
                    _peer(how, path, peers)
    yield compare(
        memory_claim,
        "GB",
        ours.rss_bytes / 1e9,
        path.stat().st_size / 1e9,
        "the file itself",
        bar=_MEMORY_BAR_GB,
        bar_on="ours",
        note=ours.note,
    )
    for how, name, bar, memory_bar in (
        ("orjson", "orjson.loads", 1.0, None),
        ("hta", "HolisticTraceAnalysis", 1 / 3, 1 / 3),
    ):
        peer = peers[how]
        if isinstance(peer, str):
            yield missing(claim, "s", ours.wall_s, name, peer)
            continue
        yield compare(
            claim,
            "s",
            ours.wall_s,
            peer.wall_s,
            name,
            bar=round(bar, 4),
            note=f"ours {ours.note}; {peer.note}",
        )
        yield compare(
            memory_claim,
            "GB",
            ours.rss_bytes / 1e9,
            peer.rss_bytes / 1e9,
            name,
            bar=memory_bar and round(memory_bar, 4),
        )


def _peer(how: str, path: Path, peers: dict[str, measure.Usages | str]) -> None:
    """Measure a peer once more; what it failed of takes the place of its measurements."""
    known = peers.setdefault(how, measure.Usages())
    if isinstance(known, str):
        return
    if not measure.installed(how):
        peers[how] = f"{how} is not installed"
        return
    needed, free = path.stat().st_size * _MEMORY_PER_BYTE[how], traces.available_memory()
    if free is not None and free < needed:
        peers[how] = f"not tried: it needs about {needed / 1e9:.0f} GB of memory, {free / 1e9:.0f} are free"
        return
    try:
        known.runs.append(measure.run_child(_once(how, path)))
    except measure.ChildError as error:
        peers[how] = str(error)


def _once(how: str, path: Path) -> list[str]:
    """One cold read in a process of its own, which may take most of the free memory and no more."""
    code = (
        "import sys, pathlib, logging; logging.disable(logging.CRITICAL)\n"
        "from benchmarks import import_child, traces; limit = traces.limit_memory()\n"
        "try:\n"
        f"    import_child.{how}(pathlib.Path(sys.argv[1]))\n"
        "except Exception as error:\n"
        "    sys.exit(f'{type(error).__name__}: {str(error)[:80]} (within {limit / 1e9:.0f} GB of memory)')"
    )
    return measure.python("-c", code, str(path))
