"""In which order threads run, and where they meet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tops_kit.engine.fault import KernelFault
from tops_kit.engine.result import LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import I32
from tops_kit.isa.table import SPECIAL

Launch = Callable[..., LaunchResult]
pytestmark = pytest.mark.smoke


def put(asm: Assembler, array: int, index: str, value: str) -> None:
    """array[index] = value, in L3."""
    asm.op("tptr", "put_all", array)
    asm.op("tindex", "put_one", "put_all", 0, index)
    asm.op("atomic_exchange", "put_old", "put_one", value)


def ticket(asm: Assembler, counter: int) -> str:
    """A register with the next number of a counter in L3."""
    asm.op("tptr", "counter_all", counter)
    asm.op("tindex", "counter", "counter_all", 0, asm.constant(0))
    asm.op("atomic_add", "ticket", "counter", asm.constant(1))
    return "ticket"


def shared(asm: Assembler, name: str, *, loaded: bool = True) -> int:
    return asm.pointer(name, I32, stored=True, loaded=loaded, atomic=True)


@pytest.mark.parametrize("mode", ["fast", "counted", "timed", "sanitized", "debug"])
def test_threads_run_in_order(run: Launch, mode: str) -> None:
    asm = Assembler()
    counter, out = shared(asm, "counter"), shared(asm, "out")
    asm.op("special", "id", "thread_id")
    put(asm, out, "id", ticket(asm, counter))
    asm.op("end")
    got = np.full(24, -1, np.int32)
    run(asm.finish(), np.zeros(1, np.int32), got, grid=4, block=6, mode=mode)
    assert got.tolist() == list(range(24))


def spin_for_flag(*, setter: int, axis: str) -> Assembler:
    """All but thread (or block) `setter` wait in a loop until it has set a flag."""
    asm = Assembler()
    flag = shared(asm, "flag")
    asm.op("tptr", "all", flag)
    asm.op("tindex", "flag", "all", 0, asm.constant(0))
    asm.op("special", "me", axis)
    asm.op("ieq", "sets", "me", asm.constant(setter))
    asm.op("brnz", "sets", "set")
    asm.label("spin")
    asm.op("atomic_or", "seen", "flag", asm.constant(0))
    asm.op("brz", "seen", "spin")
    asm.op("end")
    asm.label("set")
    asm.op("atomic_exchange", "old", "flag", asm.constant(1))
    asm.op("end")
    return asm


def test_a_thread_that_spins_leaves_its_turn_to_the_next(run: Launch) -> None:
    flag = np.zeros(1, np.int32)
    run(spin_for_flag(setter=3, axis="local_id").finish(), flag, block=4)
    assert flag[0] == 1


def test_a_block_begins_when_the_one_before_has_ended(run: Launch) -> None:
    program = spin_for_flag(setter=1, axis="block_id").finish()
    with pytest.raises(KernelFault) as caught:
        run(program, np.zeros(1, np.int32), grid=2, budget_s=0.2)
    assert caught.value.kind.name == "timeout"
    assert caught.value.block == 0


def neighbours() -> Assembler:
    """Every thread writes its number to L2, and after the barrier reads that of the next."""
    asm = Assembler()
    out = shared(asm, "out", loaded=False)
    both = asm.buffer("both", "L2", I32, (8,))
    zero, one = asm.constant(0), asm.constant(1)
    asm.op("tbuf", "both", both, zero, 0)
    asm.op("special", "me", "local_id")
    asm.op("special", "all", "block_size")
    asm.op("special", "id", "thread_id")
    asm.op("sts", "both", "me", zero, zero, "id")
    asm.op("barrier")
    asm.op("iadd", "next", "me", one)
    asm.op("imod", "next", "next", "all")
    asm.op("lds", "value", "both", "next", zero, zero)
    put(asm, out, "id", "value")
    asm.op("end")
    return asm


def test_threads_of_a_block_meet_at_a_barrier(run: Launch) -> None:
    got = np.full(16, -1, np.int32)
    run(neighbours().finish(), got, grid=2, block=8)
    assert got.tolist() == [1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 15, 8]


def test_blocks_of_a_grid_meet(run: Launch) -> None:
    asm = Assembler()
    counter, out = shared(asm, "counter"), shared(asm, "out")
    ticket(asm, counter)
    asm.op("gridbarrier")
    asm.op("atomic_or", "sum", "counter", asm.constant(0))
    asm.op("gridbarrier")
    asm.op("special", "id", "thread_id")
    put(asm, out, "id", "sum")
    asm.op("end")
    got = np.zeros(6, np.int32)
    run(asm.finish(), np.zeros(1, np.int32), got, grid=3, block=2)
    assert got.tolist() == [6] * 6


@pytest.mark.parametrize("barrier", ["barrier", "gridbarrier"])
def test_a_barrier_that_a_thread_misses_is_a_fault(run: Launch, barrier: str) -> None:
    asm = Assembler()
    asm.op("special", "me", "thread_id")
    asm.op("ieq", "skips", "me", asm.constant(2))
    asm.op("brnz", "skips", "out")
    asm.at(7, 4, 13)
    at = asm.op(barrier)
    asm.label("out")
    asm.op("end")
    with pytest.raises(KernelFault) as caught:
        run(asm.finish(), block=4)
    fault = caught.value
    assert (fault.kind.name, fault.pc, fault.thread) == ("barrier", at, 0)
    assert fault.detail["ended"] == 1
    assert "kernel.asm:7:5: barrier:" in fault.message


def test_a_grid_barrier_that_a_block_misses_is_a_fault(run: Launch) -> None:
    asm = Assembler()
    asm.op("special", "me", "block_id")
    asm.op("brz", "me", "out")
    asm.op("gridbarrier")
    asm.label("out")
    asm.op("end")
    with pytest.raises(KernelFault) as caught:
        run(asm.finish(), grid=3, block=2)
    assert (caught.value.kind.name, caught.value.thread) == ("barrier", 2)


def test_a_block_and_a_grid_barrier_do_not_meet(run: Launch) -> None:
    asm = Assembler()
    asm.op("special", "me", "local_id")
    asm.op("brz", "me", "grid")
    asm.op("barrier")
    asm.op("end")
    asm.label("grid")
    asm.op("gridbarrier")
    asm.op("end")
    with pytest.raises(KernelFault) as caught:
        run(asm.finish(), block=3)
    assert caught.value.detail == {"at_barrier": 2, "at_grid_barrier": 1, "ended": 0}


def test_the_numbers_of_a_launch(run: Launch) -> None:
    asm = Assembler()
    out = asm.pointer("out", I32, ndim=2, stored=True, atomic=True, loaded=False)
    asm.op("special", "id", "thread_id")
    asm.op("tptr", "all", out)
    asm.op("tindex", "row", "all", 0, "id")
    for number, name in enumerate(SPECIAL):
        asm.op("special", "value", name)
        asm.op("tindex", "one", "row", 0, asm.constant(number))
        asm.op("atomic_exchange", "old", "one", "value")
    asm.op("end")
    grid, block = (2, 3, 2), (3, 2, 2)
    got = np.full((12 * 12, len(SPECIAL)), -1, np.int32)
    run(asm.finish(), got, grid=grid, block=block)
    for thread, row in enumerate(got.tolist()):
        number, local = divmod(thread, 12)
        values = dict(zip(SPECIAL, row, strict=True))
        assert (values["thread_id"], values["num_threads"], values["local_id"]) == (thread, 144, local)
        assert (values["block_id"], values["num_blocks"], values["block_size"]) == (number, 12, 12)
        assert [values[f"local_{a}"] for a in "xyz"] == [local % 3, local // 3 % 2, local // 6]
        assert [values[f"block_{a}"] for a in "xyz"] == [number % 2, number // 2 % 3, number // 6]
        assert [values[f"block_dim_{a}"] for a in "xyz"] == list(block)
        assert [values[f"grid_dim_{a}"] for a in "xyz"] == list(grid)


def test_memory_and_registers_start_as_zeros_in_every_thread(run: Launch) -> None:
    asm = Assembler()
    out = shared(asm, "out", loaded=False)
    mine, ours = asm.buffer("mine", "L1", I32, (4,)), asm.buffer("ours", "L2", I32, (4,))
    zero = asm.constant(0)
    asm.op("tbuf", "mine", mine, zero, 0)
    asm.op("tbuf", "ours", ours, zero, 0)
    asm.op("lds", "a", "mine", asm.constant(3), zero, zero)
    asm.op("lds", "b", "ours", asm.constant(3), zero, zero)
    asm.op("ior", "sum", "a", "b")
    asm.op("ior", "sum", "sum", "never_written")
    asm.op("special", "id", "block_id")
    put(asm, out, "id", "sum")
    asm.op("imov", "never_written", asm.constant(5))
    asm.op("sts", "mine", asm.constant(3), zero, zero, asm.constant(6))
    asm.op("sts", "ours", asm.constant(3), zero, zero, asm.constant(7))
    asm.op("end")
    program = asm.finish()
    for _ in range(2):
        got = np.full(3, -1, np.int32)
        run(program, got, grid=3)
        assert got.tolist() == [0, 0, 0]
