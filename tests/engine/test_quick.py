"""Launches that are taken apart once: what they give is what launch() gives, in whichever order they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_machine_modes import scale
from tops_kit import gcu
from tops_kit.engine.c_engine import CEngine, quick_of
from tops_kit.engine.options import Mode, Options
from tops_kit.engine.packing import GlobalArray, pack_arguments
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32
from tops_kit.isa.program import Program

ROWS = 12
_PROGRAM = scale()


class _Both:
    """A program as a quick launch and as any other."""

    def __init__(self, engine: CEngine, program: Program, mode: Mode, threads: int) -> None:
        self.engine = engine
        self.options = Options((1, 1, 1), (threads, 1, 1), mode, 2, 60.0, False, gcu.load("s60"))
        self.ready = engine.prepared(program)
        self.wanted = engine.times_wanted(program, self.options)
        self.program = program
        self.quick = quick_of(engine, self.ready, self.options, self.wanted)

    def give(self, *arguments: Any) -> tuple[Any, Any]:
        """What both give."""
        arrays, scalars = pack_arguments(self.program.parameters, arguments)
        quick = self.engine.module.quick_run(self.quick, arrays, scalars)
        return quick, self.engine.run(self.ready, self.options, arrays, scalars, self.wanted)


@pytest.mark.parametrize("mode", ["fast", "counted", "timed"])
@given(st.lists(st.integers(0, ROWS), max_size=30), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_a_quick_launch_gives_what_any_launch_gives(
    c_engine: CEngine, mode: Mode, rows: list[int], threads: int
) -> None:
    both = _Both(c_engine, _PROGRAM, mode, threads)
    x = np.linspace(-3, 5, ROWS * 64, dtype=np.float32).reshape(ROWS, 64)
    for count in rows:
        y = np.zeros_like(x)
        quick, other = both.give(GlobalArray.of(x, F32), GlobalArray.of(y, F32), count)
        assert quick == other
        assert np.array_equal(y[:count], 2 * x[:count])


def test_equal_launches_share_their_result(c_engine: CEngine) -> None:
    both = _Both(c_engine, _PROGRAM, "timed", 2)
    x = np.ones((ROWS, 64), np.float32)
    y = np.zeros_like(x)
    first, second, third = (
        both.give(GlobalArray.of(x, F32), GlobalArray.of(y, F32), n)[0] for n in (3, 7, 3)
    )
    assert first is third
    assert first != second


def test_faults_and_prints_are_each_launch_s_own(c_engine: CEngine) -> None:
    asm = Assembler("divide")
    n = asm.scalar("n", I32)
    asm.op("idiv", "q", asm.constant(7), n)
    asm.op("end")
    both = _Both(c_engine, asm.finish(), "timed", 1)
    for divisor in (1, 0, 1, 0):
        quick, other = both.give(divisor)
        assert quick == other
        assert (quick[0] is None) == (divisor != 0)


def test_arguments_that_are_not_the_kernel_s(c_engine: CEngine) -> None:
    both = _Both(c_engine, _PROGRAM, "timed", 1)
    with pytest.raises(ValueError, match="not the kernel's"):
        c_engine.module.quick_run(both.quick, b"", b"")


def test_modes_that_are_not_quick(c_engine: CEngine) -> None:
    with pytest.raises(ValueError, match="no such mode"):
        _Both(c_engine, _PROGRAM, "debug", 1)
