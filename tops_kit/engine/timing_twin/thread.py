"""A thread's scoreboard (timing_thread.c in Python): the scalar unit issues, the others follow."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from tops_kit.engine.timing_parameters import HAS_STARTUP, IS_MATRIX, Parameters
from tops_kit.engine.timing_twin import state
from tops_kit.engine.timing_twin.state import NO_KEY, Event, Sip, Tally, Unit, Use
from tops_kit.engine.timing_twin.transfers import Transfers

_VECTOR, _MATRIX, _DMA, _WAIT, _WAITALL, _BARRIER, _GRIDBARRIER, _END, _SYNC, _ATOMIC = range(1, 11)
_NEVER = Use(0, 0)


class Threads:
    """Runs threads until they wait or end. `arrived` and `ended` hear of barriers and ends."""

    def __init__(self, p: Parameters, flags: list[int], keys: int, tally: Tally) -> None:
        self.p, self.flags, self.keys, self.tally = p, flags, keys, tally
        self.transfers = Transfers(p, tally, self.wake)
        self.runnable: list[Sip] = []
        self.arrived: Callable[[Sip], None] = _nobody
        self.ended: Callable[[Sip], None] = _nobody

    def begin(self, s: Sip, thread: int, events: list[tuple[Any, ...]], when: int) -> None:
        """A thread begins on a SIP."""
        self.tally.of_sip(s, "launch", when - s.idle_since)
        self.tally.of_sip(s, "threads", 1)
        s.t = s.start = when
        s.thread, s.events, s.at, s.issued = thread, events, 0, False
        depth = self.p.queue_depth
        s.units = [Unit(_NEVER, deque([_NEVER] * depth, depth)) for _ in range(2)]
        s.written = [_NEVER] * self.keys
        s.read = [_NEVER] * self.keys
        s.state = "run"
        self.runnable.append(s)

    def run(self) -> None:
        """All that can go on."""
        while self.runnable:
            self._run(self.runnable.pop())

    def wake(self, s: Sip, when: int, cause: int, blamed: int, slots: Use | None = None) -> None:
        """What a thread waited for is there; `slots`: until when a transfer waited for a unit."""
        if slots is not None:
            self._wait_until(s, slots.when, self._cause(slots.pc), s.wait_pc, slots.pc)
        self._wait_until(s, when, cause, s.wait_pc, blamed)
        if s.state == "end":
            self._end(s)
            return
        s.state = "run"
        self.runnable.append(s)

    def _end(self, s: Sip) -> None:
        self.tally.note(s, "scalar", (s.start, s.t, s.start), s.pc)
        s.state, s.idle_since = "rest", s.t
        self.ended(s)

    def _run(self, s: Sip) -> None:
        while s.state == "run":
            if s.at == len(s.events):
                s.state = "starved"
                return
            e = Event(*s.events[s.at])
            if not s.issued:
                if s.start == s.t:
                    s.pc = e.pc
                cycles = e.scalar_cycles * self.p.scalar_issue
                s.t += cycles
                self.tally.of_sip(s, "scalar", cycles)
                s.issued = True
            self._consume(s, e)
        if s.state in ("barrier", "grid barrier"):
            self.arrived(s)
        elif s.state == "end" and not s.pending:
            self._end(s)

    def _consume(self, s: Sip, e: Event) -> None:
        if e.kind in (_VECTOR, _MATRIX):
            self._operate(s, e)
        elif e.kind == _DMA:
            if not self.transfers.issue(s, e):
                s.state, s.waited, s.wait_pc = "channel", self.transfers.channel(e.channel), e.pc
                return
        elif e.kind == _WAIT:
            s.waited = e.event
            if e.event in s.pending:
                s.state = "wait"
        elif e.kind == _WAITALL:
            if s.pending:
                s.state = "wait all"
        elif e.kind == _SYNC:
            self._sync(s, e.key[0], e.pc)
        elif e.kind == _ATOMIC:
            self._atomics(s, e)
        else:
            self._drain(s, e.pc)
            s.state = {_BARRIER: "barrier", _GRIDBARRIER: "grid barrier", _END: "end"}[e.kind]
        s.wait_pc = e.pc
        self.tally.of_pc(e.pc, "events", 1)
        s.issued = False
        s.at += 1

    def _operate(self, s: Sip, e: Event) -> None:
        matrix = int(e.kind == _MATRIX)
        unit = s.units[matrix]
        self._wait_until(s, unit.queue[0].when, state.QUEUE, e.pc, unit.queue[0].pc)
        to, reads = e.key[0], [key for key in e.key[1:] if key != NO_KEY]
        uses = [unit.last, *(s.written[key] for key in reads)]
        if to != NO_KEY:
            uses += [s.written[to], s.read[to]]
        start, waited = s.t, -1
        for use in uses:
            if use.when > start:
                start, waited = use
        rate = (self.p.matrix_rate if matrix else self.p.vector_rate)[e.dtype]
        cycles = math.ceil(e.work / rate)
        if self.flags[e.pc] & HAS_STARTUP:
            cycles += self.p.matrix_startup if matrix else self.p.vector_startup
        done = Use(start + cycles, e.pc)
        for key in reads:
            if done.when > s.read[key].when:
                s.read[key] = done
        if to != NO_KEY:
            s.written[to] = done
        unit.last = done
        unit.queue.append(done)
        name = "matrix" if matrix else "vector"
        self.tally.of_sip(s, f"{name}_busy", cycles)
        self.tally.of_pc(e.pc, "busy", cycles)
        self.tally.l1_bytes += e.size
        self.tally.flops[matrix][e.dtype] += e.flops
        self.tally.note(s, name, (start, done.when, s.t), e.pc, waited)

    def _cause(self, pc: int) -> int:
        return state.MATRIX if self.flags[pc] & IS_MATRIX else state.VECTOR

    def _drain(self, s: Sip, pc: int) -> None:
        vector, matrix = (unit.last for unit in s.units)
        last = matrix if matrix.when > vector.when else vector
        self._wait_until(s, last.when, self._cause(last.pc), pc, last.pc)

    def _sync(self, s: Sip, key: int, pc: int) -> None:
        """Until the units are done with what a scalar access is about to touch; no key: the vector unit."""
        if key == NO_KEY:
            use, cause = s.units[0].last, state.VECTOR
        else:
            use = s.read[key] if s.read[key].when > s.written[key].when else s.written[key]
            cause = self._cause(use.pc)
        self._wait_until(s, use.when, cause, pc, use.pc)

    def _atomics(self, s: Sip, e: Event) -> None:
        if e.source:
            self.tally.flops[0][e.dtype] += e.flops
            s.state = "atomic"
            self.transfers.atomic(s, e)
            return
        if e.key[0] != NO_KEY:
            self._sync(s, e.key[0], e.pc)
        self._wait_until(s, s.t + self.p.atomic[e.to], state.ATOMIC, e.pc, e.pc)
        self.tally.moved[0][e.to] += e.size
        self.tally.of_pc(e.pc, "bytes", e.size)

    def _wait_until(self, s: Sip, when: int, cause: int, pc: int, blamed: int) -> None:
        if when <= s.t:
            return
        self.tally.stall(s, cause, pc, blamed, when - s.t)
        self.tally.note(s, "scalar", (s.start, s.t, s.start), s.pc)
        self.tally.note(s, "stall", (s.t, when, s.t), pc, blamed, detail=cause)
        s.t = s.start = when
        s.pc = pc


def _nobody(s: Sip) -> None:
    raise AssertionError(f"nobody hears of SIP {s.number}")
