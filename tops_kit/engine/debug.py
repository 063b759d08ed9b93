"""A launch under a debugger: its threads run instruction by instruction, in the engine's order or in yours.

    with_debugger = DebugLaunch(program, arguments, grid=(1,), block=(4,))
    with_debugger.set_breakpoint(12)
    stop = with_debugger.resume()          # in order, as a launch does, until something stops it
    with_debugger.step(thread=2, steps=1)  # or any thread, as far as it goes
    with_debugger.scalar(2, 0), with_debugger.read_l1(2, 0, 128)

Effects of transfers can be put off to their completion (`defer`), which shows a wait that is missing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from tops_kit.engine import printing
from tops_kit.engine.fault import KernelFault, RawFault, raw_fault
from tops_kit.engine.launch import ENGINES
from tops_kit.engine.options import Options, three
from tops_kit.engine.packing import Argument, pack_arguments
from tops_kit.engine.result import Counts
from tops_kit.gcu import Specification
from tops_kit.isa.dtypes import DTYPES, DType
from tops_kit.isa.faults import BY_NAME
from tops_kit.isa.program import Program

_CHUNK_STEPS = 1 << 20  # between looks at signals: a few milliseconds
_VECTOR_BYTES = 128


class State(IntEnum):
    """Where a thread stands (kernel.h). Those from READY on, but for the waiting and ended ones, can run."""

    READY = 0
    AT_BARRIER = 1
    AT_GRID_BARRIER = 2
    ENDED = 3
    FAULTED = 4
    AT_BREAKPOINT = 5
    STEPPED = 6
    AFTER_BRK = 7


_RUNNABLE = frozenset({State.READY, State.AT_BREAKPOINT, State.STEPPED, State.AFTER_BRK})


@dataclass(frozen=True, slots=True)
class ThreadStatus:
    """A thread: the next instruction, barriers passed, instructions run, transfers whose effect is put
    off."""

    state: State
    pc: int
    epoch: int
    grid_epoch: int
    steps: int
    pending_events: tuple[int, ...]
    fault: RawFault | None

    @property
    def runnable(self) -> bool:
        """Whether it can run: it neither waits at a barrier, nor has ended or faulted."""
        return self.state in _RUNNABLE


@dataclass(frozen=True, slots=True)
class View:
    """What a tile register holds. `address` counts from the start of the thread's L1 or the block's L2;
    in L3 it is an address of the host. Strides in bytes; only indices in [lo, hi) of an axis exist.
    """

    space: str
    object: int
    slot: int
    dtype: DType
    address: int
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    lo: tuple[int, ...]
    hi: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Why `resume` came back: `reason` is "breakpoint", "brk", "steps", "fault" or "end"; `thread` is -1
    at the end."""

    reason: str
    thread: int
    pc: int


_REASONS = {State.AT_BREAKPOINT: "breakpoint", State.AFTER_BRK: "brk", State.FAULTED: "fault"}


