"""The modes of the machine: the same results, and what each adds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tops_kit import gcu
from tops_kit.engine.c_engine import CEngine
from tops_kit.engine.debug import DebugLaunch
from tops_kit.engine.launch import GlobalArray, launch
from tops_kit.engine.options import MODES
from tops_kit.engine.result import EVENT, EVENT_KINDS, LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32
from tops_kit.isa.program import Program

Launch = Callable[..., LaunchResult]
KEY_NONE = 0xFFFF
pytestmark = pytest.mark.smoke


def scale(*, late_wait: bool = False) -> Program:
    """y = 2 x, row by row, rows shared among the threads."""
    asm = Assembler("scale")
    x = asm.pointer("x", F32, ndim=2, stored=False)
    y = asm.pointer("y", F32, ndim=2, loaded=False)
    rows = asm.scalar("rows", I32)
    row = asm.buffer("row", "L1", F32, (64,))
    zero = asm.constant(0)
    asm.op("special", "r", "thread_id")
    asm.op("special", "step", "num_threads")
    asm.op("tptr", "x", x)
    asm.op("tptr", "y", y)
    asm.op("tbuf", "row", row, zero, 0)
    asm.label("loop")
    asm.op("bge", "r", rows, "out")
    asm.op("tindex", "from", "x", 0, "r")
    asm.op("tindex", "to", "y", 0, "r")
    asm.op("dma", "in", "row", "from", zero, 1)
    if not late_wait:
        asm.op("wait", "in")
    asm.op("tmul_s", "row", "row", asm.constant(2.0))
    asm.op("dma", "out", "to", "row", zero, 2)
    asm.op("wait", "out")
    asm.op("iadd", "r", "r", "step")
    asm.op("jmp", "loop")
    asm.label("out")
    asm.op("end")
    return asm.finish()


@pytest.mark.parametrize("mode", MODES)
def test_results_are_the_same_in_every_mode(run: Launch, mode: str) -> None:
    x = np.linspace(-3, 5, 50 * 64, dtype=np.float32).reshape(50, 64)
    y = np.zeros_like(x)
    result = run(scale(), x, y, 50, grid=2, block=3, mode=mode, events=True)
    assert np.array_equal(y, 2 * x)
    assert (result.counts is None) == (mode == "fast")
    assert (result.events is None) == (mode != "timed")


def test_counts_are_the_oracles(c_engine: CEngine) -> None:
    program = scale()
    counted = []
    for engine, mode in (("oracle", "counted"), *(("c", mode) for mode in MODES[1:])):
        x, y = np.ones((10, 64), np.float32), np.zeros((10, 64), np.float32)
        arguments = [GlobalArray.of(x, F32), GlobalArray.of(y, F32), 10]
        result = launch(program, arguments, grid=(1,), block=(4,), engine=engine, mode=mode)  # type: ignore[arg-type]
        counted.append(np.asarray(result.counts))
    assert all(np.array_equal(counts, counted[0]) for counts in counted)
    assert counted[0].sum() > 0


def test_counts_with_barriers_and_slices(c_engine: CEngine) -> None:
    asm = Assembler()
    asm.op("special", "left", "local_id")
    asm.op("iadd", "left", "left", asm.constant(3))
    asm.label("loop")
    asm.op("isub", "left", "left", asm.constant(1))
    asm.op("barrier")
    asm.op("brnz", "left", "loop")
    asm.label("spin")
    asm.op("iadd", "i", "i", asm.constant(1))
    asm.op("blt", "i", asm.constant((1 << 16) + 5), "spin")
    asm.op("end")
    program = asm.finish()
    result = launch(program, [], grid=(2,), block=(1,), mode="counted", engine="c")
    assert np.asarray(result.counts).tolist() == [2, 2, 6, 6, 6, 2 * 65541, 2 * 65541, 2]


def kinds(events: np.ndarray) -> list[str]:
    return [EVENT_KINDS[kind] for kind in events["kind"]]


def test_events_of_a_timed_run(run: Launch) -> None:
    x, y = np.ones((1, 64), np.float32), np.zeros((1, 64), np.float32)
    program = scale()
    result = run(program, x, y, 1, mode="timed", events=True)
    assert result.events is not None
    (events,) = result.events
    assert events.dtype == EVENT
    assert kinds(events) == ["dma", "wait", "vector", "dma", "wait", "end"]
    load, wait, multiply, store, last_wait, _ = events
    assert (load["event"], load["after"], load["channel"]) == (1, 0, 1)
    assert (load["bytes"], load["from"], load["to"], load["key"].tolist()) == (
        256,
        3,
        1,
        [0, *[KEY_NONE] * 3],
    )
    assert wait["event"] == 1
    assert (multiply["work"], multiply["flops"], multiply["bytes"]) == (2, 64, 512)
    assert multiply["key"].tolist() == [0, 0, KEY_NONE, KEY_NONE]
    assert (store["event"], store["from"], store["to"], store["key"].tolist()[:2]) == (2, 1, 3, [KEY_NONE, 0])
    assert last_wait["event"] == 2
    # one cycle an instruction: 5 before the loop, then branch, two views and the transfer itself
    assert events["scalar_cycles"].tolist() == [9, 1, 1, 1, 1, 4]
    assert events["pc"].tolist() == [8, 9, 10, 11, 12, 15]


def test_scalar_cycles_follow_the_table(run: Launch) -> None:
    asm = Assembler()
    asm.op("idiv", "a", asm.constant(7), asm.constant(2))  # 8 cycles
    asm.op("fexp", "b", asm.constant(1.0))  # 4 cycles
    asm.op("imov", "left", asm.constant(10))
    asm.label("loop")
    asm.op("isub", "left", "left", asm.constant(1))
    asm.op("brnz", "left", "loop")
    asm.op("end")
    result = run(asm.finish(), mode="timed", events=True)
    assert result.events is not None
    assert result.events[0]["scalar_cycles"].tolist() == [8 + 4 + 1 + 10 * 2 + 1]


def test_a_scalar_access_waits_once_for_what_units_still_use(run: Launch) -> None:
    asm = Assembler()
    row = asm.buffer("row", "L1", F32, (64,), slots=2)
    zero, one = asm.constant(0), asm.constant(1)
    asm.op("tbuf", "a", row, zero, 0)
    asm.op("tbuf", "b", row, one, 0)
    asm.op("lds", "x", "a", zero, zero, zero)
    asm.op("tfill", "a", asm.constant(1.0))
    asm.op("lds", "x", "b", zero, zero, zero)
    asm.op("lds", "x", "a", zero, zero, zero)
    asm.op("lds", "x", "a", one, zero, zero)
    asm.op("tfill", "b", asm.constant(1.0))
    asm.op("sts", "b", zero, zero, zero, "x")
    asm.op("end")
    result = run(asm.finish(), mode="timed", events=True)
    assert result.events is not None
    (events,) = result.events
    assert kinds(events) == ["vector", "sync", "vector", "sync", "end"]
    assert events["key"][:, 0].tolist() == [0, 0, 1, 1, KEY_NONE]


def test_vector_registers_and_atomics_make_events(run: Launch) -> None:
    asm = Assembler()
    out = asm.pointer("out", F32, stored=True, atomic=True)
    asm.op("vsplat", "v", asm.constant(1.0), F32)
    asm.op("vadd", "v", "v", "v", F32)
    asm.op("vrsum", "sum", "v", F32)
    asm.op("tptr", "all", out)
    asm.op("tindex", "one", "all", 0, asm.constant(0))
    asm.op("atomic_add", "old", "one", "sum")
    asm.op("end")
    got = np.ones(1, np.float32)
    result = run(asm.finish(), got, mode="timed", events=True)
    assert got[0] == 65
    assert result.events is not None
    (events,) = result.events
    assert kinds(events) == ["vector", "vector", "vector", "sync", "atomic", "end"]
    assert events["work"].tolist() == [1, 1, 5, 0, 1, 0]
    assert events["flops"].tolist()[:3] == [0, 32, 32]


def deferred(mode: str, engine: str, *, wait: bool) -> float:
    """What is read after a transfer that is put off, with or without waiting for it."""
    asm = Assembler()
    x = asm.pointer("x", F32, stored=False)
    y = asm.pointer("y", F32, loaded=False)
    row = asm.buffer("row", "L1", F32, (1,))
    zero = asm.constant(0)
    asm.op("tptr", "x", x)
    asm.op("tptr", "y", y)
    asm.op("tbuf", "row", row, zero, 0)
    asm.op("dma", "in", "row", "x", zero, 1)
    if wait:
        asm.op("wait", "in")
    asm.op("tadd_s", "row", "row", asm.constant(1.0))
    asm.op("dma", "out", "y", "row", zero, 2)
    asm.op("waitall")
    asm.op("end")
    got = np.zeros(1, np.float32)
    arguments = [GlobalArray.of(np.full(1, 10, np.float32), F32), GlobalArray.of(got, F32)]
    options = {"grid": (1,), "block": (1,), "engine": engine, "mode": mode, "defer": True}
    launch(asm.finish(), arguments, **options)  # type: ignore[arg-type]
    return float(got[0])


@pytest.mark.parametrize("engine", ["c", "oracle"])
@pytest.mark.parametrize("mode", ["debug", "sanitized"])
def test_effects_put_off_show_a_wait_that_is_missing(c_engine: CEngine, mode: str, engine: str) -> None:
    assert deferred(mode, engine, wait=True) == 11
    assert deferred(mode, engine, wait=False) == 10  # the late transfer overwrites the sum


@pytest.mark.parametrize("engine", ["c", "oracle"])
def test_other_modes_move_at_once(c_engine: CEngine, engine: str) -> None:
    assert deferred("fast", engine, wait=False) == 11


def test_a_timed_run_gives_times_and_intervals(run: Launch) -> None:
    x, y = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)
    plain = run(scale(), x, y, 8, grid=2, block=4, mode="timed").times
    shown = run(scale(), x, y, 8, grid=2, block=4, mode="timed", pipeline=True).times
    assert plain is not None
    assert shown is not None
    assert plain.cycles == shown.cycles > 0
    assert plain.transfers == 16
    assert plain.moved[3, 1] == plain.moved[1, 3] == 8 * 256
    assert len(plain.intervals) == 0
    assert len(shown.intervals) > 0


def test_another_part_takes_another_time(run: Launch) -> None:
    x, y = np.ones((8, 64), np.float32), np.zeros((8, 64), np.float32)
    times = [
        run(scale(), x, y, 8, block=4, mode="timed", spec=gcu.load(part)).times for part in ("s60", "t20")
    ]
    assert times[0].cycles != times[1].cycles


def clocked() -> Program:
    """Thread 0 and 1 write the time before and after a transfer of their own size."""
    asm = Assembler("clocked")
    out = asm.pointer("out", I32, ndim=2, stored=True, atomic=True, loaded=False)
    big = asm.buffer("big", "L2", F32, (1 << 14,))
    row = asm.buffer("row", "L1", F32, (1 << 14,))
    zero = asm.constant(0)
    asm.op("special", "id", "thread_id")
    asm.op("tptr", "all", out)
    asm.op("tindex", "mine", "all", 0, "id")
    asm.op("tbuf", "row", row, zero, 0)
    asm.op("tbuf", "big", big, zero, 0)
    asm.op("iadd", "size", "id", asm.constant(1))
    asm.op("imul", "size", "size", asm.constant(1 << 13))
    asm.op("tslice", "row", "row", 0, zero, "size")
    asm.op("tslice", "big", "big", 0, zero, "size")
    asm.op("clock", "before")
    asm.op("dma", "e", "row", "big", zero, 0)
    asm.op("wait", "e")
    asm.op("clock", "after")
    for place, register in enumerate(("before", "after")):
        asm.op("tindex", "one", "mine", 0, asm.constant(place))
        asm.op("atomic_exchange", "old", "one", register)
    asm.op("end")
    return asm.finish()


@pytest.mark.parametrize("mode", MODES)
def test_the_clock_tells_the_same_in_every_mode(run: Launch, mode: str) -> None:
    got = np.zeros((2, 2), np.int32)
    result = run(clocked(), got, block=2, mode=mode)
    spec = gcu.load("s60")
    (before, after), (before_other, after_other) = got.tolist()
    assert before == before_other == 10 * spec.scalar_issue_cycles
    # as if the thread were alone: latency and bytes by bandwidth, and the instructions themselves
    for took, size in ((after - before, 1 << 15), (after_other - before_other, 1 << 16)):
        least = spec.dte_latency_cycles["l2"] + size / spec.port_bytes_per_cycle
        assert least <= took <= least + 8
    assert (result.counts is None) == (mode == "fast")
    assert result.events is None


def test_the_clock_under_a_debugger(c_engine: CEngine) -> None:
    got = np.zeros((2, 2), np.int32)
    array = GlobalArray.of(got, I32)
    DebugLaunch(clocked(), [array], grid=(1,), block=(2,)).resume(steps=7)
    stepped = DebugLaunch(clocked(), [array], grid=(1,), block=(2,))
    while stepped.resume(steps=1).reason != "end":
        pass
    by_steps = got.copy()
    launch(clocked(), [array], grid=(1,), block=(2,), mode="fast", engine="c")
    assert np.array_equal(by_steps, got)
    assert got.all()


def test_many_threads_that_do_nothing_are_timed(run: Launch) -> None:
    """Each has an event of its own: they have room."""
    asm = Assembler()
    asm.op("end")
    result = run(asm.finish(), grid=200_000, mode="timed", host_threads=1)
    assert result.times is not None
    assert result.times.cycles > 200_000
