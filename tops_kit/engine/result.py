"""What a launch gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.findings import Report
from tops_kit.engine.timing_result import TimingResult

Counts = npt.NDArray[np.int64]

# an event of the timed mode: tevent in machine.h
EVENT = np.dtype(
    {
        "names": ["pc", "scalar_cycles", "work", "bytes", "flops", "event", "after", "key", "kind", "dtype",
                  "from", "to", "channel"],
        "formats": ["u4", "u4", "f8", "i8", "f8", "u4", "u4", ("u2", 4), "u1", "u1", "u1", "u1", "u2"],
        "offsets": [0, 4, 8, 16, 24, 32, 36, 40, 48, 49, 50, 51, 52],
        "itemsize": 56,
    }
)  # fmt: skip
EVENT_KINDS = (
    "", "vector", "matrix", "dma", "wait", "waitall", "barrier", "gridbarrier", "end", "sync", "atomic",
)  # fmt: skip


@dataclass(frozen=True)
class LaunchResult:
    """A launch that went well.

    `output`: printed lines, `printed_by`: (block, thread of the launch) of each; `dropped_prints`: how many
    the limit of 1 MB a thread cut off. `counts` (all
    modes but fast): how often each instruction ran, all threads together. `times` (timed): when what ran.
    `events` (timed, where asked for): per thread, in order, of type EVENT. `faults` (sanitized): the
    sanitizer's report. `engine`: "c" or "oracle". `ran`: "in order" on one host thread, "in parallel", or
    "again" in order since two threads of the kernel had stored to the same place; results are the same.
    """

    mode: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    engine: str
    output: list[str] = field(default_factory=list)
    dropped_prints: int = 0
    counts: Counts | None = None
    events: list[npt.NDArray[Any]] | None = None
    times: TimingResult | None = None
    faults: Report = field(default_factory=Report)
    ran: str = "in order"
    printed_by: list[tuple[int, int]] = field(default_factory=list)
