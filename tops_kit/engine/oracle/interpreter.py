"""A launch on the oracle: arguments bound, threads made, run in order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tops_kit.engine.oracle.effects import MAY_LOAD, MAY_STORE
from tops_kit.engine.oracle.memory import array_view, no_view
from tops_kit.engine.oracle.outcome import Outcome
from tops_kit.engine.oracle.prints import in_order
from tops_kit.engine.oracle.scalars import MASK, from_float
from tops_kit.engine.oracle.scheduling import SLICE_JUMPS, Block, Turns, run_blocks
from tops_kit.engine.oracle.steps import decode
from tops_kit.engine.oracle.thread import Prints, Thread
from tops_kit.engine.oracle.transfers import Pending
from tops_kit.engine.tiles_twin import Memory, Tile
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
    ) -> Outcome:
        """Run the program on arguments in the order of its parameters; arrays are changed in place.

        `defer`: transfers move when they complete, not when they are issued.
        """
        launch = _Launch(self.program, arguments, grid, block, defer=defer)
        counts = [0] * len(self._steps)
        deadline = None if budget_s is None else time.monotonic() + budget_s
        turns = Turns(self._steps, counts, deadline, slice_jumps)
        fault = run_blocks(
            launch.blocks, lambda number: Block(launch.threads(number), turns), cooperative=self._cooperative
        )
        prints = in_order(bytes(launch.prints.records), fault)
        return Outcome(fault, counts, prints, launch.prints.dropped)


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
        for parameter, argument in zip(program.parameters, arguments, strict=True):
            self._bind(parameter, argument)

    @property
    def blocks(self) -> int:
        """How many blocks the grid has."""
        return self._grid[0] * self._grid[1] * self._grid[2]

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
        return Thread(
            id=block * count + local,
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
