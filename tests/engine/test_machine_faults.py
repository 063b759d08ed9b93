"""What a wrong kernel gets: an error object with a place, never a crash."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tops_kit.engine.c_engine import CEngine
from tops_kit.engine.fault import KernelFault, RawFault
from tops_kit.engine.launch import GlobalArray, launch
from tops_kit.engine.packing import pack_program
from tops_kit.engine.result import LaunchResult
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32
from tops_kit.isa.errors import BinaryError
from tops_kit.isa.faults import FAULTS

Launch = Callable[..., LaunchResult]
pytestmark = pytest.mark.smoke


def buffer_of_eight() -> Assembler:
    """A kernel with tile register `row`: 8 i32 in L1, slot 0 of 2."""
    asm = Assembler()
    row = asm.buffer("row", "L1", I32, (8,), slots=2)
    asm.op("tbuf", "row", row, asm.constant(0), 0)
    return asm


def fault_of(run: Launch, asm: Assembler, *arguments: Any, **options: Any) -> KernelFault:
    asm.op("end")
    with pytest.raises(KernelFault) as caught:
        run(asm.finish(), *arguments, **options)
    return caught.value


def wrong(name: str, *operands: Any) -> Assembler:
    asm = buffer_of_eight()
    asm.op(name, *(asm.constant(o[0]) if isinstance(o, list) else o for o in operands))
    return asm


def of_nothing(name: str) -> Assembler:
    """A reduction of no elements."""
    asm = buffer_of_eight()
    asm.op("tslice", "one", "row", 0, asm.constant(0), asm.constant(1))
    asm.op("tslice", "nothing", "row", 0, asm.constant(1), asm.constant(1))
    asm.op(name, "one", "nothing", 0)
    return asm


@pytest.mark.parametrize(
    ("asm", "kind", "detail", "says"),
    [
        (wrong("tbuf", "b", 0, [2], 0), "slot", {"slot": 2, "slots": 2}, "row has no slot 2: it has 2"),
        (wrong("tbuf", "b", 0, [-1], 0), "slot", {"slot": -1, "slots": 2}, "no slot -1"),
        (
            wrong("tslice", "b", "row", 0, [4], [9]),
            "view",
            {"axis": 0, "start": 4, "stop": 9, "extent": 8},
            "[4, 9) on axis 0 of row is outside of its extent 8",
        ),
        (wrong("tslice", "b", "row", 0, [-1], [2]), "view", None, "[-1, 2)"),
        (wrong("tslice", "b", "row", 1, [0], [2]), "view", None, "axis 1 of row does not exist"),
        (wrong("tstep", "b", "row", 0, [0]), "view", None, "row"),
        (wrong("tover", "b", "row", 0, [-2147483648], [2147483647]), "view", None, "row"),
        (wrong("tperm", "b", "row", (1,)), "view", None, "row"),
        (
            wrong("tindex", "b", "row", 0, [8]),
            "index",
            {"axis": 0, "index": 8, "low": 0, "high": 8},
            "index 8 on axis 0 of row is outside of [0, 8)",
        ),
        (wrong("lds", "a", "row", [-1], [0], [0]), "index", None, "index -1 on axis 0 of row"),
        (
            wrong("vld", "v", "row", [4]),
            "index",
            {"index": 4, "lanes": 32, "elements": 8},
            "a vector of 32 elements from index 4 on reaches outside of row, which has 8",
        ),
        (wrong("vst", "row", [-1], "v"), "index", {"index": -1}, "from index -1 on"),
        (of_nothing("trmax"), "shape", None, "max of a tile without elements, of extents (0,)"),
        (of_nothing("trargmin"), "shape", None, "argmin of a tile without elements"),
        (wrong("sts", "row", [8], [0], [0], [1]), "index", None, "index 8"),
        (wrong("tshape", "b", "row", 2, [3], [3], [1]), "shape", {"shape": (8,)}, "(8,) and (3, 3)"),
        (wrong("tshape", "b", "row", 2, [65536], [65536], [1]), "shape", None, "(65536, 65536)"),
        (wrong("tshape", "b", "row", 3, [-2], [-2], [2]), "shape", None, "do not fit"),
        (wrong("idiv", "a", [1], [0]), "divide", {"dividend": 1}, "division by zero"),
        (wrong("imod", "a", [1], [0]), "divide", None, "division by zero"),
        (wrong("assert", [0], "rows are even"), "assert", {"message": "rows are even"}, "rows are even"),
        (wrong("wait", [1]), "event", {"event": 1, "issued": 0}, "event 1 was never triggered"),
        (wrong("wait", [-1]), "event", None, "event -1"),
        (wrong("dma", "e", "row", "row", [7], 0), "event", None, "event 7"),
        (wrong("tindex", "b", "never_set", 0, [0]), "space", None, "the view is not set"),
        (wrong("tdim", "a", "never_set", 0), "space", None, "not set"),
        (wrong("lds", "a", "never_set", [0], [0], [0]), "space", None, "not set"),
        (wrong("dma", "e", "row", "never_set", [0], 0), "space", None, "space"),
        (wrong("tadd", "row", "row", "never_set"), "space", None, "space"),
        (wrong("atomic_add", "a", "row", [1]), "shape", None, "do not fit"),
        (wrong("printtile", "never_set"), "space", None, "not set"),
    ],
)  # fmt: skip
def test_faults(run: Launch, asm: Assembler, kind: str, detail: dict[str, object] | None, says: str) -> None:
    fault = fault_of(run, asm)
    assert fault.kind.name == kind
    assert detail is None or detail == {key: fault.detail[key] for key in detail}
    assert says in fault.message
    assert "\n" not in fault.message
    assert (fault.thread, fault.block) == (0, 0)


def test_every_fault_that_stops_a_thread_has_words(run: Launch) -> None:
    asm = Assembler()
    asm.op("end")
    program = asm.finish()

    for kind in FAULTS:
        values = (0, 0, 0, 0)
        text = (
            KernelFault(program, RawFault(kind.number, 0, 1, 0, values=values))
            if kind.name != "assert"
            else ""
        )
        assert kind.name == "assert" or kind.name in str(text)


def test_views_of_what_lies_outside(run: Launch) -> None:
    asm = buffer_of_eight()
    asm.op("tover", "over", "row", 0, asm.constant(-2), asm.constant(4))
    asm.op("tindex", "outside", "over", 0, asm.constant(1))
    fault = fault_of(run, asm)
    assert fault.detail == {"axis": 0, "index": 1, "low": 2, "high": 6}

    asm = buffer_of_eight()
    asm.op("tover", "over", "row", 0, asm.constant(-2), asm.constant(4))
    asm.op("dma", "e", "row", "over", asm.constant(0), 0)
    fault = fault_of(run, asm)
    assert fault.kind.name == "bounds"
    assert "only [2, 6) of 6 exist" in fault.message


def test_the_place_is_shown_with_its_calls(run: Launch) -> None:
    asm = Assembler("average")
    asm.source(
        "kernels.py", "def average(x):\n    return total(x) // count(x)\n\ndef count(x):\n    return x % 0\n"
    )
    outer = asm.at(2, 23, 31)
    asm.at(5, 11, 16, parent=outer)
    asm.op("imod", "a", asm.constant(4), asm.constant(0))
    fault = fault_of(run, asm)
    assert fault.message.startswith("kernels.py:5:12: divide: integer division by zero (kernel average")
    assert str(fault).splitlines()[1:] == [
        "        return x % 0",
        "               ^^^^^",
        "  inlined at kernels.py:2:24",
    ]
    assert [place.line for place in fault.location] == [5, 2]


def faults_in(threads: set[int]) -> Assembler:
    """These threads divide by zero; the lower a thread, the later (but none yields its turn)."""
    asm = Assembler()
    asm.op("special", "id", "thread_id")
    asm.op("special", "left", "num_threads")
    asm.op("isub", "left", "left", "id")
    asm.op("imul", "left", "left", asm.constant(2000))
    asm.label("loop")
    asm.op("isub", "left", "left", asm.constant(1))
    asm.op("brnz", "left", "loop")
    for thread in threads:
        asm.op("ine", "other", "id", asm.constant(thread))
        asm.op("imod", "a", "id", "other")
    return asm


@pytest.mark.parametrize("host_threads", [1, 2, 4])
def test_the_first_thread_in_order_is_blamed(run: Launch, host_threads: int) -> None:
    for _ in range(5):
        fault = fault_of(run, faults_in({17, 5, 11}), grid=4, block=6, host_threads=host_threads)
        assert (fault.thread, fault.block) == (5, 0)


def test_a_later_fault_of_an_earlier_thread_comes_first(run: Launch) -> None:
    asm = Assembler()
    asm.op("special", "id", "thread_id")
    asm.op("brnz", "id", "fault")
    asm.op("imov", "left", asm.constant((1 << 20) + 5))  # beyond a slice: the next thread gets its turn
    asm.label("loop")
    asm.op("isub", "left", "left", asm.constant(1))
    asm.op("brnz", "left", "loop")
    asm.label("fault")
    asm.op("imod", "a", asm.constant(1), asm.constant(0))
    assert fault_of(run, asm, block=3).thread == 0


def test_read_only_memory_is_never_written(run: Launch) -> None:
    memory = np.zeros(8, np.int32)
    memory.flags.writeable = False

    def store(*, declared: bool) -> Assembler:
        asm = buffer_of_eight()
        out = asm.pointer("out", I32, stored=declared)
        asm.op("tptr", "out", out)
        asm.op("dma", "e", "out", "row", asm.constant(0), 0)
        return asm

    with pytest.raises(ValueError, match="argument out is stored to by the kernel, and is read-only"):
        fault_of(run, store(declared=True), memory)
    assert fault_of(run, store(declared=False), memory).kind.name == "space"


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        (np.zeros(4, np.float32), "x is i32 with 1 axes, not f32 with 1"),
        (np.zeros((4, 4), np.int32), "x is i32 with 1 axes, not i32 with 2"),
        (np.zeros(17, np.int8)[1:].view(np.int32), "not aligned"),
        (5, "x is an array"),
    ],
)
def test_arguments_that_are_not_the_kernels(run: Launch, argument: Any, says: str) -> None:
    asm = Assembler()
    asm.pointer("x", I32)
    asm.op("end")
    with pytest.raises(ValueError, match=says):
        run(asm.finish(), argument)


def test_scalars_that_do_not_fit(run: Launch) -> None:
    asm = Assembler()
    asm.scalar("n", I32)
    asm.scalar("x", F32)
    asm.op("end")
    program = asm.finish()
    run(program, (1 << 32) - 1, 1e300)
    for bad in (1 << 32, 1.5):
        with pytest.raises(ValueError, match="n is an integer of 32 bits"):
            run(program, bad, 0.0)
    with pytest.raises(ValueError, match="takes 2 arguments and got 1"):
        run(program, 1)


@pytest.mark.parametrize(("grid", "block"), [((0,), (1,)), ((1,), (1, 1, 1, 1)), ((1 << 20,), (1 << 20,))])
def test_impossible_grids(run: Launch, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    asm = Assembler()
    asm.op("end")
    with pytest.raises(ValueError, match=r"threads|extents"):
        run(asm.finish(), grid=grid, block=block)


def test_a_damaged_program_is_not_run(c_engine: CEngine, run: Launch) -> None:
    asm = buffer_of_eight()
    asm.op("iadd", "a", "a", "a")
    asm.op("end")
    program = asm.finish()
    for position in range(1, 4):
        program.code[1, position] = 60000
        with pytest.raises(ValueError, match="operand"):  # the machine looks itself
            pack_program(c_engine.module, program)
        with pytest.raises(BinaryError):
            run(program)
        program.code[1, position] = 0
    run(program)


def test_memory_that_no_part_has(run: Launch) -> None:
    asm = Assembler()
    asm.buffer("huge", "L1", I32, (1 << 30,))
    asm.op("end")
    with pytest.raises(ValueError, match="more L1 or L2"):
        run(asm.finish())


def test_oracle_and_machine_blame_alike(c_engine: CEngine) -> None:
    program_of: list[Callable[[], Assembler]] = [
        lambda: wrong("tslice", "b", "row", 0, [4], [9]),
        lambda: wrong("lds", "a", "row", [9], [0], [0]),
        lambda: faults_in({2, 1}),
    ]
    for make in program_of:
        asm = make()
        asm.op("end")
        program = asm.finish()
        texts = []
        for engine in ("c", "oracle"):
            with pytest.raises(KernelFault) as caught:
                launch(program, [], grid=(1,), block=(3,), engine=engine)  # type: ignore[arg-type]
            texts.append(str(caught.value))
        assert operator.eq(*texts)


def test_strides_may_go_backwards(run: Launch) -> None:
    asm = buffer_of_eight()
    x = asm.pointer("x", I32, stored=False)
    y = asm.pointer("y", I32, loaded=False)
    asm.op("tptr", "x", x)
    asm.op("tptr", "y", y)
    asm.op("dma", "e", "row", "x", asm.constant(0), 0)
    asm.op("dma", "e", "y", "row", asm.constant(0), 0)
    asm.op("end")
    got = np.zeros(24, np.int32)
    source = np.arange(8, dtype=np.int32)
    every_third = got[::-3]
    arguments = [GlobalArray.of(source[::-1], I32, "x"), GlobalArray.of(every_third, I32, "y")]
    launch(asm.finish(), arguments, grid=(1,), block=(1,), engine="c")
    assert every_third.tolist() == source[::-1].tolist()
    assert np.count_nonzero(got) == 7
