"""Samples of where a launch's scalar units were, as a sampler in each SIP would take them.

They are derived from the launch's exact cycles a line and cause: cycles are laid end to end in a fixed
order, and every `period_cycles` one is taken. So samples are exact to one, and the same in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topspti.errors import PtiError, launch_timing, shown

if TYPE_CHECKING:
    from tops_kit.engine.report import LaunchTiming

ISSUING = "issuing"  # the reason of samples that found no stall


@dataclass(frozen=True, slots=True)
class LineSamples:
    """Samples of a source line for one reason: a cause of stalls, or "issuing"."""

    path: str
    line: int
    reason: str
    samples: int


def pc_samples(timing: LaunchTiming, period_cycles: int) -> list[LineSamples]:
    """Samples of a launch, at one in `period_cycles` (> 0) cycles of each SIP that ran threads.

    Time before a SIP's first thread and after its last has no line: path "", line 0, reason "launch", "tail".
    Raises PtiError: no timing, or no period.
    """
    if not isinstance(timing, launch_timing()):
        raise PtiError(f"a launch's timing is Launch.timing, not {shown(timing)}")
    if not isinstance(period_cycles, int) or period_cycles <= 0:
        raise PtiError(f"a sampling period is a positive number of cycles, not {shown(period_cycles)}")
    out = []
    passed = taken = 0
    for path, line, reason, cycles in _cycles(timing):
        passed += cycles
        samples = passed // period_cycles - taken
        taken += samples
        if samples:
            out.append(LineSamples(path, line, reason, samples))
    return out


def _cycles(timing: LaunchTiming) -> Iterator[tuple[str, int, str, int]]:
    for line in sorted(timing.lines, key=lambda each: each.place):
        yield line.place.path, line.place.line, ISSUING, line.scalar_cycles
        for cause in sorted(line.stalls):
            yield line.place.path, line.place.line, cause, line.stalls[cause]
    stalls = timing.stalls()
    for reason in ("launch", "tail"):
        yield "", 0, reason, stalls[reason]
