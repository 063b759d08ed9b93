"""The sanitizer's reports: what a finding says, what is counted, what goes on after one, what is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tops_kit.engine.fault import KernelFault
from tops_kit.engine.findings import Finding, Report
from tops_kit.engine.findings_reading import index_at
from tops_kit.engine.launch import GlobalArray, launch
from tops_kit.engine.result import LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import BY_NAME, F32, I32
from tops_kit.isa.program import Program

Launch = Callable[..., LaunchResult]


@pytest.fixture
def asm() -> Assembler:
    return Assembler("kernel")


def check(run: Launch, program: Program, *arguments: object, **options: object) -> Report:
    try:
        return run(program, *arguments, mode="sanitized", **options).faults
    except KernelFault as fault:
        assert fault.report is not None
        return fault.report


def only(report: Report) -> Finding:
    assert len(report) == 1, str(report)
    return report[0]


def part(asm: Assembler, name: str, pointer: int, start: int, stop: int) -> None:
    """A part of one axis of an array."""
    asm.op("tptr", name, pointer)
    asm.op("tslice", name, name, 0, asm.constant(start), asm.constant(stop))


def unawaited(asm: Assembler) -> Program:
    source = "ready = load_async(row[1], x[0:64])\ndoubled = row[1] * 2.0\nwait(ready)"
    asm.source("kernel.py", source)
    asm.at(1, 8, 35)
    x = asm.pointer("x", F32, stored=False)
    row = asm.buffer("row", "L1", F32, (64,), slots=2)
    part(asm, "x", x, 0, 64)
    asm.op("tbuf", "row", row, asm.constant(1), 0)
    asm.op("dma", "ready", "row", "x", asm.constant(0), 0)
    outer = asm.at(2, 0, 7)
    asm.at(2, 10, 22, parent=outer)
    asm.op("tmul_s", "row", "row", 2.0)
    asm.at(3, 0, 11)
    asm.op("wait", "ready")
    asm.op("end")
    return asm.finish()


@pytest.mark.smoke
def test_the_text_of_a_finding(run: Launch, asm: Assembler) -> None:
    report = check(run, unawaited(asm), np.zeros(64, np.float32), block=2)
    assert (
        str(report)
        == """\
