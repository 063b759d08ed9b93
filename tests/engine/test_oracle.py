"""The oracle: scalars, control, views, single elements, prints, order of threads, faults."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tops_kit.engine.launch import GlobalArray
from tops_kit.engine.oracle import Oracle
from tops_kit.isa import dtypes
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.faults import BY_NUMBER


class Kernel(Assembler):
    """An assembler that gives scalar registers back through printing them."""

    def show(self, *names, kind=0):
        for name in names:
            self.op("printarg", name, kind)
        self.op("print", "values")

    def outcome(self, *arguments, grid=(1, 1, 1), block=(1, 1, 1), **options):
        if not self._rows or self._rows[-1][0] != 0:
            self.op("end")
        return Oracle(self.finish()).run(arguments, grid=grid, block=block, **options)


def records(outcome):
    """Prints as (thread, [values]): what was appended, as ints."""
    out, at = [], 0
    while at < len(outcome.prints):
        size, _, thread = struct.unpack_from("<3I", outcome.prints, at)
        words = struct.unpack_from(f"<{(size - 24) // 4}i", outcome.prints, at + 24)
        out.append((thread, list(words[1::2])))
        at += size
    return out


def shown(asm, **options):
    outcome = asm.outcome(**options)
    assert outcome.fault is None, outcome.fault
    return [value for _, values in records(outcome) for value in values]


def fault(asm, *arguments, **options):
    outcome = asm.outcome(*arguments, **options)
    assert outcome.fault is not None
    return BY_NUMBER[outcome.fault.kind].name, outcome.fault


def f32_bits(value):
    return struct.unpack("<i", struct.pack("<f", value))[0]


LEAST, GREATEST = -(1 << 31), (1 << 31) - 1


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("iadd", (GREATEST, 1), LEAST),
        ("isub", (LEAST, 1), GREATEST),
        ("imul", (1 << 20, 1 << 15), 0),
        ("ishl", (1, 33), 2),
        ("ishr", (-8, 1), -4),
        ("iushr", (-8, 1), 0x7FFFFFFC),
        ("idiv", (-7, 2), -4),
        ("idiv", (LEAST, -1), LEAST),
        ("imod", (-7, 2), 1),
        ("imod", (7, -2), -1),
        ("ineg", (LEAST,), LEAST),
        ("iabs", (LEAST,), LEAST),
        ("inot", (0,), -1),
        ("lnot", (7,), 0),
        ("narrow8", (200,), -56),
        ("narrow16", (40000,), -25536),
        ("narrowu8", (-1,), 255),
        ("tobool", (-3,), 1),
        ("imax", (3, -5), 3),
        ("ile", (3, 3), 1),
        ("select", (0, 5, 6), 6),
    ],
)
def test_integers(name, values, expected):
    asm = Kernel()
    asm.op(name, "d", *(asm.constant(value) for value in values))
    asm.show("d")
    assert shown(asm) == [expected]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("fadd", (1.0, 2.0**-24), 1.0),
        ("fmul", (3e38, 3e38), float("inf")),
        ("fdiv", (1.0, -0.0), float("-inf")),
        ("fmin", (0.0, -0.0), -0.0),
        ("fmax", (1.0, 2.0), 2.0),
        ("fma", (1.0 + 2.0**-12, 1.0 + 2.0**-12, -1.0 - 2.0**-11), 2.0**-24),
        ("roundf16", (65519.0,), 65504.0),
        ("roundbf16", (1.0 + 2.0**-8,), 1.0),
        ("fmov", (-0.0,), -0.0),
    ],
)
def test_floats(name, values, expected):
    asm = Kernel()
    asm.op(name, "d", *(asm.constant(value) for value in values))
    asm.show("d")
    assert shown(asm) == [f32_bits(expected)]


def test_nan_of_arithmetic_is_one_nan():
    asm = Kernel()
    odd = asm.constant(0x7FA12345)
    for name in ("fadd", "fmin", "fmax", "fdiv"):
        asm.op(name, "d", odd, asm.constant(1.0))
        asm.show("d")
        asm.op(name, "d", asm.constant(1.0), odd)
        asm.show("d")
    asm.op("fmov", "d", odd)
    asm.show("d")
    assert shown(asm) == [0x7FC00000] * 8 + [0x7FA12345]


def test_conversions_saturate():
    asm = Kernel()
    for value in (2.9, -2.9, 3e9, -3e9, float("nan"), float("inf")):
        asm.op("f2i", "d", asm.constant(value))
        asm.show("d")
    asm.op("i2f", "d", asm.constant((1 << 24) + 1))
    asm.show("d")
    assert shown(asm) == [2, -2, GREATEST, LEAST, 0, GREATEST, f32_bits(2.0**24)]


def test_a_loop_counts_its_instructions():
    asm = Kernel()
    asm.label("again")
    asm.op("iadd", "i", "i", asm.constant(1))
    asm.op("blt", "i", asm.constant(5), "again")
    asm.show("i")
    outcome = asm.outcome(block=(2, 1, 1))
    assert records(outcome) == [(0, [5]), (1, [5])]
    assert outcome.counts == [10, 10, 2, 2, 2]


def test_numbers_of_the_launch():
    asm = Kernel()
    names = (
        "thread_id",
        "num_threads",
        "local_id",
        "block_id",
        "local_x",
        "local_y",
        "block_y",
        "grid_dim_y",
    )
    for name in names:
        asm.op("special", name, name)
    asm.show(*names)
    outcome = asm.outcome(grid=(2, 3, 1), block=(2, 2, 1))
    assert records(outcome)[4 * 4 + 3] == (19, [19, 24, 3, 4, 1, 1, 2, 3])


def test_division_by_zero_is_a_fault():
    asm = Kernel()
    asm.op("imov", "x", asm.constant(7))
    asm.op("idiv", "d", "x", "zero")
    kind, where = fault(asm)
    assert kind == "divide"
    assert (where.pc, where.thread, where.values[0]) == (1, 0, 7)


def test_assertions_say_which():
    asm = Kernel()
    asm.string("other")
    asm.op("special", "id", "thread_id")
    asm.op("ine", "good", "id", asm.constant(2))
    asm.op("assert", "good", "message")
    kind, where = fault(asm, block=(4, 1, 1))
    assert kind == "assert"
    assert (where.thread, where.pc, where.values[0]) == (2, 2, 1)


def buffer_kernel(shape=(4, 6), slots=2, dtype=dtypes.I32, space="L1"):
    asm = Kernel()
    asm.buffer("b", space, dtype, shape, slots)
    asm.op("tbuf", "t", "b", asm.constant(0), 0)
    return asm


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (("tbuf", "t", "b", -1, 0), "slot"),
        (("tbuf", "t", "b", 2, 0), "slot"),
        (("tindex", "u", "t", 0, 4), "index"),
        (("tindex", "u", "t", 0, -1), "index"),
        (("tslice", "u", "t", 1, 2, 7), "view"),
        (("tslice", "u", "t", 1, -1, 2), "view"),
        (("tslice", "u", "t", 1, 7, 2), "view"),
        (("tover", "u", "t", 1, LEAST, GREATEST), "view"),
        (("tstep", "u", "t", 1, 0), "view"),
        (("tstep", "u", "over", 0, 2), "view"),
        (("tdim", "n", "t", 2), "view"),
        (("tdim", "n", "unset", 0), "space"),
        (("tperm", "u", "t", (0, 0)), "view"),
        (("tshape", "u", "t", 2, 5, 5, 0), "shape"),
        (("tshape", "u", "t", 2, -4, -6, 0), "shape"),
        (("tshape", "u", "over", 1, 24, 0, 0), "view"),
        (("tshape", "u", "columns", 1, 16, 0, 0), "shape"),
        (("tshape", "u", "columns", 3, 2, 2, 4), "shape"),
        (("lds", "n", "t", 3, 6, 0), "index"),
        (("lds", "n", "unset", 0, 0, 0), "space"),
        (("sts", "t", -1, 0, 0, 0), "index"),
        (("atomic_add", "n", "t", 1), "shape"),
    ],
)
def test_faults_of_views(operation, kind):
    asm = buffer_kernel()
    asm.op("tover", "over", "t", 0, asm.constant(-1), asm.constant(3))
    asm.op("tslice", "columns", "t", 1, asm.constant(1), asm.constant(5))
    name, *operands = operation
    immediates = {"tbuf": (1, 3), "tperm": (2,), "tshape": (2,)}.get(
        name, (2,) if name.startswith("t") else ()
    )
    given = [
        asm.constant(x) if isinstance(x, int) and position not in immediates else x
        for position, x in enumerate(operands)
    ]
    asm.op(name, *given)
    assert fault(asm)[0] == kind


def test_views_of_views_reach_the_right_elements():
    asm = buffer_kernel((4, 6), slots=2)
    c = asm.constant
    asm.op("tbuf", "t", "b", c(1), 0)
    asm.op("tslice", "u", "t", 1, c(1), c(6))  # columns 1 to 5
    asm.op("tstep", "u", "u", 1, c(2))  # 1, 3, 5
    asm.op("tperm", "u", "u", (1, 0))
    asm.op("tindex", "u", "u", 0, c(2))  # column 5
    asm.op("sts", "u", c(3), c(0), c(0), c(77))  # row 3
    asm.op("tdim", "n", "u", 0)
    asm.op("tshape", "flat", "t", 1, c(24), c(0), c(0))
    asm.op("lds", "x", "flat", c(3 * 6 + 5), c(0), c(0))
    asm.show("n", "x")
    assert shown(asm) == [4, 77]


def test_axes_of_one_element_come_and_go_in_any_view():
    asm = buffer_kernel((4, 6))
    c = asm.constant
    asm.op("sts", "t", c(3), c(5), c(0), c(77))
    asm.op("tslice", "u", "t", 1, c(2), c(6))
    asm.op("tstep", "u", "u", 1, c(3))  # columns 2 and 5
    asm.op("tshape", "wide", "u", 3, c(4), c(1), c(2))
    asm.op("lds", "x", "wide", c(3), c(0), c(1))
    asm.op("tshape", "back", "wide", 2, c(4), c(2), c(0))
    asm.op("lds", "y", "back", c(3), c(1), c(0))
    asm.show("x", "y")
    assert shown(asm) == [77, 77]


def test_what_lies_outside_does_not_exist():
    asm = buffer_kernel((4,))
    c = asm.constant
    asm.op("tover", "u", "t", 0, c(-2), c(3))
    asm.op("sts", "u", c(2), c(0), c(0), c(5))  # element 0
    asm.op("lds", "x", "t", c(0), c(0), c(0))
    asm.show("x")
    asm.op("lds", "x", "u", c(1), c(0), c(0))
    kind, where = fault(asm)
    assert kind == "index"
    assert where.values == (0, 1, 2, 5)


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        (dtypes.I8, 200, -56),
        (dtypes.U8, -1, 255),
        (dtypes.I16, 40000, -25536),
        (dtypes.BOOL, 12, 1),
        (dtypes.F16, 1e6, float("inf")),
        (dtypes.BF16, 1.0 + 2.0**-9, 1.0),
        (dtypes.F32, -0.0, -0.0),
    ],
)
def test_elements_are_narrowed_and_widened(dtype, given, expected):
    asm = buffer_kernel((3,), dtype=dtype)
    c = asm.constant
    asm.op("sts", "t", c(1), c(0), c(0), c(given))
    asm.op("lds", "x", "t", c(1), c(0), c(0))
    asm.show("x")
    assert shown(asm) == [f32_bits(expected) if isinstance(expected, float) else expected]


def test_atomics_in_l3_in_order():
    counter = np.array([10], np.int32)
    asm = Kernel()
    asm.pointer("x", dtypes.I32, 1, atomic=True)
    asm.op("special", "id", "thread_id")
    asm.op("tptr", "t", "x")
    asm.op("tindex", "t", "t", 0, asm.constant(0))
    asm.op("atomic_add", "old", "t", "id")
    asm.show("old")
    outcome = asm.outcome(GlobalArray.of(counter, dtypes.I32), grid=(2, 1, 1), block=(2, 1, 1))
    assert [values for _, values in records(outcome)] == [[10], [10], [11], [13]]
    assert counter[0] == 16


def test_atomics_need_a_pointer_that_says_so():
    asm = Kernel()
    asm.pointer("x", dtypes.I32, 1, stored=False)
    asm.op("tptr", "t", "x")
    asm.op("tindex", "t", "t", 0, asm.constant(0))
    asm.op("atomic_add", "old", "t", asm.constant(1))
    assert fault(asm, GlobalArray.of(np.zeros(1, np.int32), dtypes.I32))[0] == "space"


def test_bits_of_a_float_are_no_integer():
    asm = buffer_kernel((1,), dtype=dtypes.F32, space="L2")
    asm.op("tindex", "u", "t", 0, asm.constant(0))
    asm.op("atomic_xor", "old", "u", asm.constant(1))
    assert fault(asm)[0] == "type"


def test_l2_is_the_blocks_and_l1_the_threads():
    asm = buffer_kernel((1,), space="L2")
    c = asm.constant
    asm.buffer("own", "L1", dtypes.I32, (1,))
    asm.op("tbuf", "own", "own", c(0), 0)
    for view in ("t", "own"):
        asm.op("lds", "x", view, c(0), c(0), c(0))
        asm.op("iadd", "x", "x", c(1))
        asm.op("sts", view, c(0), c(0), c(0), "x")
        asm.show("x")
    outcome = asm.outcome(grid=(2, 1, 1), block=(3, 1, 1))
    assert [values[0] for _, values in records(outcome)] == [1, 1, 2, 1, 3, 1] * 2


def test_barriers_order_threads():
    asm = buffer_kernel((4,), space="L2")
    c = asm.constant
    asm.op("special", "id", "local_id")
    asm.op("sts", "t", "id", c(0), c(0), "id")
    asm.op("barrier")
    asm.op("isub", "other", c(3), "id")
    asm.op("lds", "x", "t", "other", c(0), c(0))
    asm.show("x")
    assert [values[0] for _, values in records(asm.outcome(block=(4, 1, 1)))] == [3, 2, 1, 0]


@pytest.mark.parametrize("barrier", ["barrier", "gridbarrier"])
def test_divergent_barriers(barrier):
    asm = Kernel()
    asm.op("special", "id", "thread_id")
    asm.op("brz", "id", "out")
    asm.op(barrier)
    asm.label("out")
    kind, where = fault(asm, block=(3, 1, 1))
    assert kind == "barrier"
    assert (where.pc, where.thread, where.values[2]) == (2, 1, 1)


def test_barriers_of_two_kinds_do_not_meet():
    asm = Kernel()
    asm.op("special", "id", "thread_id")
    asm.op("brz", "id", "grid")
    asm.op("barrier")
    asm.op("end")
    asm.label("grid")
    asm.op("gridbarrier")
    kind, where = fault(asm, block=(2, 1, 1))
    assert (kind, where.thread, where.values) == ("barrier", 0, (1, 1, 0, 0))


def test_grid_barriers_order_blocks():
    cells = np.zeros(4, np.int32)
    asm = Kernel()
    asm.pointer("x", dtypes.I32, 1)
    c = asm.constant
    asm.op("special", "id", "thread_id")
    asm.op("tptr", "t", "x")
    asm.op("tindex", "u", "t", 0, "id")
    asm.op("atomic_exchange", "old", "u", "id")
    asm.op("gridbarrier")
    asm.op("isub", "other", c(3), "id")
    asm.op("tindex", "u", "t", 0, "other")
    asm.op("atomic_add", "x", "u", c(0))
    asm.show("x")
    outcome = asm.outcome(GlobalArray.of(cells, dtypes.I32), grid=(4, 1, 1))
    assert [values[0] for _, values in records(outcome)] == [3, 2, 1, 0]


def test_the_first_fault_is_the_lowest_threads():
    """Thread 1 faults while thread 0 still counts; thread 0's fault comes later but is the first in order."""
    asm = Kernel()
    c = asm.constant
    asm.op("special", "id", "thread_id")
    asm.op("brnz", "id", "bad")
    asm.label("count")
    asm.op("iadd", "i", "i", c(1))
    asm.op("blt", "i", c(50), "count")
    asm.label("bad")
    asm.op("assert", c(0), "no")
    kind, where = fault(asm, block=(2, 1, 1), slice_jumps=7)
    assert (kind, where.thread) == ("assert", 0)


