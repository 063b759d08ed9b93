"""Launches that a part can't run."""

from __future__ import annotations

import pytest

from tops_kit import gcu
from tops_kit.engine.c_engine import CEngine
from tops_kit.engine.launch import launch
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import I8
from tops_kit.isa.program import Program

pytestmark = pytest.mark.smoke
S60 = gcu.load("s60")


def program(*, l1: int = 0, l2: int = 0, grid_barrier: bool = False) -> Program:
    asm = Assembler()
    for space, size in (("L1", l1), ("L2", l2)):
        if size:
            asm.buffer(space.lower(), space, I8, (size,))
    if grid_barrier:
        asm.op("gridbarrier")
    asm.op("end")
    return asm.finish()


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "says"),
    [
        (program(), 1, 13, "a block of 13 threads: a cluster of s60 has 12 SIPs"),
        (program(l1=S60.l1_bytes + 1), 1, 1, "bytes of L1: s60 has 1,572,864"),
        (program(l2=S60.l2_bytes - S60.l2_reserved_bytes + 1), 1, 1, "bytes of L2: s60 has"),
        (program(grid_barrier=True), 3, 12, "all 3 blocks at once: s60 holds 2 of 12 threads"),
    ],
)
def test_what_does_not_fit(engine: str, kernel: Program, grid: int, block: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        launch(kernel, [], grid=(grid,), block=(block,), spec=S60, engine=engine)  # type: ignore[arg-type]


def test_what_just_fits(engine: str) -> None:
    for kernel, grid in ((program(l1=S60.l1_bytes), 5), (program(grid_barrier=True), 2)):
        launch(kernel, [], grid=(grid,), block=(12,), spec=S60, engine=engine)  # type: ignore[arg-type]


def test_more_threads_than_any_count_holds(c_engine: CEngine) -> None:
    """Their product, modulo 2**64, is 4 threads."""
    with pytest.raises(ValueError, match="1 to 16777216 threads"):
        launch(program(), [], grid=(5, 2147418113), block=(1, 1718039348), engine="c")
