"""What the runtime costs the host: launches alone, recorded, and paused; graphs; a million launches."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.rows import Row, compare
from benchmarks.runtime_child import BURST, NODES
from benchmarks.traces import cache_dir
from tops_kit.runtime.quick_launches import extension_module

DESCRIPTION = "CPU time of a launch: alone, recorded, paused, in graphs; memory of a million launches"

_ROUNDS = 7
_BURSTS = 40
_MANY = 1_000_000
_BAR_US = 15.0


def rows() -> Iterator[Row]:
    """All claims about the runtime."""
    backend = "C" if extension_module()[0] else "twin"
    # segments are still put together for a while after a run: its folder may grow while it is removed
    with tempfile.TemporaryDirectory(
        prefix="topskit-bench-", dir=cache_dir(), ignore_cleanup_errors=True
    ) as folder:
        us = _launches(Path(folder))
        note = f"least of {_ROUNDS * _BURSTS} bursts of {BURST}, one thread, arrays of the device, timed"

        def row(claim: str, mode: str, peer: str, peer_name: str, **bar: Any) -> Row:
            return compare(claim, "us CPU", us[mode], us[peer], peer_name, backend=backend, note=note, **bar)

        yield row("launch of a small kernel", "launch", "python", "in Python", bar=_BAR_US, bar_on="ours")
        yield row("launches that differ from each other", "varied", "launch", "all alike")
        yield row(
            "launch in a range, recorded: kernel, API, TX", "recorded", "annotated", "no profiler", bar=1.3
        )
        yield row("the same, recording paused", "paused", "annotated", "no profiler", bar=1.05)
        yield row(f"launch as one of {NODES} nodes of a graph", "graph", "launch", "launched alone")
        yield from _million(Path(folder), backend)


def _child(*arguments: str) -> list[str]:
    return measure.python("-m", "benchmarks.runtime_child", *arguments)


def _launches(folder: Path) -> dict[str, float]:
    """us for one launch by mode, the least of rounds in which all have their turn."""
    session = str(folder / "launches.topsprof")
    run = measure.topsprof("run", "-f", "-o", session)
    commands = {
        mode: _child(mode, str(_BURSTS)) for mode in ("launch", "annotated", "varied", "graph", "python")
    }
    commands["recorded"] = [*run, "--", *_child("annotated", str(_BURSTS))]
    commands["paused"] = [*run, "--delay", "3600", "--", *_child("annotated", str(_BURSTS))]
    found: dict[str, list[float]] = {mode: [] for mode in commands}
    for _ in range(_ROUNDS):
        for mode, command in commands.items():
            found[mode].append(_said(measure.run_child(command).stdout)["us"])
    return {mode: min(times) for mode, times in found.items()}


def _said(stdout: str) -> dict[str, float]:
    line = next(line for line in stdout.splitlines() if line.startswith("BENCH "))
    said: dict[str, float] = json.loads(line.removeprefix("BENCH "))
    return said


def _million(folder: Path, backend: str) -> Iterator[Row]:
    session = str(folder / "million.topsprof")
    run = measure.run_child(
        [*measure.topsprof("run", "-f", "-o", session), "--", *_child("many", str(_MANY))]
    )
    facts = json.loads(measure.run_child(measure.topsprof("info", session, "--json")).stdout)
    lost = sum(
        entry["count"] for entry in facts["ledger"]["entries"] if entry["kind"] in ("dropped", "clipped")
    )
    kernels = facts["tables"]["kernel"]["rows"]
    yield compare(
        f"memory after {_MANY:,} recorded launches, more than after the first 20,000", "MB",
        _said(run.stdout)["grown_bytes"] / 1e6, None, "", bar=20, bar_on="ours", backend=backend,
        note="peak of the process",
    )  # fmt: skip
    yield compare(
        f"rows lost of {_MANY:,} launches", "rows", lost + _MANY - kernels, None, "", bar=0, bar_on="ours",
        backend=backend, note=f"{kernels:,} kernels recorded in {run.wall_s:.1f} s",
    )  # fmt: skip