class DebugLaunch:
    """A launch that has begun; its threads stand at their first instruction.

    Needs the C engine (ValueError without). Arguments as for `launch`; arrays are changed in place.
    """

    def __init__(
        self,
        program: Program,
        arguments: Sequence[Argument],
        *,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        spec: Specification | None = None,
        defer: bool = False,
    ) -> None:
        engine = ENGINES.c()
        if engine is None:
            raise ValueError(f"debugging needs the C engine: {ENGINES.why_not}")
        self.program = program
        self.grid, self.block = three(grid), three(block)
        self.block_threads = int(np.prod(self.block))
        self.threads = int(np.prod(self.grid)) * self.block_threads
        self._arguments = list(arguments)  # their owners live as long as this
        self._c = engine.module
        arrays, scalars = pack_arguments(program.parameters, arguments)
        options = Options(self.grid, self.block, "debug", 1, 0, defer, spec)
        times = engine.times_wanted(program, options)
        self._debug = self._c.debug_new(
            engine.prepared(program).kernel, arrays, scalars, self.grid, self.block, defer, times
        )
        self._turn = 0  # the thread whose turn it is
        self._shown: set[int] = (
            set()
        )  # threads whose stop was reported: a breakpoint there does not count again

    # --- running ---

    def status(self, thread: int) -> ThreadStatus:
        """Where a thread stands."""
        state, pc, epoch, grid_epoch, steps, fault, pending = self._c.debug_thread(self._debug, thread)
        raw = None if fault is None or state != State.FAULTED else raw_fault(fault)
        return ThreadStatus(State(state), pc, epoch, grid_epoch, steps, pending, raw)

    def step(self, thread: int, steps: int = 1) -> State:
        """Run one thread for at most so many instructions: it stops before, at a breakpoint, barrier, end
        or fault."""
        state = self.status(thread).state
        self._shown.add(thread)
        while steps > 0 and state in _RUNNABLE:
            state, done = self._run(thread, min(steps, _CHUNK_STEPS))
            steps -= done
            if state not in (State.STEPPED, State.READY):
                break
        self._shown.add(thread)
        return state

    def _run(self, thread: int, steps: int) -> tuple[State, int]:
        """Some steps of a thread; how many were done."""
        before = self.status(thread).steps
        state, done = self._c.debug_run(self._debug, thread, steps, thread in self._shown)
        self._shown.discard(thread)
        return State(state), done - before

    def resume(self, steps: int | None = None) -> Stop:
        """Run in the engine's order until a breakpoint, a fault, the end, or (all threads together) so
        many steps.

        Called again it goes on where it stopped; threads that were stepped by hand are where they were
        brought.
        """
        left = steps
        faulted = self._faulted()
        if faulted is not None:
            return self._stop("fault", faulted)
        while True:
            thread = self._next()
            if thread is None:
                return Stop("end", -1, -1)
            chunk = _CHUNK_STEPS if left is None else min(left, _CHUNK_STEPS)
            if chunk == 0:
                return self._stop("steps", thread)
            state, done = self._run(thread, chunk)
            if left is not None:
                left -= done
            if state in _REASONS:
                return self._stop(_REASONS[state], thread)
            if state is State.READY:  # its slice is used up
                self._turn = thread + 1

    def _stop(self, reason: str, thread: int) -> Stop:
        self._shown.add(thread)
        return Stop(reason, thread, self.status(thread).pc)

    def _faulted(self) -> int | None:
        states = (self.status(thread).state for thread in range(self.threads))
        return next((thread for thread, state in enumerate(states) if state is State.FAULTED), None)

    def _next(self) -> int | None:
        """The thread whose turn it is, in the engine's order; barriers that are complete open. None: all
        ended."""
        for first in range(0, self.threads, self.block_threads):
            states = self._states(first)
            if all(s is State.AT_BARRIER for s in states):
                self._release(first)
                states = self._states(first)
            order = [k for k in range(self.block_threads) if states[k] in _RUNNABLE]
            if order:
                turn = self._turn - first
                return first + next((k for k in order if k >= turn), order[0])
            if State.AT_BARRIER in states:
                raise self._divergent(first, states)
        return self._next_of_grid()

    def _next_of_grid(self) -> int | None:
        states = [self.status(thread).state for thread in range(self.threads)]
        if State.AT_GRID_BARRIER not in states:
            return None
        if any(s is not State.AT_GRID_BARRIER for s in states):
            first = states.index(State.AT_GRID_BARRIER) // self.block_threads * self.block_threads
            raise self._divergent(first, self._states(first))
        for first in range(0, self.threads, self.block_threads):
            self._release(first)
        return self._next()

    def _states(self, first: int) -> list[State]:
        return [self.status(first + k).state for k in range(self.block_threads)]

    def _release(self, first: int) -> None:
        self._turn = 0
        for k in range(self.block_threads):
            self.release(first + k)

    def release(self, thread: int) -> None:
        """Let a thread that waits at a barrier go on, whoever else has not come."""
        self._c.debug_release(self._debug, thread)

    def _divergent(self, first: int, states: list[State]) -> KernelFault:
        waiting = next(k for k, s in enumerate(states) if s in (State.AT_BARRIER, State.AT_GRID_BARRIER))
        counts = tuple(states.count(s) for s in (State.AT_BARRIER, State.AT_GRID_BARRIER, State.ENDED))
        thread = first + waiting
        pc = self.status(thread).pc - 1
        raw = RawFault(
            BY_NAME["barrier"].number, pc, thread, first // self.block_threads, values=(*counts, 0)
        )
        return KernelFault(self.program, raw, self.output())

    def fault(self, thread: int) -> KernelFault | None:
        """What a thread did wrong, where it did."""
        raw = self.status(thread).fault
        return None if raw is None else KernelFault(self.program, raw, self.output())

    def set_breakpoint(self, pc: int, on: bool = True) -> None:
        """Stop threads before an instruction, or no longer. IndexError: there is no such instruction."""
        self._c.debug_breakpoint(self._debug, pc, on)

    # --- registers and memory ---

    def scalar(self, thread: int, register: int) -> int:
        """A scalar register's 32 bits, signed. IndexError: no such register."""
        return int(struct.unpack("=i", self._read(thread, "r", 4 * register, 4))[0])

    def scalar_f32(self, thread: int, register: int) -> float:
        """A scalar register as f32."""
        return float(struct.unpack("=f", self._read(thread, "r", 4 * register, 4))[0])

    def set_scalar(self, thread: int, register: int, value: int | float) -> None:
        """Write a scalar register: an int as i32, a float as f32."""
        packed = struct.pack("=f" if isinstance(value, float) else "=i", value)
        self._c.debug_write(self._debug, thread, "r", 4 * register, packed)

    def vector(self, thread: int, register: int) -> bytes:
        """The 128 bytes of a vector register."""
        return self._read(thread, "v", _VECTOR_BYTES * register, _VECTOR_BYTES)

    def set_vector(self, thread: int, register: int, value: bytes) -> None:
        """Write a vector register. ValueError: not 128 bytes."""
        if len(value) != _VECTOR_BYTES:
            raise ValueError(f"a vector register has {_VECTOR_BYTES} bytes, not {len(value)}")
        self._c.debug_write(self._debug, thread, "v", _VECTOR_BYTES * register, value)

    def tile(self, thread: int, register: int) -> View | None:
        """What a tile register holds, None before it was set."""
        raw: tuple[Any, ...] | None = self._c.debug_tile(self._debug, thread, register)
        if raw is None:
            return None
        space, object_, slot, code, address, shape, strides, lo, hi = raw
        return View(f"L{space}", object_, slot, DTYPES[code], address, shape, strides, lo, hi)

    def read_l1(self, thread: int, start: int, size: int) -> bytes:
        """Bytes of a thread's L1. IndexError: outside of what the kernel uses."""
        return self._read(thread, "1", start, size)

    def write_l1(self, thread: int, start: int, data: bytes) -> None:
        """Write to a thread's L1."""
        self._c.debug_write(self._debug, thread, "1", start, data)

    def read_l2(self, block: int, start: int, size: int) -> bytes:
        """Bytes of a block's L2."""
        return self._read(block * self.block_threads, "2", start, size)

    def write_l2(self, block: int, start: int, data: bytes) -> None:
        """Write to a block's L2."""
        self._c.debug_write(self._debug, block * self.block_threads, "2", start, data)

    def _read(self, thread: int, kind: str, start: int, size: int) -> bytes:
        data: bytes = self._c.debug_read(self._debug, thread, kind, start, size)
        return data

    # --- results ---

    def output(self) -> list[str]:
        """Lines printed so far, in the order in which they were printed."""
        prints, _, _ = self._c.debug_results(self._debug)
        return printing.lines(prints, self.program.strings) if prints else []

    def counts(self) -> Counts:
        """How often each instruction ran so far."""
        _, _, counts = self._c.debug_results(self._debug)
        return np.frombuffer(counts, np.int64)
