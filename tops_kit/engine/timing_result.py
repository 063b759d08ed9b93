"""What the cost model gives: arrays with named columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

CAUSES = ("dma", "vector", "matrix", "queue", "barrier", "atomic")  # what a SIP's scalar unit waits for
SIP_COLUMNS = ("scalar", *CAUSES, "launch", "tail", "vector_busy", "matrix_busy", "dte_busy", "threads")
PC_COLUMNS = ("events", "busy", "blamed", "bytes", *CAUSES)
CHANNEL_COLUMNS = ("transfers", "busy", "bytes")
MEMORIES = ("none", "L1", "L2", "L3")
UNITS = ("scalar", "stall", "vector", "matrix", "dte")

# timing_interval in timing.h
INTERVAL = np.dtype(
    [("start", "i8"), ("end", "i8"), ("issued", "i8"), ("bytes", "i8"), ("pc", "i4"), ("waited_pc", "i4"),
     ("thread", "i4"), ("sip", "i2"), ("unit", "u1"), ("detail", "u1")]
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TimingResult:
    """Times of one launch, in whole cycles from when the device began with it.

    - `sip` (SIPs, SIP_COLUMNS): `scalar` and the causes and `launch` and `tail` add up to `cycles`; the
      units' busy cycles run beside them; `dte_busy`: something flowed; `threads`: how many ran here.
    - `pc` (instructions + 1, PC_COLUMNS): events, cycles that their unit was busy, cycles that a scalar unit
      waited for them, bytes that its transfers moved, and its own waiting by cause.
    - `channel` (SIPs, channels + 1, CHANNEL_COLUMNS): transfers, cycles with one under way, bytes; the last
      channel is the block's.
    - `moved` (from, to) bytes by MEMORIES; from "none": fills and atomics of the scalar unit.
    - `l1_bytes` that the vector and matrix units read and wrote; `flops` (vector and matrix unit, type).
    - `transfers`, `solves`: how many there were, and how often bandwidth was shared out anew.
    - `intervals`, of type INTERVAL, where asked for; sorted by SIP, unit, channel, time.
    """

    cycles: int
    sip: npt.NDArray[np.int64]
    pc: npt.NDArray[np.int64]
    channel: npt.NDArray[np.int64]
    moved: npt.NDArray[np.int64]
    l1_bytes: int
    flops: npt.NDArray[np.float64]
    transfers: int
    solves: int
    intervals: npt.NDArray[Any]

    @classmethod
    def of_bytes(cls, parts: tuple[Any, ...], sips: int) -> TimingResult:
        """From what C gives: numbers, and arrays as bytes."""
        cycles, sip, pc, channel, moved, l1_bytes, flops, transfers, solves, intervals = parts
        return cls(
            cycles,
            np.frombuffer(sip, np.int64).reshape(sips, len(SIP_COLUMNS)),
            np.frombuffer(pc, np.int64).reshape(-1, len(PC_COLUMNS)),
            np.frombuffer(channel, np.int64).reshape(sips, -1, len(CHANNEL_COLUMNS)),
            np.frombuffer(moved, np.int64).reshape(len(MEMORIES), len(MEMORIES)),
            l1_bytes,
            np.frombuffer(flops, np.float64).reshape(2, -1),
            transfers,
            solves,
            in_order(np.frombuffer(intervals, INTERVAL)),
        )

    def of_sips(self, column: str) -> npt.NDArray[np.int64]:
        """A column of `sip`, one number a SIP."""
        return self.sip[:, SIP_COLUMNS.index(column)]

    def of_instructions(self, column: str) -> npt.NDArray[np.int64]:
        """A column of `pc`, one number an instruction."""
        return self.pc[:, PC_COLUMNS.index(column)]


def in_order(intervals: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sorted by SIP, unit (the scalar unit's work and waiting are one), channel, time."""
    if not len(intervals):
        return intervals
    dte = UNITS.index("dte")
    unit = np.where(intervals["unit"] == UNITS.index("stall"), UNITS.index("scalar"), intervals["unit"])
    channel = np.where(intervals["unit"] == dte, intervals["detail"], 0)
    order = np.lexsort((intervals["start"], channel, unit, intervals["sip"]))
    out: npt.NDArray[Any] = intervals[order]
    return out
