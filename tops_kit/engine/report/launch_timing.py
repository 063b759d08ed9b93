"""All that is known of a launch's time, in one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine import timing
from tops_kit.engine.report.lines import LineTiming, classes, line_timings, scalar_flops
from tops_kit.engine.report.notes import notes
from tops_kit.engine.report.pipeline import Pipeline
from tops_kit.engine.report.places import places
from tops_kit.engine.report.roofline import Roofline, roofline
from tops_kit.engine.timing_result import CAUSES, CHANNEL_COLUMNS, MEMORIES, SIP_COLUMNS, TimingResult
from tops_kit.gcu import Specification
from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.program import Program

JSON_VERSION = 1  # grows when a key changes its meaning; new keys do not count
_NUMBERS = (
    "kernel", "part", "part_hash", "cost_model", "heading", "blocks", "block_threads", "cycles", "ns",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class LaunchTiming:
    """Where the cycles of a launch went. Cycles count from when the device begins with it.

    `heading` says on which part this was modelled; `part_hash` and `cost_model` with which figures and rules.
    `instructions` by class; `operations` by element type, all units together; `moved` by (from, to) memory,
    in bytes, "none" for fills; `lines` the costliest first; `pipeline` where it was asked for. `result` has
    the numbers of each SIP, channel and instruction; `notes` are remarks, a line each.
    """

    kernel: str
    part: str
    part_hash: str
    cost_model: int
    heading: str
    blocks: int
    block_threads: int
    cycles: int
    ns: int
    instructions: Mapping[str, int]
    operations: Mapping[str, float]
    moved: Mapping[tuple[str, str], int]
    lines: tuple[LineTiming, ...]
    roofline: Roofline
    result: TimingResult
    pipeline: Pipeline | None
    notes: tuple[str, ...] = ()

    @property
    def flops(self) -> float:
        """Floating-point operations of all units."""
        return sum(self.operations.get(dtype.name, 0.0) for dtype in DTYPES if dtype.is_float)

    def stalls(self) -> dict[str, int]:
        """Cycles that scalar units waited, by cause, over all SIPs that ran threads; with launch and tail."""
        running = self.result.of_sips("threads") > 0
        return {
            cause: int(self.result.of_sips(cause)[running].sum()) for cause in (*CAUSES, "launch", "tail")
        }

    def sips(self) -> list[dict[str, int]]:
        """Each SIP's columns (SIP_COLUMNS), with its number as `sip`."""
        rows = self.result.sip.tolist()
        return [{"sip": k, **dict(zip(SIP_COLUMNS, row, strict=True))} for k, row in enumerate(rows)]

    def channels(self) -> list[dict[str, float]]:
        """Transfers, busy cycles and bytes of each DTE channel that was used, over all SIPs; and the share of
        the launch that a SIP with threads had one under way there."""
        out = []
        running = max(int((self.result.of_sips("threads") > 0).sum()), 1)
        for k, row in enumerate(self.result.channel.sum(axis=0).tolist()):
            if row[0]:
                columns = dict(zip(CHANNEL_COLUMNS, row, strict=True))
                out.append(
                    {"channel": k, **columns, "occupancy": columns["busy"] / (running * max(self.cycles, 1))}
                )
        return out

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values; keys stay as they are."""
        out: dict[str, Any] = {
            "version": JSON_VERSION,
            **{name: getattr(self, name) for name in _NUMBERS},
            "instructions": dict(self.instructions),
            "operations": dict(self.operations),
            "flops": self.flops,
            "bytes": [{"from": a, "to": b, "bytes": n} for (a, b), n in self.moved.items()],
            "l1_bytes": self.result.l1_bytes,
            "stalls": self.stalls(),
            "sips": self.sips(),
            "channels": self.channels(),
            "roofline": {**asdict(self.roofline), "achieved": self.roofline.achieved},
            "notes": list(self.notes),
            "lines": [_line_json(line) for line in self.lines],
        }  # fmt: skip
        if self.pipeline is not None:
            out["pipeline"] = self.pipeline.to_json()
        return out

    def text(self, lines: int = 5) -> str:
        """For people: what it took, what bounds it, where the time went, and the costliest lines."""
        from tops_kit.engine.report.text import launch_text

        return launch_text(self, lines)


def _line_json(line: LineTiming) -> dict[str, Any]:
    return {
        "path": line.place.path, "line": line.place.line, "text": line.text, "issued": line.issued,
        "cycles": line.cycles, "cost": line.cost, "scalar_cycles": line.scalar_cycles,
        "stalls": dict(line.stalls), "blamed": line.blamed, "unit_cycles": line.unit_cycles,
        "bytes": line.bytes,
    }  # fmt: skip


def launch_timing(
    program: Program,
    spec: Specification,
    result: TimingResult,
    counts: npt.NDArray[np.int64],
    *,
    block_threads: int,
) -> LaunchTiming:
    """The report of a launch, from its times on a part (`LaunchResult.times`, or timing.times for another)
    and how often each instruction ran. It has a pipeline when the times have intervals."""
    operations = {
        dtype.name: float(total)
        for dtype, total in zip(DTYPES, result.flops.sum(axis=0), strict=True)
        if total
    }
    scalar = scalar_flops(program, counts)
    if scalar:
        operations["f32"] = operations.get("f32", 0.0) + scalar
    moved = {
        (MEMORIES[a], MEMORIES[b]): int(result.moved[a, b])
        for a, b in zip(*np.nonzero(result.moved), strict=True)
    }
    return LaunchTiming(
        kernel=program.name,
        part=spec.name,
        part_hash=spec.hash,
        cost_model=timing.COST_MODEL_VERSION,
        heading=spec.heading,
        blocks=int(result.of_sips("threads").sum()) // block_threads,
        block_threads=block_threads,
        cycles=result.cycles,
        ns=spec.nanoseconds(result.cycles),
        instructions=classes(program, counts),
        operations=operations,
        moved=moved,
        lines=line_timings(program, result, counts, spec.scalar_issue_cycles),
        roofline=roofline(spec, result),
        result=result,
        pipeline=_pipeline(program, spec, result),
        notes=notes(program, result),
    )


def _pipeline(program: Program, spec: Specification, result: TimingResult) -> Pipeline | None:
    if not len(result.intervals):
        return None
    return Pipeline(result.intervals, tuple(places(program)), spec.dte_channels)
