"""The sanitizer and very many accesses: transfers in flight, columns, races; budget and Ctrl-C meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.test_machine_stop import signal_soon
from tops_kit.engine.fault import KernelFault
from tops_kit.engine.findings import Report
from tops_kit.engine.result import LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32
from tops_kit.isa.program import Program

Launch = Callable[..., LaunchResult]


def check(run: Launch, program: Program, *arguments: object, **options: object) -> Report:
    return run(program, *arguments, mode="sanitized", **options).faults


def loop(asm: Assembler, times: str, body: Callable[[], None]) -> None:
    """`body` with the register `i` from 0 on; `times` is a register."""
    asm.op("imov", "i", asm.constant(0))
    asm.op("bge", "i", times, "over")
    asm.label("again")
    body()
    asm.op("iadd", "i", "i", asm.constant(1))
    asm.op("blt", "i", times, "again")
    asm.label("over")


def never_awaited(channels: tuple[int, ...]) -> Program:
    """Fills one buffer again and again, by turns on the channels."""
    asm = Assembler("filling")
    asm.op("tbuf", "row", asm.buffer("row", "L1", F32, (8,)), asm.constant(0), 0)

    def body() -> None:
        for channel in channels:
            asm.op("dmaset", "event", "row", 1.0, asm.constant(0), channel)

    loop(asm, asm.scalar("times", I32), body)
    asm.op("waitall")
    asm.op("end")
    return asm.finish()


def test_many_transfers_in_flight_on_one_channel(run: Launch) -> None:
    assert check(run, never_awaited((0,)), 20_000).clean


@pytest.mark.parametrize("defer", [False, True])
def test_many_transfers_on_channels_in_each_others_way(run: Launch, defer: bool) -> None:
    """Each gets in the way of the one before it, which then counts as awaited."""
    report = check(run, never_awaited((0, 1)), 3000, defer=defer)
    assert [f.kind for f in report] == ["in-use", "in-use"]
    assert sum(f.count for f in report) == 5999
    assert not report.limits


@pytest.mark.parametrize("defer", [False, True])
def test_many_transfers_that_start_one_after_another(run: Launch, defer: bool) -> None:
    """Chained by events across channels; each second round waits for the latest."""
    asm = Assembler("chained")
    asm.op("tbuf", "row", asm.buffer("row", "L1", F32, (8,)), asm.constant(0), 0)
    asm.op("imov", "event", asm.constant(0))

    def body() -> None:
        for channel in range(3):
            asm.op("dmaset", "event", "row", 1.0, "event", channel)
        asm.op("iand", "odd", "i", asm.constant(1))
        asm.op("brz", "odd", "on")
        asm.op("wait", "event")
        asm.label("on")

    loop(asm, asm.scalar("times", I32), body)
    asm.op("waitall")
    asm.op("end")
    assert check(run, asm.finish(), 2000, defer=defer).clean


def columns_in_any_order() -> Program:
    """Each thread stores the columns that its row of `order` names."""
    asm = Assembler("columns")
    y = asm.pointer("y", F32, ndim=2, loaded=False)
    order = asm.pointer("order", I32, ndim=2, stored=False)
    count = asm.scalar("count", I32)
    zero = asm.constant(0)
    asm.op("tbuf", "column", asm.buffer("column", "L1", F32, (5,)), zero, 0)
    asm.op("tbuf", "number", asm.buffer("number", "L1", I32, (1,)), zero, 0)
    asm.op("tfill", "column", 1.0)
    asm.op("special", "thread", "thread_id")

    def body() -> None:
        asm.op("tptr", "from", order)
        asm.op("tindex", "from", "from", 0, "thread")
        asm.op("iadd", "next", "i", asm.constant(1))
        asm.op("tslice", "from", "from", 0, "i", "next")
        asm.op("dma", "event", "number", "from", zero, 0)
        asm.op("wait", "event")
        asm.op("lds", "where", "number", zero, zero, zero)
        asm.op("tptr", "to", y)
        asm.op("tindex", "to", "to", 1, "where")
        asm.op("dma", "event", "to", "column", zero, 0)
        asm.op("wait", "event")

    loop(asm, count, body)
    asm.op("end")
    return asm.finish()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32), threads=st.integers(2, 24), count=st.integers(1, 60), twice=st.integers(0, 3)
)
def test_columns_in_any_order(run: Launch, seed: int, threads: int, count: int, twice: int) -> None:
    """Columns lie in each other's gaps: only those that two threads store race."""
    rng = random.Random(seed)
    order = np.array(rng.sample(range(threads * count), threads * count), np.int32).reshape(threads, count)
    for _ in range(twice):
        one, other = rng.sample(range(threads), 2)
        order[other, rng.randrange(count)] = order[one, rng.randrange(count)]
    owners: dict[int, set[int]] = {}
    for thread, columns in enumerate(order.tolist()):
        for column in columns:
            owners.setdefault(column, set()).add(thread)
    shared = {column for column, who in owners.items() if len(who) > 1}
    y = np.zeros((5, threads * count), np.float32)
    grid, block = (threads, 1) if seed % 2 else (1, threads)
    report = check(run, columns_in_any_order(), y, order, count, grid=grid, block=block)
    assert not report.limits
    assert [f.kind for f in report] == ["race"] * bool(shared)
    for finding in report:
        assert finding.memory is not None
        assert finding.second is not None
        assert finding.memory.first[1] in shared
        assert {finding.access.thread, finding.second.thread} <= owners[finding.memory.first[1]]


