"""Whether samplers tell the true shares: each on the same programs, which say themselves what is true."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks import measure
from benchmarks.python_mixes import MIXES, Mix
from benchmarks.python_tools import OURS, PEERS, Tool, Weights, printed
from benchmarks.rows import Row, compare, missing
from benchmarks.traces import cache_dir

SECONDS: Final = 10.0
_BAR_POINTS: Final = 1.0
_UNIT: Final = "points"


def rows(seconds: float = SECONDS) -> Iterator[Row]:
    """For each program the largest error of a share in percentage points: ours, and each peer's."""
    with tempfile.TemporaryDirectory(prefix="topskit-bench-", dir=cache_dir()) as name:
        for mix in MIXES:
            script = Path(name, f"{mix.name}.py")
            script.write_text(mix.source, encoding="utf-8")
            yield from _of_mix(mix, script, seconds)


def _of_mix(mix: Mix, script: Path, seconds: float) -> Iterator[Row]:
    claim = f"error of a share, {mix.about}"
    error, note = _measured(OURS, mix, script, seconds)
    yield compare(claim, _UNIT, error, None, "", bar=_BAR_POINTS, bar_on="ours", note=note)
    for peer in PEERS:
        if peer.name not in mix.tools:
            continue
        if peer.why_not:
            yield missing(claim, _UNIT, error, peer.name, peer.why_not)
            continue
        try:
            others, note = _measured(peer, mix, script, seconds)
        except (measure.ChildError, OSError, ValueError, KeyError) as problem:
            yield missing(claim, _UNIT, error, peer.name, f"{peer.name} failed: {problem}")
            continue
        yield compare(claim, _UNIT, error, others, peer.name, note=note)


def _measured(tool: Tool, mix: Mix, script: Path, seconds: float) -> tuple[float, str]:
    """The largest error in percentage points; and in words the part it is of."""
    out = script.with_name(f"{mix.name}-{tool.name}{'.topsprof' if tool.name == OURS.name else '.json'}")
    done = measure.run_child(tool.command(out, mix, [str(script), str(seconds)]))
    truth: Weights = json.loads(printed(done.stdout, "TRUTH"))
    return worst(truth, tool.read(out, mix))


def worst(truth: Weights, found: Weights) -> tuple[float, str]:
    """The largest difference of shares, in percentage points, and where. What a tool found elsewhere
    (starting the program, reading the clock) is left out of both."""
    true_sum = sum(truth.values())
    found_sum = sum(found.get(part, 0.0) for part in truth)
    if not found_sum:
        raise ValueError("it found none of the parts")
    errors = {
        part: 100 * (found.get(part, 0.0) / found_sum - taken / true_sum) for part, taken in truth.items()
    }
    part = max(errors, key=lambda name: abs(errors[name]))
    return abs(errors[part]), f"{part}: {100 * truth[part] / true_sum:.1f} % true, {errors[part]:+.2f}"
