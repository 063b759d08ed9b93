"""Results do not depend on how many host threads run a launch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tops_kit.engine.result import LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import I32
from tops_kit.isa.program import Program

Launch = Callable[..., LaunchResult]

ROWS, COLUMNS = 4, 6


def store_patches(*, loads: bool = False, barrier: bool = False) -> Program:
    """Thread k stores a patch of ROWS x COLUMNS (all elements k + 1) at (row_of[k], column_of[k])."""
    asm = Assembler()
    out = asm.pointer("out", I32, ndim=2, loaded=loads)
    rows, columns = (asm.pointer(name, I32, stored=False) for name in ("row_of", "column_of"))
    zero, one = asm.constant(0), asm.constant(1)
    patch = asm.buffer("patch", "L1", I32, (ROWS, COLUMNS))
    at = asm.buffer("at", "L1", I32, (2, 1))
    asm.op("special", "id", "thread_id")
    asm.op("iadd", "next", "id", one)
    asm.op("tbuf", "at", at, zero, 0)
    for number, array in enumerate((rows, columns)):
        asm.op("tptr", "all", array)
        asm.op("tslice", "one", "all", 0, "id", "next")
        asm.op("tindex", "to", "at", 0, asm.constant(number))
        asm.op("dma", "e", "to", "one", zero, 0)
    asm.op("waitall")
    asm.op("lds", "row", "at", zero, zero, zero)
    asm.op("lds", "column", "at", one, zero, zero)
    if barrier:
        asm.op("barrier")
    asm.op("tbuf", "patch", patch, zero, 0)
    asm.op("tfill", "patch", "next")
    asm.op("tptr", "out", out)
    asm.op("iadd", "row_end", "row", asm.constant(ROWS))
    asm.op("iadd", "column_end", "column", asm.constant(COLUMNS))
    asm.op("tslice", "to", "out", 0, "row", "row_end")
    asm.op("tslice", "to", "to", 1, "column", "column_end")
    asm.op("dma", "e", "to", "patch", zero, 0)
    asm.op("printarg", "id", 0)
    asm.op("print", "thread {}")
    asm.op("end")
    return asm.finish()


def expected(shape: tuple[int, int], places: list[tuple[int, int]]) -> np.ndarray:
    out = np.zeros(shape, np.int32)
    for thread, (row, column) in enumerate(places):
        out[row : row + ROWS, column : column + COLUMNS] = thread + 1
    return out


def overlap(places: list[tuple[int, int]]) -> bool:
    return any(
        abs(a[0] - b[0]) < ROWS and abs(a[1] - b[1]) < COLUMNS
        for number, a in enumerate(places)
        for b in places[:number]
    )


PROGRAMS = {
    (loads, barrier): store_patches(loads=loads, barrier=barrier)
    for loads in (False, True)
    for barrier in (False, True)
}


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), min_size=2, max_size=12),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_patches_wherever_they_are(
    run: Launch, places: list[tuple[int, int]], host_threads: int, barrier: bool
) -> None:
    got = np.zeros((24, 36), np.int32)
    rows, columns = (np.array(values, np.int32) for values in zip(*places, strict=True))
    program = PROGRAMS[False, barrier]
    result = run(program, got, rows, columns, grid=len(places), host_threads=host_threads)
    assert np.array_equal(got, expected(got.shape, places))
    assert result.output == [f"thread {k}" for k in range(len(places))]
    if host_threads == 1:
        assert result.ran == "in order"
    else:
        assert result.ran == ("again" if overlap(places) else "in parallel")


def test_what_is_loaded_and_stored_runs_in_order(run: Launch) -> None:
    got = np.zeros((24, 36), np.int32)
    places = np.array([0, 5], np.int32)
    assert run(PROGRAMS[True, False], got, places, places, grid=2, host_threads=2).ran == "in order"


def test_arrays_that_overlap_in_memory_run_in_order(run: Launch) -> None:
    memory = np.zeros(24 * 36 + 1, np.int32)
    got = memory[:-1].reshape(24, 36)
    apart = np.array([0, 5], np.int32)
    program = PROGRAMS[False, False]
    assert run(program, got, apart, apart, grid=2, host_threads=2).ran == "in parallel"
    inside = memory[24 * 36 - 1 :]  # its first element is the last of `got`
    assert run(program, got, inside, inside.copy(), grid=2, host_threads=2).ran == "in order"


@pytest.mark.parametrize("mode", ["fast", "counted", "timed"])
def test_many_rows_by_turns(run: Launch, mode: str) -> None:
    """Thread k stores rows k, k + n, k + 2n, ...: no two store to the same place, and none is run again."""
    asm = Assembler()
    out = asm.pointer("out", I32, ndim=2, loaded=False)
    rows = asm.scalar("rows", I32)
    row = asm.buffer("row", "L1", I32, (16,))
    zero = asm.constant(0)
    asm.op("special", "r", "thread_id")
    asm.op("special", "step", "num_threads")
    asm.op("tptr", "out", out)
    asm.op("tbuf", "row", row, zero, 0)
    asm.label("loop")
    asm.op("bge", "r", rows, "out")
    asm.op("tfill", "row", "r")
    asm.op("tindex", "to", "out", 0, "r")
    asm.op("dma", "e", "to", "row", zero, 0)
    asm.op("wait", "e")
    asm.op("iadd", "r", "r", "step")
    asm.op("jmp", "loop")
    asm.label("out")
    asm.op("end")
    program = asm.finish()
    wanted = np.broadcast_to(np.arange(1000, dtype=np.int32)[:, None], (1000, 16))
    counts, events = [], []
    for host_threads in (1, 2, 3):
        got = np.zeros((1000, 16), np.int32)
        result = run(program, got, 1000, grid=2, block=12, mode=mode, host_threads=host_threads, events=True)
        assert np.array_equal(got, wanted)
        assert result.ran == ("in order" if host_threads == 1 else "in parallel")
        counts.append(result.counts)
        events.append(result.events)
    if mode != "fast":
        assert all(np.array_equal(c, counts[0]) for c in counts)
    if mode == "timed":
        assert all(all(map(np.array_equal, e, events[0])) for e in events)
