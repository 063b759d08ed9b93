"""The cost model's state between two events, and what it has counted so far: timing_state.h in Python."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tops_kit.engine.timing_parameters import Parameters
from tops_kit.engine.timing_result import (
    CAUSES,
    CHANNEL_COLUMNS,
    INTERVAL,
    MEMORIES,
    PC_COLUMNS,
    SIP_COLUMNS,
    UNITS,
    TimingResult,
    in_order,
)

NO_KEY = 0xFFFF
DMA, VECTOR, MATRIX, QUEUE, BARRIER, ATOMIC = range(len(CAUSES))
_STALL_OF_SIP = SIP_COLUMNS.index(CAUSES[0])
_STALL_OF_PC = PC_COLUMNS.index(CAUSES[0])
_UNIT = {name: number for number, name in enumerate(UNITS)}


class Event(NamedTuple):
    """An event of a thread, as EVENT in result.py."""

    pc: int
    scalar_cycles: int
    work: float
    size: int
    flops: float
    event: int
    after: int
    key: Any
    kind: int
    dtype: int
    source: int
    to: int
    channel: int


class Use(NamedTuple):
    """Until when a unit uses something, and the instruction that does."""

    when: int
    pc: int


@dataclass(eq=False)
class Transfer:
    """A transfer from its issue to its completion; `channel` -1: a tile of atomics."""

    issued: int
    ready: int  # what it has waited for so far was done then
    size: int
    pc: int
    event: int
    sip: Sip
    latency: int
    route: int
    channel: int
    source: int
    to: int
    waited_pc: int = -1
    slots: Use | None = (
        None  # when the vector and matrix units are done with its slots, and the last operation
    )
    waits: int = 0  # how many it waits for
    next: Transfer | None = None  # in its channel
    dependents: list[Transfer] = field(default_factory=list)  # that start after it
    turn: int = 0  # its place among its SIP's transfers: the least goes first
    active: bool = False  # it flows: no other on its route is before it
    left: float = 0.0  # bytes, as of the last sharing
    rate: float = 0.0


@dataclass(eq=False)
class Unit:
    """The vector or the matrix unit: its last operation, and those that its queue may still hold."""

    last: Use
    queue: deque[Use]


@dataclass(eq=False)
class Slot:
    """SIPs of a cluster that one block at a time has; `block` -1: none."""

    cluster: int
    sips: list[Sip]
    block: int = -1
    arrived: int = 0
    ended: int = 0
    release: int = 0
    end: int = 0


@dataclass(eq=False)
class Sip:
    """A SIP and its thread. `state`: "rest", "run", "end", or what it waits for."""

    number: int
    t: int = 0  # the scalar unit's clock
    start: int = 0  # when what the scalar unit does now began, and the instruction it began with
    pc: int = 0
    wait_pc: int = 0
    thread: int = -1
    state: str = "rest"
    waited: int = 0  # the event or channel it waits for
    issued: bool = False  # the event at `at` has had its issue cycles
    at: int = 0
    events: list[tuple[Any, ...]] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    written: list[Use] = field(default_factory=list)  # by key
    read: list[Use] = field(default_factory=list)
    last: list[Transfer | None] = field(default_factory=list)  # by channel
    held: list[int] = field(default_factory=list)
    pending: dict[int, Transfer] = field(default_factory=dict)  # by event
    issues: int = 0  # transfers ever
    flowing: list[Transfer] = field(default_factory=list)  # that could flow, by turn
    flowing_since: int = 0
    idle_since: int = 0
    slot: Slot | None = None


class Tally:
    """What is counted: the arrays of TimingResult, while they grow."""

    def __init__(self, p: Parameters, pcs: int, record: bool) -> None:
        self.record = record
        self.cycles = self.l1_bytes = self.transfers = 0
        self.sip = [[0] * len(SIP_COLUMNS) for _ in range(p.sips)]
        self.pc = [[0] * len(PC_COLUMNS) for _ in range(pcs)]
        self.channel = [[[0] * len(CHANNEL_COLUMNS) for _ in range(p.channels + 1)] for _ in range(p.sips)]
        self.moved = [[0] * len(MEMORIES) for _ in MEMORIES]
        self.flops = [[0.0] * len(p.vector_rate) for _ in range(2)]
        self.intervals: list[tuple[int, ...]] = []

    def of_sip(self, s: Sip, column: str, amount: int) -> None:
        """Add to a column of SIP_COLUMNS."""
        self.sip[s.number][SIP_COLUMNS.index(column)] += amount

    def of_pc(self, pc: int, column: str, amount: int) -> None:
        """Add to a column of PC_COLUMNS."""
        self.pc[pc][PC_COLUMNS.index(column)] += amount

    def stall(self, s: Sip, cause: int, pc: int, blamed: int, cycles: int) -> None:
        """The scalar unit waits at `pc`, for what the instruction at `blamed` does."""
        self.sip[s.number][_STALL_OF_SIP + cause] += cycles
        self.pc[pc][_STALL_OF_PC + cause] += cycles
        self.of_pc(blamed, "blamed", cycles)

    def note(
        self,
        s: Sip,
        unit: str,
        when: tuple[int, int, int],
        pc: int,
        waited: int = -1,
        *,
        detail: int = 0,
        size: int = 0,
    ) -> None:
        """An interval, where asked for: `when` is start, end, and when it was issued."""
        if self.record and when[1] > when[0]:
            self.intervals.append((*when, size, pc, waited, s.thread, s.number, _UNIT[unit], detail))

    def result(self, solves: int) -> TimingResult:
        """All of it."""
        return TimingResult(
            self.cycles,
            np.array(self.sip, np.int64),
            np.array(self.pc, np.int64),
            np.array(self.channel, np.int64),
            np.array(self.moved, np.int64),
            self.l1_bytes,
            np.array(self.flops, np.float64),
            self.transfers,
            solves,
            in_order(np.array(self.intervals, INTERVAL)),
        )
