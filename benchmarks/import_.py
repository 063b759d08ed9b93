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

_REPETITIONS = 5
_BIG_REPETITIONS = 2
_MEMORY_BAR_GB = 1.5


def rows() -> Iterator[Row]:
    """All claims of the import."""
    yield from _real_traces()
    yield from _big_trace()


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


def _big_trace() -> Iterator[Row]:
    claim = "import of a CPU PyTorch trace of over 2 GB (stacks, shapes, memory), whole process"
    try:
        path = traces.big_trace()
    except (traces.NotEnoughMemoryError, subprocess.CalledProcessError, RuntimeError) as error:
        said = getattr(error, "stderr", None) or str(error)
        yield missing(claim, "s", None, "", f"no trace: {said.strip().splitlines()[-1]}")
        return
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as folder:
        target = str(Path(folder) / "big.topsprof")
        ours = measure.interleaved(
            {"import": lambda: measure.run_child(
                measure.topsprof("import", str(path), "-o", target, "--force-overwrite"))},
            _BIG_REPETITIONS,
        )["import"]  # fmt: skip
    size = path.stat().st_size
    yield compare(
        "memory of that import", "GB", ours.rss_bytes / 1e9, None, "", bar=_MEMORY_BAR_GB, bar_on="ours",
        note=f"file {size / 1e9:.2f} GB; {ours.note}",
    )  # fmt: skip
    for how, module, name, bar in (
        ("orjson", "orjson", "orjson.loads", 1.0), ("hta", "hta", "HolisticTraceAnalysis", 1 / 3),
    ):  # fmt: skip
        if not measure.installed(module):
            yield missing(claim, "s", ours.wall_s, name, f"{module} is not installed")
            continue
        try:
            peer = measure.run_child(_once(how, path))
        except measure.ChildError as error:
            yield missing(claim, "s", ours.wall_s, name, str(error))
            continue
        yield compare(claim, "s", ours.wall_s, peer.wall_s, name, bar=round(bar, 4), note=ours.note)
        memory_bar = round(1 / 3, 4) if how == "hta" else None
        yield compare(
            "memory of that import", "GB", ours.rss_bytes / 1e9, peer.rss_bytes / 1e9, name, bar=memory_bar
        )


def _once(how: str, path: Path) -> list[str]:
    """One cold read in a process of its own. It is the first to go when memory runs out."""
    code = (
        "import sys, pathlib, logging; logging.disable(logging.CRITICAL)\n"
        "from benchmarks import import_child, traces; traces.offer_to_oom_killer()\n"
        f"import_child.{how}(pathlib.Path(sys.argv[1]))"
    )
    return measure.python("-c", code, str(path))