def one_column_each() -> Program:
    """Thread t stores column t."""
    asm = Assembler("columns")
    y = asm.pointer("y", F32, ndim=2, loaded=False)
    asm.op("tbuf", "column", asm.buffer("column", "L1", F32, (2,)), asm.constant(0), 0)
    asm.op("tfill", "column", 1.0)
    asm.op("special", "thread", "thread_id")
    asm.op("tptr", "y", y)
    asm.op("tindex", "y", "y", 1, "thread")
    asm.op("dma", "event", "y", "column", asm.constant(0), 0)
    asm.op("waitall")
    asm.op("end")
    return asm.finish()


def test_a_column_for_each_of_many_threads(run: Launch) -> None:
    threads = 20_000
    assert check(run, one_column_each(), np.zeros((2, threads), np.float32), grid=threads).clean


def all_the_same() -> Program:
    """Every thread stores the same element."""
    asm = Assembler("same")
    y = asm.pointer("y", F32, loaded=False)
    asm.op("tbuf", "one", asm.buffer("one", "L1", F32, (1,)), asm.constant(0), 0)
    asm.op("tfill", "one", 1.0)
    asm.op("tptr", "y", y)
    asm.at(1)
    asm.op("dma", "event", "y", "one", asm.constant(0), 0)
    asm.op("waitall")
    asm.op("end")
    return asm.finish()


def test_more_races_than_can_be_told_apart(run: Launch) -> None:
    report = check(run, all_the_same(), np.zeros(1, np.float32), grid=2200, budget_s=0)
    assert [f.kind for f in report] == ["race"]
    assert any("too many accesses" in limit for limit in report.limits)


def test_the_budget_ends_what_is_compared(run: Launch) -> None:
    with pytest.raises(KernelFault) as caught:
        run(all_the_same(), np.zeros(1, np.float32), grid=5000, mode="sanitized", budget_s=0.001)
    assert caught.value.kind.name == "timeout"
    assert caught.value.report is not None
    assert "timeout" in [f.kind for f in caught.value.report]


def test_the_budget_ends_what_is_compared_with_transfers_in_flight(run: Launch) -> None:
    """Reads of elements beside 100 000 transfers, each of which is looked at for each read."""
    asm = Assembler("beside")
    zero = asm.constant(0)
    asm.op("tbuf", "rows", asm.buffer("rows", "L1", F32, (100_001,)), zero, 0)
    asm.op("tfill", "rows", 1.0)

    def body() -> None:
        asm.op("iadd", "next", "i", asm.constant(1))
        asm.op("tslice", "to", "rows", 0, "i", "next")
        asm.op("dmaset", "event", "to", 1.0, zero, 0)

    loop(asm, asm.constant(50_000), body)
    asm.op("imov", "i", asm.constant(1))
    asm.op("tslice", "to", "rows", 0, asm.constant(100_000), asm.constant(100_001))
    asm.op("dmaset", "event", "to", 1.0, zero, 0)
    asm.label("reading")
    asm.op("lds", "value", "rows", asm.constant(70_000), zero, zero)
    asm.op("jmp", "reading")
    asm.op("end")
    with pytest.raises(KernelFault) as caught:
        run(asm.finish(), mode="sanitized", budget_s=0.3)
    assert caught.value.kind.name == "timeout"


def test_ctrl_c_ends_what_is_compared(run: Launch) -> None:
    """Rounds of barriers, at each of which thousands of pairs are compared."""
    asm = Assembler("rounds")
    shared = asm.buffer("shared", "L2", F32, (64,))
    asm.op("tbuf", "one", asm.buffer("one", "L1", F32, (64,)), asm.constant(0), 0)
    asm.op("tfill", "one", 1.0)
    asm.op("tbuf", "all", shared, asm.constant(0), 0)

    def body() -> None:
        asm.op("dma", "event", "all", "one", asm.constant(0), 0)
        asm.op("waitall")
        asm.op("barrier")

    loop(asm, asm.constant(1 << 30), body)
    asm.op("end")
    with signal_soon(None), pytest.raises(KeyboardInterrupt):
        run(asm.finish(), block=1000, mode="sanitized", budget_s=0)
