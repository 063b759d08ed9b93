"""A program that appends to a line and never prints it takes no more memory for that than a line may have."""

from __future__ import annotations

from typing import Literal

import pytest

from tops_kit.engine.launch import launch
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import I32
from tops_kit.isa.program import Program


def endless_line(*, rounds: int, tiles: bool) -> Program:
    """So many arguments of a print, each a number or a tile of 4,096 elements, and then the print."""
    asm = Assembler()
    asm.op("tbuf", "t", asm.buffer("t", "L1", I32, (4096,)), asm.constant(0), 0)
    asm.op("imov", "i", asm.constant(0))
    asm.label("again")
    asm.op("printtile", "t") if tiles else asm.op("printarg", "i", 0)
    asm.op("iadd", "i", "i", asm.constant(1))
    asm.op("blt", "i", asm.constant(rounds), "again")
    asm.op("print", "")
    asm.op("printarg", "i", 0)
    asm.op("print", "{}")
    asm.op("end")
    return asm.finish()


@pytest.mark.parametrize("tiles", [False, True])
def test_a_line_without_end_is_dropped(engine: Literal["c", "oracle"], tiles: bool) -> None:
    rounds = 70 if tiles else 140_000
    result = launch(
        endless_line(rounds=rounds, tiles=tiles), [], grid=(1,), block=(1,), mode="fast", engine=engine
    )
    assert result.output == [str(rounds)]
    assert result.dropped_prints == 1


@pytest.mark.parametrize(
    "field", ["{:999999999}", "{:.999999999f}", "{:99999999999999999999}", "{:0000000000999999999}"]
)
def test_a_field_without_end_is_written_plainly(field: str) -> None:
    asm = Assembler()
    asm.op("printarg", asm.constant(7), 0)
    asm.op("print", field)
    asm.op("end")
    assert launch(asm.finish(), [], grid=(1,), block=(1,), mode="fast").output == ["7"]


def test_launches_of_too_many_threads_are_refused(engine: Literal["c", "oracle"]) -> None:
    asm = Assembler()
    asm.op("end")
    with pytest.raises(ValueError, match="a launch has 1 to 16777216 threads"):
        launch(asm.finish(), [], grid=(1 << 25,), block=(1,), mode="fast", engine=engine)
