"""The events that times follow from: the oracle's are the C machine's, and so are times and clocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.test_timing_report import COLUMNS, scale
from tests.fuzz.generator import Case, generate
from tests.fuzz.values import ArraySpec, allocate
from tops_kit.engine.c_engine import CEngine
from tops_kit.engine.fault import KernelFault
from tops_kit.engine.launch import GlobalArray, launch
from tops_kit.engine.result import LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32
from tops_kit.isa.program import Program


def _launch(program: Program, arguments: list[Any], engine: Any, **options: Any) -> LaunchResult:
    return launch(program, arguments, mode="timed", events=True, pipeline=True, engine=engine, **options)


def _run(case: Case, engine: str) -> LaunchResult | None:
    """None: a fault."""
    arrays = allocate([a for a in case.arguments if isinstance(a, ArraySpec)])
    given = iter(arrays)
    arguments: list[Any] = []
    for argument in case.arguments:
        if isinstance(argument, ArraySpec):
            a = next(given)
            arguments.append(GlobalArray(a.address, a.dtype, a.shape, a.strides_bytes, a.name, True, a.owner))
        else:
            arguments.append(argument)
    try:
        return _launch(case.program, arguments, engine, grid=case.grid, block=case.block, host_threads=1)
    except KernelFault:
        return None


def _assert_same(a: LaunchResult, b: LaunchResult) -> None:
    assert a.events is not None
    assert b.events is not None
    for x, y in zip(a.events, b.events, strict=True):
        for name in x.dtype.names:
            assert np.array_equal(x[name], y[name]), name
    assert a.times is not None
    assert b.times is not None
    assert a.times.cycles == b.times.cycles
    for name in ("sip", "pc", "channel", "moved", "flops", "intervals"):
        assert np.array_equal(getattr(a.times, name), getattr(b.times, name)), name


@pytest.mark.parametrize("first", range(1000, 1100, 25))
def test_the_oracle_has_the_machines_events(c_engine: CEngine, first: int) -> None:
    for seed in range(first, first + 25):
        case = generate(seed)
        a, b = _run(case, "c"), _run(case, "oracle")
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            _assert_same(a, b)


@pytest.mark.smoke
def test_there_are_times_without_the_c_engine() -> None:
    x = np.zeros((7, COLUMNS), np.float32)
    y = np.empty_like(x)
    arguments = [GlobalArray.of(x, F32), GlobalArray.of(y, F32), 7]
    result = _launch(scale(), arguments, "oracle", grid=(2,), block=(3,))
    assert (y == 2).all()
    assert result.times is not None
    assert result.times.cycles > 2100
    assert result.times.moved[3, 1] == x.nbytes
    assert len(result.times.intervals)


def _clocks() -> Program:
    """Four clocks: at the start, after arithmetic, after a load, after a tile that is looked at."""
    asm = Assembler("clocks")
    x = asm.pointer("x", F32, ndim=1, stored=False)
    out = asm.pointer("out", I32, ndim=1, loaded=False)
    row = asm.buffer("row", "L1", F32, (4096,))
    found = asm.buffer("found", "L1", I32, (4,))
    zero = asm.constant(0)
    asm.op("tptr", "x", x)
    asm.op("tptr", "out", out)
    asm.op("tbuf", "row", row, zero, 0)
    asm.op("tbuf", "found", found, zero, 0)

    def clock(place: int) -> None:
        asm.op("clock", "now")
        asm.op("sts", "found", asm.constant(place), zero, zero, "now")

    clock(0)
    for _ in range(10):
        asm.op("iadd", "n", "n", asm.constant(1))
    clock(1)
    asm.op("dma", "in", "row", "x", zero, 0)
    asm.op("wait", "in")
    clock(2)
    asm.op("texp", "row", "row")
    asm.op("lds", "value", "row", zero, zero, zero)
    clock(3)
    asm.op("dma", "done", "out", "found", zero, 0)
    asm.op("wait", "done")
    asm.op("end")
    return asm.finish()


def _read(engine: str, mode: Any = "timed") -> list[int]:
    x, out = np.zeros(4096, np.float32), np.zeros(4, np.int32)
    arguments = [GlobalArray.of(x, F32), GlobalArray.of(out, I32)]
    launch(_clocks(), arguments, grid=(1,), block=(1,), mode=mode, engine=engine)  # type: ignore[arg-type]
    return out.tolist()


def test_the_clock_goes_by_the_model() -> None:
    start, arithmetic, load, tile = _read("oracle")
    assert arithmetic - start == 12  # ten additions, the store of the first clock, the clock
    assert load - arithmetic == 1 + 1 + 600 + 4096 * 4 // 128 + 1  # a store, the transfer, the clock
    assert tile - load == 1 + 1 + 12 + 4 * 128 + 1  # a store, start-up and four a group, the clock


@pytest.mark.parametrize("mode", ["fast", "counted", "timed"])
def test_the_clock_is_the_same_everywhere(c_engine: CEngine, mode: str) -> None:
    assert _read("c", mode) == _read("oracle") == _read("oracle", mode)
