"""Ctrl-C, other signals, and the budget of a launch."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

from tops_kit.engine.fault import KernelFault
from tops_kit.engine.result import LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32
from tops_kit.isa.program import Program

Launch = Callable[..., LaunchResult]


def endless() -> Program:
    asm = Assembler("endless")
    asm.at(3, 4, 8)
    asm.label("loop")
    asm.op("iadd", "i", "i", asm.constant(1))
    asm.op("jmp", "loop")
    asm.op("end")
    return asm.finish()


def endless_work() -> Program:
    """A loop with few jumps: each turn is a large transfer."""
    asm = Assembler("endless_work")
    asm.op("tbuf", "a", asm.buffer("a", "L1", F32, (1 << 20,)), asm.constant(0), 0)
    asm.op("tbuf", "b", asm.buffer("b", "L1", F32, (1 << 20,)), asm.constant(0), 0)
    asm.label("loop")
    asm.op("dma", "e", "a", "b", asm.constant(0), 0)
    asm.op("jmp", "loop")
    asm.op("end")
    return asm.finish()


@contextmanager
def signal_soon(handler: Callable[[int, FrameType | None], object] | None) -> Iterator[None]:
    """SIGINT (as Ctrl-C) in a moment; `handler` None: Python's own."""
    # set in any case: whoever started the tests in the background may have SIGINT ignored
    before = signal.signal(signal.SIGINT, handler or signal.default_int_handler)
    # the launch keeps the GIL: only the system's timer can interrupt it
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.15)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("program", [endless(), endless_work()], ids=["jumps", "transfers"])
@pytest.mark.parametrize("host_threads", [1, 2])
def test_ctrl_c_ends_a_kernel(run: Launch, program: Program, host_threads: int) -> None:
    with signal_soon(None), pytest.raises(KeyboardInterrupt):
        run(program, grid=4, host_threads=host_threads)


def test_a_handler_that_returns_lets_the_kernel_go_on(run: Launch) -> None:
    seen: list[int] = []
    with signal_soon(lambda number, _: seen.append(number)), pytest.raises(KernelFault) as caught:
        run(endless(), budget_s=0.5)
    assert seen == [signal.SIGINT]
    assert caught.value.kind.name == "timeout"


def test_a_handler_may_launch(run: Launch) -> None:
    asm = Assembler()
    asm.op("print", "from the handler")
    asm.op("end")
    program = asm.finish()
    lines: list[str] = []
    with signal_soon(lambda *_: lines.extend(run(program).output)), pytest.raises(KernelFault):
        run(endless(), budget_s=0.5)
    assert lines == ["from the handler"]


@pytest.mark.smoke
@pytest.mark.parametrize("mode", ["fast", "counted", "timed", "sanitized", "debug"])
def test_the_budget_ends_a_kernel(run: Launch, mode: str) -> None:
    with pytest.raises(KernelFault) as caught:
        run(endless(), block=2, budget_s=0.05, mode=mode)
    fault = caught.value
    assert fault.kind.name == "timeout"
    assert fault.message.startswith("endless.asm:3:5: timeout: the launch used up its time budget")


def test_the_budget_ends_large_transfers(run: Launch) -> None:
    with pytest.raises(KernelFault) as caught:
        run(endless_work(), budget_s=0.05)
    assert caught.value.kind.name == "timeout"


def test_a_stopped_engine_launches_again(run: Launch) -> None:
    asm = Assembler()
    asm.op("special", "id", "thread_id")
    asm.op("end")
    program = asm.finish()
    for _ in range(3):
        with pytest.raises(KernelFault):
            run(endless(), grid=8, host_threads=2, budget_s=0.02)
        run(program, grid=8, host_threads=2)


def _store_in_child(program: Program, queue: multiprocessing.Queue[int]) -> None:
    from tops_kit.engine.launch import GlobalArray, launch

    got = np.zeros(8, np.int32)
    result = launch(program, [GlobalArray.of(got, I32, "out")], grid=(8,), block=(1,), host_threads=2)
    queue.put(int(got.sum()) if result.ran == "in parallel" else -1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_of_fork_launches(run: Launch) -> None:
    asm = Assembler()
    out = asm.pointer("out", I32, loaded=False)
    one = asm.buffer("one", "L1", I32, (1,))
    zero = asm.constant(0)
    asm.op("special", "id", "thread_id")
    asm.op("iadd", "next", "id", asm.constant(1))
    asm.op("tbuf", "one", one, zero, 0)
    asm.op("sts", "one", zero, zero, zero, "id")
    asm.op("tptr", "out", out)
    asm.op("tslice", "to", "out", 0, "id", "next")
    asm.op("dma", "e", "to", "one", zero, 0)
    asm.op("end")
    program = asm.finish()
    run(program, np.zeros(8, np.int32), grid=8, host_threads=2)  # helpers live in this process
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[int] = context.Queue()
    child = context.Process(target=_store_in_child, args=(program, queue))
    child.start()
    assert queue.get(timeout=30) == 28
    child.join(30)
    assert child.exitcode == 0
