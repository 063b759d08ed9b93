"""What kernels print."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tops_kit.engine.fault import KernelFault
from tops_kit.engine.result import LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import BF16, BOOL, F16, F32, I8, DType

Launch = Callable[..., LaunchResult]
I32_KIND, F32_KIND, BOOL_KIND = range(3)
pytestmark = pytest.mark.smoke


def printed(run: Launch, format_: str, *arguments: int | float | bool) -> str:
    asm = Assembler()
    for argument in arguments:
        kind = (
            BOOL_KIND if isinstance(argument, bool) else I32_KIND if isinstance(argument, int) else F32_KIND
        )
        asm.op("printarg", asm.constant(int(argument) if kind == BOOL_KIND else argument), kind)
    asm.op("print", format_)
    asm.op("end")
    (line,) = run(asm.finish()).output
    return line


@pytest.mark.parametrize(
    ("format_", "arguments", "text"),
    [
        ("plain", (), "plain"),
        ("i = {}, x = {}", (-3, 0.1), "i = -3, x = 0.1"),
        ("{:5d}|{:.3f}|{:e}", (42, 1 / 3, 1.0), "   42|0.333|1.000000e+00"),
        ("{} {}", (True, False), "True False"),
        ("{{{}}}", (1,), "{1}"),
        ("too few {}", (1, 2.5), "too few 1 2.5"),
        ("too many {} {}", (1,), "too many 1 {}"),
        ("a { brace", (), "a { brace"),
        ("{:q}", (7,), "7"),
        ("{.__class__}", (7,), "7"),
        ("{}", (float("nan"),), "nan"),
        ("{}", (1e38,), "1e+38"),
    ],
)
def test_formats(run: Launch, format_: str, arguments: tuple[int | float | bool, ...], text: str) -> None:
    assert printed(run, format_, *arguments) == text


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (F32, 0.1, "[[0.1, 0.1, 0.1],\n [0.1, 0.1, 0.1]]"),
        (F16, 0.1, "[[0.09997559, 0.09997559, 0.09997559],\n [0.09997559, 0.09997559, 0.09997559]]"),
        (BF16, 1.0, "[[1., 1., 1.],\n [1., 1., 1.]]"),
        (I8, -7, "[[-7, -7, -7],\n [-7, -7, -7]]"),
        (BOOL, 3, "[[ True,  True,  True],\n [ True,  True,  True]]"),
    ],
)
def test_tiles(run: Launch, dtype: DType, value: int | float, text: str) -> None:
    asm = Assembler()
    asm.op("tbuf", "t", asm.buffer("t", "L1", dtype, (2, 3)), asm.constant(0), 0)
    asm.op("tfill", "t", asm.constant(value))
    asm.op("printtile", "t")
    asm.op("print", "{}")
    asm.op("end")
    assert run(asm.finish()).output == [text]


def three_prints() -> Assembler:
    asm = Assembler()
    asm.op("special", "id", "thread_id")
    for part in range(3):
        asm.op("printarg", "id", 0)
        asm.op("print", f"{part} {{}}")
        if part == 1:
            asm.op("barrier")
    asm.op("end")
    return asm


@pytest.mark.parametrize("host_threads", [1, 2])
def test_lines_come_by_block_barrier_and_thread(run: Launch, host_threads: int) -> None:
    output = run(three_prints().finish(), grid=2, block=2, host_threads=host_threads).output
    wanted = []
    for first in (0, 2):
        wanted += [f"{part} {thread}" for thread in (first, first + 1) for part in (0, 1)]
        wanted += [f"2 {thread}" for thread in (first, first + 1)]
    assert output == wanted


def test_a_fault_keeps_what_was_printed_before_it(run: Launch) -> None:
    asm = Assembler()
    asm.op("special", "id", "thread_id")
    asm.op("printarg", "id", 0)
    asm.op("print", "thread {}")
    asm.op("ine", "other", "id", asm.constant(2))
    asm.op("imod", "a", "id", "other")
    asm.op("print", "after")
    asm.op("end")
    for host_threads in (1, 2):
        with pytest.raises(KernelFault) as caught:
            run(asm.finish(), grid=5, host_threads=host_threads)
        assert caught.value.output == ("thread 0", "after", "thread 1", "after", "thread 2")


def test_a_thread_prints_at_most_a_megabyte(run: Launch) -> None:
    asm = Assembler()
    asm.op("tbuf", "t", asm.buffer("t", "L1", F32, (1000,)), asm.constant(0), 0)
    asm.op("imov", "left", asm.constant(1000))
    asm.label("loop")
    asm.op("printtile", "t")
    asm.op("print", "{}")
    asm.op("isub", "left", "left", asm.constant(1))
    asm.op("brnz", "left", "loop")
    asm.op("end")
    result = run(asm.finish(), block=2)
    assert 2 * 250 < len(result.output) < 2 * 262
    assert result.dropped_prints == 2000 - len(result.output)


def test_a_tile_that_is_too_large_to_print(run: Launch) -> None:
    asm = Assembler()
    asm.op("tbuf", "t", asm.buffer("t", "L1", F32, (1 << 19,)), asm.constant(0), 0)
    asm.op("printtile", "t")
    asm.op("print", "{}")
    asm.op("print", "short")
    asm.op("end")
    result = run(asm.finish())
    assert (result.output, result.dropped_prints) == (["short"], 1)


def test_prints_of_numpy_size(run: Launch) -> None:
    """Records of any number of arguments fit."""
    asm = Assembler()
    for k in range(300):
        asm.op("printarg", asm.constant(k), 0)
    asm.op("print", "")
    asm.op("end")
    (line,) = run(asm.finish()).output
    assert np.array_equal(np.array(line.split(), int), np.arange(300))