kernel.py:2:11: not-awaited: thread 0 reads row[0] to row[63] (slot 1), which the transfer of line 1 is \
still writing: wait for its event first (2 times)
    doubled = row[1] * 2.0
              ^^^^^^^^^^^^
  inlined at kernel.py:2:1
  kernel.py:1:9: thread 0's transfer wrote it here, and was not awaited
    ready = load_async(row[1], x[0:64])
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^
sanitizer: kernel: 1 mistake found"""
    )


def test_the_json_of_a_finding(run: Launch, asm: Assembler) -> None:
    report = check(run, unawaited(asm), np.zeros(64, np.float32))
    text = json.loads(report.json())
    assert {name: text[name] for name in ("version", "kernel", "checked", "limits")} == {
        "version": 1,
        "kernel": "kernel",
        "checked": True,
        "limits": [],
    }
    assert text["scope"]
    (finding,) = text["findings"]
    assert finding["kind"] == "not-awaited"
    assert finding["count"] == 1
    assert not finding["ends_thread"]
    assert [place["line"] for place in finding["access"]["location"]] == [2, 2]
    assert finding["access"] | {"location": None} == {
        "location": None,
        "thread": 0,
        "block": 0,
        "sip": 0,
        "what": "read",
        "transfer": False,
        "awaited": True,
    }
    assert (finding["second"]["what"], finding["second"]["awaited"]) == ("write", False)
    assert finding["memory"] == {
        "space": "L1",
        "name": "row",
        "slot": 1,
        "first": [0],
        "last": [63],
        "offset_bytes": 0,
        "size_bytes": 256,
    }


@pytest.mark.smoke
def test_deferred_transfers_show_what_a_missing_wait_does(run: Launch, asm: Assembler) -> None:
    x, y = asm.pointer("x", F32, stored=False), asm.pointer("y", F32, loaded=False)
    row = asm.buffer("row", "L1", F32, (4,))
    part(asm, "x", x, 0, 4)
    part(asm, "y", y, 0, 4)
    asm.op("tbuf", "row", row, asm.constant(0), 0)
    asm.op("tfill", "row", 5.0)
    asm.op("dma", "ready", "row", "x", asm.constant(0), 0)
    asm.op("dma", "stored", "y", "row", asm.constant(0), 1)
    asm.op("wait", "stored")
    asm.op("wait", "ready")
    asm.op("end")
    program, results = asm.finish(), []
    for defer in (False, True):
        given, got = np.ones(4, np.float32), np.zeros(4, np.float32)
        assert only(check(run, program, given, got, defer=defer)).kind == "not-awaited"
        results.append(got.tolist())
    assert results == [[1] * 4, [5] * 4]


def test_only_what_is_missing_is_named(run: Launch, asm: Assembler) -> None:
    tile, sums = asm.buffer("tile", "L1", F32, (4, 8)), asm.buffer("sums", "L1", F32, (4, 1))
    zero = asm.constant(0)
    asm.op("tbuf", "tile", tile, zero, 0)
    asm.op("tbuf", "sums", sums, zero, 1)
    asm.op("tslice", "part", "tile", 1, zero, asm.constant(6))
    asm.op("tfill", "part", 1.0)
    asm.op("tslice", "rows", "tile", 0, asm.constant(1), asm.constant(3))
    asm.op("trsum", "sums", "rows", 1)
    asm.op("end")
    finding = only(check(run, asm.finish()))
    assert finding.memory is not None
    assert (finding.memory.first, finding.memory.last) == ((1, 6), (2, 7))
    assert str(finding.memory) == "tile[1, 6] to tile[2, 7]"


def two_writers(asm: Assembler, *, apart: int, barrier: str = "") -> Program:
    """Each thread stores 8 elements, `apart` elements from the thread before it; even threads first."""
    y = asm.pointer("y", F32, loaded=False)
    row = asm.buffer("row", "L1", F32, (8,))
    asm.op("tbuf", "row", row, asm.constant(0), 0)
    asm.op("tfill", "row", 1.0)
    asm.op("special", "thread", "thread_id")
    asm.op("iand", "odd", "thread", asm.constant(1))
    asm.op("imul", "start", "thread", asm.constant(apart))
    asm.op("iadd", "stop", "start", asm.constant(8))
    asm.op("tptr", "y", y)
    asm.op("tslice", "y", "y", 0, "start", "stop")
    asm.op("brnz", "odd", "odd")
    asm.at(10)
    asm.op("dma", "event", "y", "row", asm.constant(0), 0)
    asm.op("waitall")
    asm.label("odd")
    if barrier:
        asm.op(barrier)
    asm.op("brz", "odd", "end")
    asm.at(20)
    asm.op("dma", "event", "y", "row", asm.constant(0), 0)
    asm.op("waitall")
    asm.label("end")
    asm.op("end")
    return asm.finish()


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("apart", "barrier", "grid", "block", "races"),
    [
        (8, "", 1, 2, False),
        (7, "", 1, 2, True),
        (7, "barrier", 1, 2, False),
        (7, "", 2, 1, True),
        (7, "barrier", 2, 1, True),
        (7, "gridbarrier", 2, 1, False),
        (0, "gridbarrier", 1, 2, False),
        (0, "gridbarrier", 2, 2, True),
    ],
)
def test_what_orders_accesses(
    run: Launch, asm: Assembler, apart: int, barrier: str, grid: int, block: int, races: bool
) -> None:
    report = check(
        run, two_writers(asm, apart=apart, barrier=barrier), np.zeros(64, np.float32), grid=grid, block=block
    )
    assert not report.limits
    assert {finding.kind for finding in report} == ({"race"} if races else set())


def test_the_two_accesses_of_a_race(run: Launch, asm: Assembler) -> None:
    y = np.zeros(64, np.float32)
    finding = only(check(run, two_writers(asm, apart=7), y, grid=3))
    assert (
        finding.message
        == "thread 0 writes y[7], thread 1 of block 1 writes it, and no grid barrier lies between"
    )
    assert finding.second is not None
    assert (finding.line, finding.second.location[0].line, finding.count) == (10, 20, 2)
    assert finding.memory is not None
    assert finding.memory.address == y.ctypes.data + 28
    assert finding.memory.offset_bytes == 28


def test_elements_of_arrays_with_any_strides(run: Launch, asm: Assembler) -> None:
    memory = np.zeros(64, np.float32)
    finding = only(check(run, two_writers(asm, apart=7), memory[::-2], block=2))
    assert finding.memory is not None
    assert finding.memory.first == (7,)
    assert finding.memory.address == memory.ctypes.data + 4 * (63 - 14)


@pytest.mark.parametrize(
    ("shape", "order"), [((3, 4, 5), (0, 1, 2)), ((3, 4, 5), (2, 0, 1)), ((3, 1, 5), (1, 2, 0))]
)
def test_index_at(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    memory = np.zeros((6, 8, 10), np.int8)
    array = memory[:: -1 if order[0] else 2, ::2, 1::3][: shape[0], : shape[1], : shape[2]].transpose(order)
    for index in np.ndindex(array.shape):
        offset = sum(i * stride for i, stride in zip(index, array.strides, strict=True))
        assert index_at(offset, array.shape, array.strides) == index


def test_threads_go_on_after_a_fault_of_another(run: Launch, asm: Assembler) -> None:
    """Thread 1 of block 0 ends with a fault; what is wrong with the others is found all the same."""
    row = asm.buffer("row", "L1", F32, (8,))
    asm.op("special", "thread", "thread_id")
    asm.op("ieq", "good", "thread", asm.constant(1))
    asm.op("lnot", "good", "good")
    asm.at(5)
    asm.op("assert", "good", "not this one")
    asm.at(6)
    asm.op("tbuf", "row", row, asm.constant(0), 0)
    asm.op("tmul_s", "row", "row", 2.0)
    asm.op("end")
    report = check(run, asm.finish(), grid=2, block=3)
    assert [(f.kind, f.line, f.count, f.ends) for f in report] == [
        ("uninitialised", 6, 5, False),
        ("assert", 5, 1, True),
    ]
    assert report[1].access.thread == 1
    assert report[1].detail == {"message": "not this one"}
    assert any("after a fault" in limit for limit in report.limits)
    assert not report.clean
    assert "not checked: " in str(report)


def test_the_first_fault_is_raised(run: Launch, asm: Assembler) -> None:
    asm.op("special", "thread", "thread_id")
    asm.op("ilt", "good", "thread", asm.constant(2))
    asm.op("assert", "good", "too many")
    asm.op("end")
    program = asm.finish()
    raised = []
    for mode in ("fast", "sanitized"):
        with pytest.raises(KernelFault) as caught:
            run(program, grid=2, block=4, mode=mode)
        raised.append((str(caught.value), caught.value.thread))
    assert raised[0] == raised[1]
    assert raised[0][1] == 2


def test_an_event_that_was_never_triggered(run: Launch, asm: Assembler) -> None:
    asm.at(3)
    asm.op("wait", asm.constant(1))
    asm.op("end")
    finding = only(check(run, asm.finish()))
    assert (finding.kind, finding.line, finding.ends) == ("event", 3, True)
    assert finding.message == "event 1 was never triggered (0 were)"


def test_the_oracle_says_that_it_checks_nothing(asm: Assembler) -> None:
    result = launch(
        unawaited(asm),
        [GlobalArray.of(np.zeros(64, np.float32), F32)],
        grid=(1,),
        block=(1,),
        mode="sanitized",
        engine="oracle",
    )
    assert not result.faults.clean
    assert not result.faults.checked
    assert "needs the C engine" in str(result.faults)


def test_other_modes_have_no_report(run: Launch, asm: Assembler) -> None:
    report = run(unawaited(asm), np.zeros(64, np.float32), mode="counted").faults
    assert not report
    assert not report.checked
    assert not report.clean


def test_many_transfers_in_flight(run: Launch, asm: Assembler) -> None:
    rows = 300
    x = asm.pointer("x", F32, ndim=2, stored=False)
    row = asm.buffer("row", "L1", F32, (8,), slots=rows)
    asm.op("tptr", "x", x)
    asm.label("loop")
    asm.op("tindex", "from", "x", 0, "r")
    asm.op("tbuf", "to", row, "r", 0)
    asm.at(7)
    asm.op("dma", "event", "to", "from", asm.constant(0), 0)
    asm.op("iadd", "r", "r", asm.constant(1))
    asm.op("blt", "r", asm.constant(rows), "loop")
    asm.op("brz", asm.scalar("waits", I32), "end")
    asm.op("waitall")
    asm.label("end")
    asm.op("end")
    program, given = asm.finish(), np.zeros((rows, 8), np.float32)
    assert check(run, program, given, 1).clean
    finding = only(check(run, program, given, 0))
    assert (finding.kind, finding.line, finding.count) == ("left-open", 7, rows)


def test_more_mistakes_than_a_report_holds(run: Launch, asm: Assembler) -> None:
    row = asm.buffer("row", "L1", F32, (1,), slots=1100)
    for slot in range(1100):
        asm.op("tbuf", "row", row, asm.constant(slot), 0)
        asm.op("tmul_s", "row", "row", 2.0)
    asm.op("end")
    report = check(run, asm.finish())
    assert len(report) == 1000
    assert any("more than 1000" in limit for limit in report.limits)


def sharing(asm: Assembler, *, temporary: bool) -> Program:
    """A transfer to one buffer, an operation on another that lies in the same memory."""
    x = asm.pointer("x", F32, stored=False)
    one = asm.buffer("one", "L1", F32, (64,), temporary=temporary)
    other = asm.buffer("other", "L1", F32, (64,), temporary=temporary)
    part(asm, "x", x, 0, 64)
    asm.op("tbuf", "one", one, asm.constant(0), 0)
    asm.op("tbuf", "other", other, asm.constant(0), 0)
    asm.op("dma", "event", "one", "x", asm.constant(0), 0)
    asm.op("tfill", "other", 1.0)
    asm.op("waitall")
    asm.op("end")
    program = asm.finish()
    first, second = program.buffers
    return replace(program, buffers=(first, replace(second, offset_bytes=first.offset_bytes + 128)))


def test_buffers_that_share_memory(run: Launch, asm: Assembler) -> None:
    report = check(run, sharing(asm, temporary=True), np.zeros(64, np.float32))
    assert [f.kind for f in report] == ["in-use"]
    assert not report.limits


def test_buffers_of_the_user_that_share_memory(run: Launch, asm: Assembler) -> None:
    report = check(run, sharing(asm, temporary=False), np.zeros(64, np.float32))
    assert [f.kind for f in report] == ["in-use"]
    assert any("one, other" in limit for limit in report.limits)


@pytest.mark.parametrize("name", ["f32", "i32", "f16", "bf16", "i16", "i8", "u8"])
def test_single_elements_of_l2(run: Launch, asm: Assembler, name: str) -> None:
    """Threads write elements t and t + 5000 of L2: neighbours race with `shift` 1 only."""
    dtype = BY_NAME[name]
    shared = asm.buffer("shared", "L2", dtype, (6000,))
    zero = asm.constant(0)
    asm.op("tbuf", "s", shared, zero, 0)
    asm.op("special", "thread", "local_id")
    value = asm.constant(1.0) if dtype.is_float else asm.constant(1)
    asm.at(1)
    asm.op("sts", "s", "thread", zero, zero, value)
    asm.at(2)
    asm.op("iadd", "far", "thread", asm.constant(5000))
    asm.op("sts", "s", "far", zero, zero, value)
    asm.at(3)
    asm.op("iadd", "far", "far", asm.scalar("shift", I32))
    asm.op("sts", "s", "far", zero, zero, value)
    asm.op("end")
    program = asm.finish()
    assert check(run, program, 0, block=4).clean
    finding = only(check(run, program, 1, block=4))
    assert (finding.kind, finding.line, finding.count) == ("race", 2, 3)
    assert finding.memory is not None
    assert finding.memory.first == finding.memory.last == (5001,)


def test_atomics_on_tiles_race_with_stores_only(run: Launch, asm: Assembler) -> None:
    y = asm.pointer("y", F32, atomic=True)
    row = asm.buffer("row", "L1", F32, (8,))
    asm.op("tbuf", "row", row, asm.constant(0), 0)
    asm.op("tfill", "row", 1.0)
    part(asm, "y", y, 0, 8)
    asm.at(1)
    asm.op("tatomic_add", "y", "row")
    asm.op("special", "thread", "thread_id")
    asm.op("bge", "thread", asm.scalar("stores", I32), "end")
    asm.at(2)
    asm.op("dma", "event", "y", "row", asm.constant(0), 0)
    asm.op("waitall")
    asm.label("end")
    asm.op("end")
    program, memory = asm.finish(), np.zeros(8, np.float32)
    assert check(run, program, memory, 0, block=3).clean
    finding = only(check(run, program, memory, 1, block=3))
    assert finding.message.startswith("thread 1 changes y[0] to y[7], thread 0 writes it")


def test_a_mistake_beyond_a_fault_in_the_same_block(run: Launch, asm: Assembler) -> None:
    """The others of the block are not said to diverge from a thread that ended with a fault."""
    asm.op("special", "thread", "thread_id")
    asm.at(1)
    asm.op("assert", "thread", "not the first")
    asm.at(2)
    asm.op("barrier")
    asm.op("end")
    report = check(run, asm.finish(), grid=2, block=3)
    assert [(f.kind, f.line, f.count) for f in report] == [("assert", 1, 1)]


def test_memory_is_forgotten_between_threads_and_launches(run: Launch, asm: Assembler) -> None:
    """Thread 0 writes its L1; thread 1, which may get the same memory, does not."""
    row = asm.buffer("row", "L1", F32, (8,))
    asm.op("tbuf", "row", row, asm.constant(0), 0)
    asm.op("special", "thread", "thread_id")
    asm.op("brnz", "thread", "read")
    asm.op("tfill", "row", 1.0)
    asm.label("read")
    asm.op("tmul_s", "row", "row", 2.0)
    asm.op("end")
    program = asm.finish()
    for _ in range(3):
        for grid, block in ((1, 4), (4, 1), (2, 2)):
            finding = only(check(run, program, grid=grid, block=block))
            assert (finding.kind, finding.count, finding.access.thread) == ("uninitialised", 3, 1)


@pytest.mark.parametrize("indices", [0, 2])
def test_a_scatter_whose_extents_do_not_fit(run: Launch, asm: Assembler, indices: int) -> None:
    """Behind the indices, which are fewer than what is scattered, lies no memory."""
    d = asm.buffer("d", "L1", I32, (8,))
    a = asm.buffer("a", "L1", I32, (50_000,))
    b = asm.buffer("b", "L1", I32, (indices,))
    for name, buffer in (("d", d), ("a", a), ("b", b)):
        asm.op("tbuf", name, buffer, asm.constant(0), 0)
    asm.op("tfill", "a", 1)
    asm.op("tfill", "b", 0)
    asm.at(1)
    asm.op("tscatter", "d", "b", "a", 0)
    asm.op("end")
    report = check(run, asm.finish())
    assert [(f.kind, f.line) for f in report] == [("shape", 1)]


@pytest.mark.parametrize(("rows", "columns", "missing"), [(2, 4, 0), (4, 2, 1), (2, 2, 0), (0, 4, 0)])
def test_what_a_clipped_transfer_reads_of_a_column(
    run: Launch, asm: Assembler, rows: int, columns: int, missing: int
) -> None:
    """Of a column that is repeated along the rows, those rows that lie inside of the array."""
    y = asm.pointer("y", F32, 2)
    column = asm.buffer("column", "L1", F32, (4, 1))
    zero, four = asm.constant(0), asm.constant(4)
    asm.op("tbuf", "column", column, zero, 0)
    asm.op("tslice", "written", "column", 0, zero, asm.constant(2))
    asm.op("tfill", "written", 1.0)
    asm.op("tptr", "part", y)
    for axis in (0, 1):
        asm.op("tover", "part", "part", axis, zero, four)
    asm.op("dmaclip", "event", "part", "column", zero, 0)
    asm.op("wait", "event")
    asm.op("end")
    report = check(run, asm.finish(), np.zeros((rows, columns), np.float32))
    assert [(f.kind, f.count) for f in report] == [("uninitialised", 1)] * missing