def test_a_thread_that_waits_for_another_gets_it_by_slices():
    asm = buffer_kernel((1,), space="L2")
    c = asm.constant
    asm.op("special", "id", "local_id")
    asm.op("brnz", "id", "second")
    asm.label("spin")
    asm.op("lds", "x", "t", c(0), c(0), c(0))
    asm.op("brz", "x", "spin")
    asm.show("x")
    asm.op("end")
    asm.label("second")
    asm.op("sts", "t", c(0), c(0), c(0), c(9))
    assert records(asm.outcome(block=(2, 1, 1), slice_jumps=10)) == [(0, [9])]


def test_an_endless_kernel_times_out():
    asm = Kernel()
    asm.label("again")
    asm.op("jmp", "again")
    assert fault(asm, budget_s=0.05)[0] == "timeout"


def test_events_that_were_never_issued():
    asm = Kernel()
    asm.op("wait", asm.constant(0))
    asm.op("wait", asm.constant(1))
    kind, where = fault(asm)
    assert (kind, where.pc, where.values[:2]) == ("event", 1, (1, 0))
    asm = Kernel()
    asm.op("wait", asm.constant(-1))
    assert fault(asm)[0] == "event"


def test_prints_come_in_the_order_of_barriers_and_threads():
    asm = Kernel()
    asm.op("special", "id", "thread_id")
    asm.show("id")
    asm.op("barrier")
    asm.show("id")
    outcome = asm.outcome(block=(3, 1, 1))
    assert [thread for thread, _ in records(outcome)] == [0, 1, 2, 0, 1, 2]


def test_prints_end_at_the_fault():
    asm = Kernel()
    asm.op("special", "id", "thread_id")
    asm.show("id")
    asm.op("barrier")
    asm.show("id")
    asm.op("ine", "good", "id", asm.constant(1))
    asm.op("assert", "good", "no")
    outcome = asm.outcome(block=(3, 1, 1))
    assert [thread for thread, _ in records(outcome)] == [0, 1, 2, 0, 1]


def test_prints_have_a_limit():
    asm = buffer_kernel((1 << 17,))
    asm.label("again")
    asm.op("printtile", "t")
    asm.op("print", "much")
    asm.op("iadd", "i", "i", asm.constant(1))
    asm.op("blt", "i", asm.constant(3), "again")
    outcome = asm.outcome()
    assert len(outcome.prints) < 1 << 20
    assert outcome.dropped == 2
