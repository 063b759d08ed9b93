"""What each source line cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tops_kit.engine.report.places import Place, places, source_text
from tops_kit.engine.timing_parameters import SCALAR_CYCLES
from tops_kit.engine.timing_result import CAUSES, TimingResult
from tops_kit.isa.program import Program
from tops_kit.isa.table import INSTRUCTIONS


@dataclass(frozen=True)
class LineTiming:
    """One source line; cycles and bytes are sums over all SIPs.

    `issued` instructions took `scalar_cycles` to issue; `stalls` (by cause) is how long scalar units waited
    at this line, `blamed` how long any waited for what this line started, wherever they did. `unit_cycles`:
    how long its operations kept the vector, matrix and transfer units busy. `bytes` its transfers moved.
    """

    place: Place
    text: str
    issued: int
    scalar_cycles: int
    stalls: Mapping[str, int]
    blamed: int
    unit_cycles: int
    bytes: int

    @property
    def cycles(self) -> int:
        """Time that passed at this line: issuing and waiting. All lines, launch and tail give all time."""
        return self.scalar_cycles + sum(self.stalls.values())

    @property
    def cost(self) -> int:
        """Time that passed because of this line: its issuing, and all waiting for what it started."""
        return self.scalar_cycles + self.blamed


def line_timings(
    program: Program, result: TimingResult, counts: npt.NDArray[np.int64], scalar_issue_cycles: int
) -> tuple[LineTiming, ...]:
    """Every line that issued something, the costliest first; `counts`: how often each instruction ran."""
    pcs = len(program.code)
    issued = np.zeros(pcs + 1, np.int64)
    issued[: min(len(counts), pcs + 1)] = counts[: pcs + 1]
    cycles = np.append(SCALAR_CYCLES[program.code[:, 0]], 1) * issued * scalar_issue_cycles
    columns = [
        issued,
        cycles,
        *(result.of_instructions(name) for name in ("blamed", "busy", "bytes", *CAUSES)),
    ]
    table = np.stack(columns, axis=1)
    where = places(program)
    sums: dict[Place, npt.NDArray[np.int64]] = {}
    for pc in np.flatnonzero(table.any(axis=1)).tolist():
        place = where[pc]
        sums[place] = sums[place] + table[pc] if place in sums else table[pc]
    out = []
    for place, row in sums.items():
        count, scalar, blamed, busy, moved, *stalls = row.tolist()
        waited = {cause: stall for cause, stall in zip(CAUSES, stalls, strict=True) if stall}
        out.append(LineTiming(place, source_text(program, place), count, scalar, waited, blamed, busy, moved))
    return tuple(sorted(out, key=lambda line: (-line.cost, line.place)))


def classes(program: Program, counts: npt.NDArray[np.int64]) -> dict[str, int]:
    """How many instructions of each class (`group` of the instruction table) ran."""
    out: dict[str, int] = {}
    for opcode, count in zip(program.code[:, 0].tolist(), counts.tolist(), strict=False):
        if count:
            group = INSTRUCTIONS[opcode].group
            out[group] = out.get(group, 0) + count
    return dict(sorted(out.items()))


def scalar_flops(program: Program, counts: npt.NDArray[np.int64]) -> float:
    """Floating-point operations of the scalar unit."""
    return float(
        sum(
            int(INSTRUCTIONS[opcode].flops) * count
            for opcode, count in zip(program.code[:, 0].tolist(), counts.tolist(), strict=False)
            if INSTRUCTIONS[opcode].group == "scalar"
        )
    )
