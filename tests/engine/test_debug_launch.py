"""A launch under a debugger."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tops_kit.engine.c_engine import CEngine
from tops_kit.engine.debug import DebugLaunch, State, Stop
from tops_kit.engine.fault import KernelFault
from tops_kit.engine.launch import GlobalArray
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32

pytestmark = [pytest.mark.smoke, pytest.mark.usefixtures("c_engine")]


def counting(*, barrier: bool = True) -> Assembler:
    """Register 0 counts to 3 in each thread; then a barrier; then it becomes 100 plus the thread's number."""
    asm = Assembler()
    asm.op("imov", 0, asm.constant(0))  # pc 0
    asm.label("loop")
    asm.op("iadd", 0, 0, asm.constant(1))  # pc 1
    asm.op("blt", 0, asm.constant(3), "loop")  # pc 2
    if barrier:
        asm.op("barrier")  # pc 3
    asm.op("special", 1, "thread_id")
    asm.op("iadd", 0, 1, asm.constant(100))
    asm.op("print", "done")
    asm.op("end")  # pc 7
    return asm


def debug(
    asm: Assembler, *arguments: np.ndarray, block: int = 2, grid: int = 1, defer: bool = False
) -> DebugLaunch:
    given = [GlobalArray.of(a, F32 if a.dtype == np.float32 else I32) for a in arguments]
    return DebugLaunch(asm.finish(), given, grid=(grid,), block=(block,), defer=defer)


def test_a_thread_steps_alone() -> None:
    launch = debug(counting())
    assert launch.step(1) is State.STEPPED
    assert launch.step(1, 2) is State.STEPPED
    status = launch.status(1)
    assert (status.pc, status.steps, launch.scalar(1, 0)) == (1, 3, 1)
    assert launch.status(0).pc == 0
    assert launch.step(1, 1000) is State.AT_BARRIER
    assert launch.scalar(1, 0) == 3
    assert launch.step(1, 1000) is State.AT_BARRIER
    launch.release(1)
    assert launch.step(1, 1000) is State.ENDED
    assert launch.scalar(1, 0) == 101
    assert launch.step(1) is State.ENDED


