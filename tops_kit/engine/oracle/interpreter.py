"""A launch on the oracle: arguments bound, threads made, run in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tops_kit.engine import timing_parameters, timing_twin
from tops_kit.engine.oracle.effects import MAY_LOAD, MAY_STORE
from tops_kit.engine.oracle.memory import array_view, no_view
from tops_kit.engine.oracle.outcome import Outcome
from tops_kit.engine.oracle.prints import in_order
from tops_kit.engine.oracle.scalars import MASK, from_float
from tops_kit.engine.oracle.scheduling import SLICE_JUMPS, Block, Turns, run_blocks
from tops_kit.engine.oracle.steps import Step, decode
from tops_kit.engine.oracle.thread import Prints, Thread
from tops_kit.engine.oracle.trace import Trace, first_keys, traced
from tops_kit.engine.oracle.transfers import Pending
from tops_kit.engine.tiles_twin import Memory, Tile
from tops_kit.engine.timing_parameters import Parameters
from tops_kit.isa.dtypes import DType
from tops_kit.isa.program import Parameter, Program
from tops_kit.isa.table import OPCODES
from tops_kit.isa.verify import verify

Dimensions = tuple[int, int, int]


class Array(Protocol):
    """An array argument: memory of the host that is used in place (engine/launch.py's GlobalArray)."""

    @property
    def address(self) -> int: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides_bytes(self) -> tuple[int, ...]: ...
    @property
    def owner(self) -> object: ...


class Oracle:
    """A program ready to run: made once, launched any number of times."""

    def __init__(self, program: Program) -> None:
        verify(program)
        self.program = program
        self._steps = decode(program)
        self._traced: list[Step] = []  # made when first asked for
        self._cooperative = bool(np.any(program.code[:, 0] == OPCODES["gridbarrier"]))

    def run(
        self,
        arguments: Sequence[Array | int | float],
        *,
        grid: Dimensions,
        block: Dimensions,
        defer: bool = False,
        budget_s: float | None = None,
        slice_jumps: int = SLICE_JUMPS,
        timed_on: Parameters | None = None,
    ) -> Outcome:
        """Run the program on arguments in the order of its parameters; arrays are changed in place.

        `defer`: transfers move when they complete, not when they are issued. `timed_on` a part: with events,
        and a clock that goes by its figures (else it stands at 0).
        """
        launch = _Launch(self.program, arguments, grid, block, defer=defer)
        steps = self._steps
        if timed_on is not None:
            launch.time(timed_on)
            steps = self._traced = self._traced or traced(self.program, self._steps)
        counts = [0] * len(self._steps)
        deadline = None if budget_s is None else time.monotonic() + budget_s
        turns = Turns(steps, counts, deadline, slice_jumps)
        fault = run_blocks(
            launch.blocks, lambda number: Block(launch.threads(number), turns), cooperative=self._cooperative
        )
        prints = in_order(bytes(launch.prints.records), fault)
        return Outcome(fault, counts, prints, launch.prints.dropped, launch.events())


class _Launch:
    """What the threads of a launch begin with."""

    def __init__(
        self,
        program: Program,
        arguments: Sequence[Array | int | float],
        grid: Dimensions,
        block: Dimensions,
        *,
        defer: bool,
    ) -> None:
        self.program = program
        self.prints = Prints()
        self._grid, self._block = grid, block
        self._defer = defer
        self._registers = [0] * program.scalars
        for constant in program.constants:
            self._registers[constant.register] = _bits(constant.value)
        self._arrays: dict[int, Tile] = {}
        self._new_trace: Callable[[], Trace] | None = None
        self._traces: dict[int, Trace] = {}
        for parameter, argument in zip(program.parameters, arguments, strict=True):
            self._bind(parameter, argument)

    @property
    def blocks(self) -> int:
        """How many blocks the grid has."""
        return self._grid[0] * self._grid[1] * self._grid[2]

    def time(self, part: Parameters) -> None:
        """Threads that begin from now on have traces."""
        keys, slots = first_keys(self.program), timing_parameters.keys(self.program)
        flags = timing_parameters.flags(self.program)

        def clock(events: npt.NDArray[Any]) -> int:
            return timing_twin.clock(part, flags, slots, events)

        self._new_trace = lambda: Trace(keys, clock)

    def events(self) -> list[npt.NDArray[Any]] | None:
        """Those of each thread that began, in order; None when not timed."""
        return [trace.events() for _, trace in sorted(self._traces.items())] if self._new_trace else None

    def threads(self, block: int) -> list[Thread]:
        """The threads of a block, at their beginning, with new memories."""
        count = self._block[0] * self._block[1] * self._block[2]
        l2 = Memory.zeros(self.program.l2_bytes)
        return [self._thread(block, local, count, l2) for local in range(count)]

    def _bind(self, parameter: Parameter, argument: Array | int | float) -> None:
        if parameter.kind == "scalar":
            assert isinstance(argument, int | float)
            value = float(argument) if parameter.dtype.is_float else int(argument)
            self._registers[parameter.index] = _bits(value)
            return
        assert not isinstance(argument, int | float)
        view = array_view(
            argument.address,
            argument.dtype,
            argument.shape,
            argument.strides_bytes,
            owner=argument.owner,
            index=parameter.index,
        )
        view.slot = MAY_LOAD * parameter.loaded | MAY_STORE * (parameter.stored or parameter.atomic)
        self._arrays[parameter.index] = view

    def _thread(self, block: int, local: int, count: int, l2: Memory) -> Thread:
        program = self.program
        number = block * count + local
        if self._new_trace:
            self._traces[number] = self._new_trace()
        return Thread(
            id=number,
            block=block,
            special=self._special(block, local, count),
            r=list(self._registers),
            t=[no_view() for _ in range(program.tiles)],
            v=[np.zeros(128, np.uint8) for _ in range(program.vectors)],
            l1=Memory.zeros(program.l1_bytes),
            l2=l2,
            arrays=[self._arrays[index] for index in range(len(self._arrays))],
            prints=self.prints,
            pending=Pending() if self._defer else None,
            trace=self._traces.get(number),
        )

    def _special(self, block: int, local: int, count: int) -> tuple[int, ...]:
        """The numbers of SPECIAL, in its order."""
        return (
            block * count + local,
            self.blocks * count,
            local,
            count,
            block,
            self.blocks,
            *_place(local, self._block),
            *_place(block, self._grid),
            *self._block,
            *self._grid,
        )


def _place(number: int, dimensions: Dimensions) -> Dimensions:
    x, y, _ = dimensions
    return number % x, number // x % y, number // x // y


def _bits(value: int | float) -> int:
    return from_float(value) if isinstance(value, float) else value & MASK
