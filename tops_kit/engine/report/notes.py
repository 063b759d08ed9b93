"""Remarks of a report: what a kernel's times have for a reason that its lines don't show."""

from __future__ import annotations

from tops_kit.engine.timing_result import TimingResult
from tops_kit.isa.program import PIPELINE_CHANNELS, Program

_WORTH = 0.05  # of the SIPs' time, spent waiting for transfers


def notes(program: Program, result: TimingResult) -> tuple[str, ...]:
    """What there is to say of a launch: one line each."""
    running = result.of_sips("threads") > 0
    lifetime = max(int(running.sum()) * result.cycles, 1)
    if int(result.of_sips("dma")[running].sum()) < _WORTH * lifetime:
        return ()
    events = {variable.name for variable in program.variables if variable.kind == "event"}
    return tuple(
        f"{buffer.name} has {buffer.slots} slots: with more than {PIPELINE_CHANNELS} the loads of a pipeline "
        f"share one channel, where they follow one another: take slots={PIPELINE_CHANNELS} or fewer"
        for buffer in program.buffers
        if buffer.slots > PIPELINE_CHANNELS and f"{buffer.name}.ready0" in events
    )