def test_breakpoints_stop_threads_in_order() -> None:
    launch = debug(counting())
    launch.set_breakpoint(1)
    stops = [launch.resume() for _ in range(6)]
    assert stops == [Stop("breakpoint", thread, 1) for thread in (0, 0, 0, 1, 1, 1)]
    assert [launch.scalar(t, 0) for t in (0, 1)] == [3, 2]
    launch.set_breakpoint(1, on=False)
    launch.set_breakpoint(7)
    assert [launch.resume() for _ in range(3)] == [
        Stop("breakpoint", 0, 7),
        Stop("breakpoint", 1, 7),
        Stop("end", -1, -1),
    ]
    assert launch.output() == ["done", "done"]
    assert launch.counts().tolist() == [2, 6, 6, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_steps_of_all_threads_together_end_where_a_launch_ends(steps: int) -> None:
    launch = debug(counting(), grid=2, block=3)
    stops = 0
    while launch.resume(steps).reason != "end":
        stops += 1
        assert stops < 1000
    assert [launch.scalar(t, 0) for t in range(6)] == [100 + t for t in range(6)]
    assert sum(launch.status(t).steps for t in range(6)) == launch.counts().sum()


def test_registers_and_memory_can_be_written() -> None:
    asm = Assembler()
    row = asm.buffer("row", "L1", I32, (4,), slots=2)
    both = asm.buffer("both", "L2", I32, (2,))
    zero = asm.constant(0)
    asm.op("tbuf", 0, row, asm.constant(1), 0)
    asm.op("tbuf", 1, both, zero, 0)
    asm.op("brk")
    asm.op("lds", 20, 0, asm.constant(2), zero, zero)
    asm.op("lds", 21, 1, asm.constant(1), zero, zero)
    asm.op("fadd", 22, 23, 23)
    asm.op("vadd", 1, 0, 0, I32)
    asm.op("end")
    launch = debug(asm, block=1)
    assert launch.tile(0, 0) is None
    assert launch.resume() == Stop("brk", 0, 3)
    view = launch.tile(0, 0)
    assert view is not None
    assert (view.space, view.object, view.slot, view.dtype, view.shape) == ("L1", row, 1, I32, (4,))
    launch.write_l1(0, view.address + 2 * view.strides_bytes[0], struct.pack("=i", -5))
    launch.write_l2(0, 4, struct.pack("=i", 6))
    launch.set_scalar(0, 23, 1.5)
    launch.set_vector(0, 0, struct.pack("=32i", *range(32)))
    assert launch.resume().reason == "end"
    assert (launch.scalar(0, 20), launch.scalar(0, 21), launch.scalar_f32(0, 22)) == (-5, 6, 3.0)
    assert struct.unpack("=32i", launch.vector(0, 1)) == tuple(range(0, 64, 2))
    assert launch.read_l1(0, 128, 12)[8:] == struct.pack("=i", -5)
    assert launch.read_l2(0, 0, 8) == struct.pack("=2i", 0, 6)


def test_what_does_not_exist() -> None:
    launch = debug(counting())
    for wrong in (
        lambda: launch.scalar(0, 99),
        lambda: launch.scalar(2, 0),
        lambda: launch.read_l1(0, 0, 1),
        lambda: launch.tile(0, 0),
        lambda: launch.set_breakpoint(99),
        lambda: launch.status(-1),
    ):
        with pytest.raises(IndexError):
            wrong()


def test_a_fault_stays_where_it_is() -> None:
    asm = Assembler()
    asm.at(4)
    asm.op("special", 0, "thread_id")
    asm.op("ieq", 1, 0, asm.constant(0))
    asm.op("imod", 2, 0, 1)
    asm.op("end")
    launch = debug(asm)
    for _ in range(2):
        assert launch.resume() == Stop("fault", 1, 2)
    fault = launch.fault(1)
    assert fault is not None
    assert (fault.kind.name, fault.location[0].line) == ("divide", 4)
    assert launch.fault(0) is None


def test_a_divergent_barrier_is_a_fault() -> None:
    asm = Assembler()
    asm.op("special", 0, "thread_id")
    asm.op("brz", 0, "out")
    asm.op("barrier")
    asm.label("out")
    asm.op("end")
    with pytest.raises(KernelFault, match="1 wait at a barrier"):
        debug(asm).resume()


def test_blocks_of_a_grid_meet() -> None:
    asm = Assembler()
    asm.op("imov", 0, asm.constant(1))
    asm.op("gridbarrier")
    asm.op("imov", 0, asm.constant(2))
    asm.op("end")
    launch = debug(asm, grid=3, block=2)
    launch.set_breakpoint(2)
    assert launch.resume() == Stop("breakpoint", 0, 2)
    assert [launch.scalar(t, 0) for t in range(6)] == [1] * 6
    launch.set_breakpoint(2, on=False)
    assert launch.resume().reason == "end"


def test_a_spinning_thread_leaves_its_turn() -> None:
    asm = Assembler()
    flag = asm.pointer("flag", I32, atomic=True)
    asm.op("tptr", 0, flag)
    asm.op("tindex", 0, 0, 0, asm.constant(0))
    asm.op("special", 0, "thread_id")
    asm.op("brnz", 0, "set")
    asm.label("spin")
    asm.op("atomic_or", 1, 0, asm.constant(0))
    asm.op("brz", 1, "spin")
    asm.op("end")
    asm.label("set")
    asm.op("atomic_exchange", 1, 0, asm.constant(1))
    asm.op("end")
    launch = debug(asm, np.zeros(1, np.int32))
    assert launch.resume().reason == "end"


def test_transfers_that_are_put_off_can_be_seen() -> None:
    asm = Assembler()
    x = asm.pointer("x", F32, stored=False)
    row = asm.buffer("row", "L1", F32, (2,))
    asm.op("tptr", 0, x)
    asm.op("tbuf", 1, row, asm.constant(0), 0)
    asm.op("dma", 10, 1, 0, asm.constant(0), 3)
    asm.op("brk")
    asm.op("wait", 10)
    asm.op("brk")
    asm.op("end")
    launch = debug(asm, np.array([1.5, 2.5], np.float32), block=1, defer=True)
    assert launch.resume().reason == "brk"
    assert launch.status(0).pending_events == (1,)
    assert launch.read_l1(0, 0, 8) == bytes(8)
    assert launch.resume().reason == "brk"
    assert launch.status(0).pending_events == ()
    assert launch.read_l1(0, 0, 8) == struct.pack("=2f", 1.5, 2.5)


def test_an_engine_is_needed(c_engine: CEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    from tops_kit.engine import debug as module

    monkeypatch.setattr(module.ENGINES, "c", lambda: None)
    with pytest.raises(ValueError, match="debugging needs the C engine"):
        debug(counting())
