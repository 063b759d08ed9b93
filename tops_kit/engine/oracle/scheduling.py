"""The order in which threads run: fixed, and the same as the C machine's (engine/block.c, engine/schedule.c).

Blocks in their order; in a block the threads in theirs, each until it ends, waits at a barrier, or has used
up its slice. With grid barriers all blocks are kept, and each runs until all its threads wait there or have
ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tops_kit.engine.oracle.outcome import Fault
from tops_kit.engine.oracle.steps import BARRIER, END, GRID_BARRIER, Step
from tops_kit.engine.oracle.thread import AT_BARRIER, AT_GRID_BARRIER, ENDED, FAULTED, READY, Thread
from tops_kit.engine.oracle.trap import BARRIER as BARRIER_FAULT
from tops_kit.engine.oracle.trap import TIMEOUT, Trap

SLICE_JUMPS = 1 << 20  # backward jumps after which the next thread gets its turn
_LOOK_JUMPS = 1 << 8  # backward jumps between looks at the clock

_STATES = {END: ENDED, BARRIER: AT_BARRIER, GRID_BARRIER: AT_GRID_BARRIER}


class Ended(Exception):  # noqa: N818 - the launch is over, which is no error of the oracle
    """A fault ends the launch."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass
class Turns:
    """Runs threads, counts how often each instruction ran, and looks at the time."""

    steps: list[Step]
    counts: list[int]
    deadline_s: float | None  # of time.monotonic
    slice_jumps: int = SLICE_JUMPS

    def run(self, thread: Thread) -> Fault | None:
        """One turn of a thread; its `state` says where it stands then."""
        steps, counts, pc = self.steps, self.counts, thread.pc
        jumps = 0
        try:
            while True:
                counts[pc] += 1
                target = steps[pc](thread)
                if target is None:
                    pc += 1
                elif target < 0:
                    thread.pc = pc + 1
                    thread.state = _STATES[target]
                    thread.epoch += target == BARRIER
                    thread.grid_epoch += target == GRID_BARRIER
                    return None
                else:
                    back = target <= pc
                    pc = target
                    if back:
                        jumps += 1
                        if jumps % _LOOK_JUMPS == 0:
                            self._look()
                        if jumps == self.slice_jumps:
                            thread.pc = pc
                            return None
        except Trap as trap:
            thread.state = FAULTED
            at = pc if trap.pc is None else trap.pc
            where = (at, thread.id, thread.block, thread.epoch, thread.grid_epoch)
            return Fault(trap.kind, *where, trap.object, trap.space, trap.values, trap.shapes)

    def _look(self) -> None:
        if self.deadline_s is not None and time.monotonic() > self.deadline_s:
            raise Trap(TIMEOUT)


class Block:
    """The threads of a block that has begun."""

    def __init__(self, threads: list[Thread], turns: Turns) -> None:
        self.threads = threads
        self._turns = turns

    def advance(self) -> None:
        """Run until every thread has ended or waits at a grid barrier. Ended: a fault."""
        while True:
            self._run_to_barrier()
            waiting, grid = self._count(AT_BARRIER), self.at_grid_barrier
            if waiting == 0 and grid in (0, len(self.threads)):
                return
            if waiting != len(self.threads):
                raise self.divergence()
            self._release(AT_BARRIER)

    @property
    def at_grid_barrier(self) -> int:
        """How many threads wait at a grid barrier."""
        return self._count(AT_GRID_BARRIER)

    def release(self) -> None:
        """Let the threads go on behind the grid barrier."""
        self._release(AT_GRID_BARRIER)

    def divergence(self) -> Ended:
        """The fault of the first thread that waits where others never come."""
        thread = next(t for t in self.threads if t.state in (AT_BARRIER, AT_GRID_BARRIER))
        values = (self._count(AT_BARRIER), self.at_grid_barrier, self._count(ENDED), 0)
        at = (thread.pc - 1, thread.id, thread.block, thread.epoch, thread.grid_epoch)
        return Ended(Fault(BARRIER_FAULT, *at, values=values))

    def _run_to_barrier(self) -> None:
        """All threads to a barrier or their end; after a fault those before it, whose faults come first."""
        limit = len(self.threads)
        first: Fault | None = None
        while any(thread.state == READY for thread in self.threads[:limit]):
            for position, thread in enumerate(self.threads[:limit]):
                if thread.state != READY:
                    continue
                fault = self._turns.run(thread)
                if fault is not None:
                    first, limit = fault, position
                    break
        if first is not None:
            raise Ended(first)

    def _count(self, state: int) -> int:
        return sum(thread.state == state for thread in self.threads)

    def _release(self, state: int) -> None:
        for thread in self.threads:
            if thread.state == state:
                thread.state = READY


def run_blocks(count: int, begin: Callable[[int], Block], *, cooperative: bool) -> Fault | None:
    """Run all blocks of a launch; the fault that ended it. `cooperative`: the program has grid barriers."""
    try:
        with np.errstate(all="ignore"):
            if cooperative:
                _run_together([begin(number) for number in range(count)])
            else:
                for block in _each(count, begin):
                    block.advance()
    except Ended as ended:
        return ended.fault
    return None


def _each(count: int, begin: Callable[[int], Block]) -> Iterator[Block]:
    for number in range(count):
        yield begin(number)


def _run_together(blocks: list[Block]) -> None:
    while True:
        for block in blocks:
            block.advance()
        waiting = [block for block in blocks if block.at_grid_barrier]
        if not waiting:
            return
        if len(waiting) != len(blocks):
            raise waiting[0].divergence()
        for block in blocks:
            block.release()
