"""What lowering makes of scalars, control, views and tiles, and the tables of the program."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topscc.sketch import Sketch, names, part, run
from tops_kit.engine.fault import KernelFault
from tops_kit.isa.dtypes import BF16, BOOL, F16, F32, I8, I32
from tops_kit.isa.program import Program, SourceFile
from tops_kit.isa.verify import verify
from tops_kit.topscc.builder import Builder
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.lower import lower

pytestmark = [pytest.mark.smoke, pytest.mark.filterwarnings("ignore:kernels run on the Python oracle")]


def outputs(count: int = 1) -> np.ndarray:
    return np.zeros(count, np.int32)


def put(k: Sketch, y: object, place: int, value: object) -> None:
    """y[place] = value, an i32."""
    k.store(k.index(y, [part(place, place + 1)]), k.full(I32, (1,), value))


def results(k: Sketch, count: int, *arguments: object, **options: object) -> list[int]:
    """Run a kernel whose first parameter is an i32 array of results."""
    y = outputs(count)
    run(k.program(), y, *arguments, **options)
    return y.tolist()


# scalars


@pytest.mark.parametrize(
    ("name", "a", "b", "wanted"),
    [("add", 2147483647, 1, -2147483648), ("floordiv", -7, 2, -4), ("mod", -7, 2, 1), ("shl", 1, 33, 2),
     ("shr", -8, 1, -4), ("xor", 6, 3, 5), ("min", -1, 3, -1), ("max", -1, 3, 3)],
)  # fmt: skip
def test_integer_operations(name: str, a: int, b: int, wanted: int) -> None:
    k = Sketch()
    y, n = k.pointer("y", I32, 1), k.scalar("n", I32)
    put(k, y, 0, k.binary(name, k.read(n), b))
    put(k, y, 1, k.binary(name, k.cast(a, I32), b))  # known when compiling: the same
    assert results(k, 2, a) == [wanted, wanted]


def test_float_operations() -> None:
    k = Sketch()
    y, a = k.pointer("y", F32, 1), k.scalar("a", F32)
    v = k.read(a)
    values = [
        k.binary("floordiv", v, 2.0),
        k.binary("mod", v, 2.0),
        k.binary("div", v, 4),
        k.unary("floor", v),
        k.unary("sqrt", k.unary("abs", v)),
        k.fma(v, 2.0, 1.0),
        k.cast(k.cast(v, I32), F32),
        k.cast(k.binary("mul", v, 0.1), F16),
        k.cast(k.binary("mul", v, 0.1), BF16),
        k.select(k.compare("lt", v, 0), 1.0, 2.0),
        k.cast(k.cast(k.binary("mul", v, 100), I8), F32),
    ]
    for place, value in enumerate(values):
        k.store(k.index(y, [part(place, place + 1)]), k.full(F32, (1,), value))
    out = np.zeros(len(values), np.float32)
    run(k.program(), out, -6.25)
    half = np.float32(np.float16(np.float32(-6.25) * np.float32(0.1)))
    assert out[:7].tolist() == [-4.0, 1.75, -1.5625, -7.0, 2.5, -11.5, -6.0]
    assert out[7] == half and abs(out[8] + 0.625) < 0.004 and out[9] == 1.0 and out[10] == -128.0


# control


def test_a_counting_loop_tests_and_jumps_in_one_instruction() -> None:
    k = Sketch()
    y, n = k.pointer("y", I32, 1), k.scalar("n", I32)
    total = k.declare("total", 0)
    i = k.begin_range("i", 0, k.read(n), 3, assigns=[total])
    k.assign(total, k.binary("add", k.read(total), k.read(i)))
    k.end_range()
    put(k, y, 0, k.read(total))
    program = k.program()
    assert [name for name in names(program) if name[0] == "b" and name != "barrier"] == ["bge", "blt"]
    assert "jmp" not in names(program)
    assert results(k, 1, 10) == [0 + 3 + 6 + 9]
    assert results(k, 1, 0) == [0]
    assert results(k, 1, -5) == [0]


def test_a_loop_downwards() -> None:
    k = Sketch()
    y, n = k.pointer("y", I32, 1), k.scalar("n", I32)
    seen = k.declare("seen", 0)
    i = k.begin_range("i", k.read(n), 1, -2, assigns=[seen])
    k.assign(seen, k.binary("add", k.binary("mul", k.read(seen), 10), k.read(i)))
    k.end_range()
    put(k, y, 0, k.read(seen))
    assert results(k, 1, 8) == [8642]
    assert results(k, 1, 1) == [0]


def test_assigning_the_loop_variable_does_not_change_the_rounds() -> None:
    k = Sketch()
    y = k.pointer("y", I32, 1)
    total = k.declare("total", 0)
    i = k.begin_range("i", 0, 3, 1)
    k.assign(i, k.binary("add", k.read(i), 10))
    k.assign(total, k.binary("add", k.read(total), k.read(i)))
    k.end_range()
    put(k, y, 0, k.read(total))
    assert results(k, 1) == [33]


def test_a_step_that_turns_out_not_to_be_positive_is_a_fault() -> None:
    k = Sketch()
    k.pointer("y", I32, 1)
    n = k.scalar("n", I32)
    k.begin_range("i", 0, 10, k.read(n), assigns=[])
    k.end_range()
    with pytest.raises(KernelFault, match="the step of a range must be positive"):
        results(k, 1, 0)


def test_while_break_continue() -> None:
    k = Sketch()
    y, n = k.pointer("y", I32, 1), k.scalar("n", I32)
    i, odd = k.declare("i", 0), k.declare("odd", 0)
    k.begin_loop(assigns=[i, odd])
    k.loop_condition(k.compare("lt", k.read(i), k.read(n)))
    k.assign(i, k.binary("add", k.read(i), 1))
    k.begin_if(k.compare("eq", k.binary("mod", k.read(i), 2), 0))
    k.continue_()
    k.end_if()
    k.begin_if(k.compare("gt", k.read(i), 7))
    k.break_()
    k.end_if()
    k.assign(odd, k.binary("add", k.read(odd), k.read(i)))
    k.end_loop()
    put(k, y, 0, k.read(odd))
    put(k, y, 1, k.read(i))
    assert results(k, 2, 100) == [1 + 3 + 5 + 7, 9]
    assert results(k, 2, 4) == [1 + 3, 4]


def test_the_right_side_of_and_and_or_runs_only_when_it_is_needed() -> None:
    k = Sketch()
    y, n = k.pointer("y", I32, 1), k.scalar("n", I32)
    m = k.read(n)
    safe = k.logical("and", k.compare("ne", m, 0), lambda: k.compare("gt", k.binary("floordiv", 10, m), 2))
    k.begin_if(safe)
    put(k, y, 0, 1)
    k.end_if()
    kept = k.declare(
        "kept", k.logical("or", k.compare("eq", m, 0), lambda: k.compare("eq", k.binary("mod", 10, m), 0))
    )
    put(k, y, 1, k.select(k.read(kept), 7, 8))
    assert results(k, 2, 0) == [0, 7]
    assert results(k, 2, 3) == [1, 8]
    assert results(k, 2, 5) == [0, 7]


def test_conditional_expressions_run_one_side() -> None:
    k = Sketch()
    y, n = k.pointer("y", I32, 1), k.scalar("n", I32)
    m = k.read(n)
    put(k, y, 0, k.conditional(k.compare("eq", m, 0), lambda: -1, lambda: k.binary("floordiv", 12, m)))
    assert results(k, 1, 0) == [-1]
    assert results(k, 1, 4) == [3]


def test_inlined_functions_return_to_their_caller() -> None:
    k = Sketch()
    y, n = k.pointer("y", I32, 1), k.scalar("n", I32)
    for place in range(2):
        k.begin_inline("sign")
        k.begin_if(k.compare("lt", k.read(n), place))
        result = k.declare("result", -1)
        k.return_()
        k.end_if()
        k.assign(result, 1)
        k.return_()
        k.end_inline()
        put(k, y, place, k.read(result))
    assert results(k, 2, 0) == [1, -1]


def test_a_return_in_a_loop_ends_the_kernel() -> None:
    k = Sketch()
    y = k.pointer("y", I32, 1)
    i = k.begin_range("i", 0, 10, 1, assigns=[])
    k.begin_if(k.compare("eq", k.read(i), 2))
    k.return_()
    k.end_if()
    k.store(k.index(y, [part(k.read(i), k.binary("add", k.read(i), 1))]), k.full(I32, (1,), 1))
    k.end_range()
    put(k, y, 5, 9)
    assert results(k, 6) == [1, 1, 0, 0, 0, 0]


def test_both_sides_of_a_swap_are_evaluated_first() -> None:
    k = Sketch()
    y = k.pointer("y", I32, 1)
    a, b = k.declare("a", k.special("num_threads")), k.declare("b", k.special("block_size"))
    k.assign(b, 5)
    first, second = k.read(b), k.binary("add", k.read(a), k.read(b))
    k.assign(a, first)
    k.assign(b, second)
    put(k, y, 0, k.read(a))
    put(k, y, 1, k.read(b))
    assert results(k, 2) == [5, 6]


def test_what_was_read_before_an_assignment_stays() -> None:
    k = Sketch()
    y = k.pointer("y", F32, 1)
    t = k.declare("t", k.full(F32, (4,), 1.0))
    old = k.read(t)
    k.assign(t, k.full(F32, (4,), 2.0))
    k.store(y, k.binary("sub", k.binary("mul", k.read(t), 10.0), old))
    out = np.zeros(4, np.float32)
    run(k.program(), out)
    assert out.tolist() == [19.0] * 4


def test_a_sum_that_a_variable_holds_is_not_computed_twice_nor_copied() -> None:
    k = Sketch()
    y = k.pointer("y", I32, 1)
    i = k.begin_range("i", 0, 6, 2, assigns=[])
    following = k.declare("following", k.binary("add", k.read(i), 2))
    two = part(k.read(i), k.binary("add", k.read(i), 2))
    k.store(k.index(y, [two]), k.full(I32, (2,), k.read(following)))
    k.end_range()
    program = k.program()
    assert names(program).count("iadd") == 2  # i + 2, and the next i
    assert results(k, 6) == [2, 2, 4, 4, 6, 6]


def test_long_code_without_loops_is_compiled() -> None:
    k = Sketch()
    x, y, n = k.pointer("x", I32, 1), k.pointer("y", I32, 1), k.declare("n", k.special("num_threads"))
    low = k.declare("low", k.read(n))
    for step in range(600):
        k.assign(n, k.binary("add", k.binary("add", k.read(n), k.special("thread_id")), step))
        k.assign(low, k.binary("min", k.read(low), k.read(n)))
    some = k.load(k.index(x, [part(0, k.binary("min", k.read(low), 4))]))
    k.store(k.index(y, [part(0, k.binary("min", k.read(low), 4))]), k.binary("add", some, k.read(n)))
    x_, y_ = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    run(k.program(), x_, y_)
    assert y_.tolist() == [1 + 600 * 599 // 2, 0, 0, 0]


# views and tiles


def test_views_of_whole_arrays_and_constant_slots_are_made_once_at_the_entry() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 1)
    row = k.buffer("row", "L1", F32, (8,), slots=2)
    k.begin_range("i", 0, 4, 1, assigns=[])
    k.copy(k.slot(row, 1), k.index(x, [part(0, 8)]))
    k.write(k.index(k.slot(row, 1), [part(0, 4)]), 0.0)
    k.copy(k.index(x, [part(0, 8)]), k.slot(row, 1))
    k.end_range()
    program = k.program()
    loop = names(program).index("tslice", names(program).index("imov"))
    assert names(program)[loop:].count("tbuf") == 0
    assert names(program)[loop:].count("tptr") == 0
    assert names(program)[loop:].count("tslice") == 1  # x's part, shared; the buffer's is at the entry
    x_ = np.arange(8, dtype=np.float32)
    run(program, x_)
    assert x_.tolist() == [0, 0, 0, 0, 4, 5, 6, 7]


def test_temporaries_share_memory_and_work_in_place() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 1)
    t = k.declare("t", k.load(k.index(x, [part(0, 8)])))
    for _ in range(5):
        k.assign(t, k.binary("add", k.unary("abs", k.binary("mul", k.read(t), 2.0)), 1.0))
    k.copy(k.index(x, [part(0, 8)]), k.read(t))
    program = k.program()
    assert [b.name for b in program.buffers] == ["t"]
    assert "tcopy" not in names(program)
    values = np.arange(-4, 4, dtype=np.float32)
    wanted = values.copy()
    for _ in range(5):
        wanted = np.abs(wanted * 2) + 1
    run(program, values)
    np.testing.assert_array_equal(values, wanted)


def test_a_result_of_another_shape_is_not_made_over_what_it_reads() -> None:
    k = Sketch()
    x, n = k.pointer("x", F32, 2), k.read(k.scalar("n", I32))
    rows = k.binary("min", n, 4)
    t = k.declare("t", k.load(k.index(x, [part(0, rows), part(0, 8)])))  # (<=4, 8); one row broadcasts
    k.assign(t, k.binary("add", k.read(t), k.full(F32, (4, 8), 1.0)))
    k.copy(k.index(x, [part(4, 8), part(0, 8)]), k.read(t))
    x_ = np.arange(64, dtype=np.float32).reshape(8, 8)
    wanted = x_[:1] + np.ones((4, 8), np.float32)
    run(k.program(), x_, 1)
    np.testing.assert_array_equal(x_[4:], wanted)


def test_reductions_read_all_of_a_variable_before_it_changes() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 2)
    t = k.declare("t", k.load(k.index(x, [part(0, 4), part(0, 1)])))
    k.assign(t, k.reduce("sum", k.binary("add", k.read(t), k.full(F32, (4, 3), 1.0)), 1))
    k.copy(k.index(x, [part(0, 4), part(1, 2)]), k.read(t))
    x_ = np.arange(8, dtype=np.float32).reshape(4, 2)
    wanted = (x_[:, :1] + 1) * 3
    run(k.program(), x_)
    np.testing.assert_array_equal(x_[:, 1:], wanted)


def test_scalars_in_select_are_tiles_made_at_the_entry() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 1)
    part_ = k.index(x, [part(0, 8)])
    k.begin_range("i", 0, 2, 1, assigns=[])
    t = k.load(part_)
    k.copy(part_, k.select(k.compare("lt", t, 0.0), 0.0, t))
    k.end_range()
    program = k.program()
    assert names(program).index("tfill") < names(program).index("dma")
    values = np.arange(-4, 4, dtype=np.float32)
    run(program, values)
    assert values.tolist() == [0, 0, 0, 0, 0, 1, 2, 3]


def test_elements_need_no_view_of_their_own() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 2)
    tile = k.load(k.index(x, [part(0, 4), part(0, 4)]))
    row = k.slot(k.buffer("row", "L1", F32, (4,)), 0)
    i = k.begin_range("i", 0, 4, 1, assigns=[])
    k.set_element(row, [k.read(i)], k.binary("add", k.index(tile, [k.read(i), k.read(i)]), 1))
    k.end_range()
    k.copy(k.index(x, [0, part(0, 4)]), row)
    program = k.program()
    assert names(program).count("tindex") == 1
    x_ = np.arange(16, dtype=np.float32).reshape(4, 4)
    run(program, x_)
    assert x_[0].tolist() == [1, 6, 11, 16]


def test_gather_scatter_cumsum_iota_argmax() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 1), k.pointer("y", F32, 2)
    t = k.load(k.index(x, [part(0, 8)]))
    order = k.iota(I32, (8,), 0, start=7, step=-1)
    turned = k.gather(t, order, 0)
    k.store(k.index(y, [0]), turned)
    k.store(k.index(y, [1]), k.cumsum(t, 0))
    bins = k.declare("bins", k.full(F32, (8,), 0.0))
    k.scatter(bins, k.binary("floordiv", order, 2), t, 0, add=True)
    k.scatter(bins, k.full(I32, (1,), 7), k.full(F32, (1,), 9.0), 0)
    k.store(k.index(y, [2]), k.read(bins))
    k.store(k.index(y, [3]), k.binary("add", k.full(F32, (8,), 0.0), k.cast(k.reduce("argmax", t, 0), F32)))
    x_ = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.float32)
    y_ = np.zeros((4, 8), np.float32)
    run(k.program(), x_, y_)
    np.testing.assert_array_equal(y_[0], x_[::-1])
    np.testing.assert_array_equal(y_[1], np.cumsum(x_))
    np.testing.assert_array_equal(y_[2], [8, 14, 5, 4, 0, 0, 0, 9])
    assert set(y_[3]) == {5}


def test_reshapes_and_permutations_are_views() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 2), k.pointer("y", F32, 2)
    b = k.slot(k.buffer("b", "L1", F32, (4, 6)), 0)
    k.copy(b, x)
    k.copy(k.index(y, [part(0, 3)]), k.reshape(b, (3, -1)))
    k.copy(k.index(y, [part(3, 5), part(0, 6)]), k.reshape(k.index(b, [part(2, 4)]), (2, 6)))
    k.copy(k.index(y, [part(5, 9), part(0, 6)]), k.transpose(k.permute(k.transpose(b), (0, 1))))
    program = k.program()
    assert "tcopy" not in names(program)
    x_, y_ = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((9, 8), np.float32)
    run(program, x_, y_)
    np.testing.assert_array_equal(y_[:3], x_.reshape(3, 8))
    np.testing.assert_array_equal(y_[3:5, :6], x_[2:])
    np.testing.assert_array_equal(y_[5:, :6], x_)


def test_vectors() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 1)
    b = k.slot(k.buffer("b", "L1", F32, (64,)), 0)
    k.copy(b, x)
    i = k.begin_range("i", 0, 64, 32, assigns=[])
    v = k.declare("v", k.vector_load(b, k.read(i)))
    doubled = k.fma(k.read(v), 2.0, k.vector_iota(F32))
    k.vector_store(b, k.read(i), k.select(k.compare("gt", k.read(v), 40.0), doubled, k.read(v)))
    k.end_range()
    k.copy(x, b)
    x_ = np.arange(64, dtype=np.float32)
    wanted = np.where(x_ > 40, x_ * 2 + x_ % 32, x_)
    run(k.program(), x_)
    np.testing.assert_array_equal(x_, wanted)


def test_bool_tiles_and_their_reductions() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 1), k.pointer("y", BOOL, 1)
    t = k.load(k.index(x, [part(0, 8)]))
    low, high = k.compare("lt", t, 2.0), k.compare("gt", t, 5.0)
    outside = k.binary("or", low, high)
    k.store(k.index(y, [part(0, 8)]), outside)
    k.store(k.index(y, [part(8, 9)]), k.reduce("all", k.unary("invert", outside), 0))
    y_ = np.zeros(9, np.bool_)
    run(k.program(), np.arange(8, dtype=np.float32), y_)
    assert y_.tolist() == [True, True, False, False, False, False, True, True, False]


# the outside


def test_prints_and_assertions() -> None:
    k = Sketch()
    n = k.scalar("n", I32)
    t = k.full(F32, (2,), 1.5)
    k.print_(
        [
            "n = ",
            k.read(n),
            " {",
            k.compare("lt", k.read(n), 5),
            "} ",
            t,
            " ",
            (k.cast(k.read(n), F32), ".2f"),
            (7, "03"),
        ]
    )
    k.assert_(k.compare("lt", k.read(n), 5), "n is too large")
    program = k.program()
    assert run(program, 3).output == ["n = 3 {True} [1.5, 1.5] 3.00007"]
    with pytest.raises(KernelFault, match="n is too large"):
        run(program, 6)


def test_atomics_give_the_old_value() -> None:
    k = Sketch()
    y, old = k.pointer("y", I32, 1), k.pointer("old", I32, 1)
    before = k.atomic("add", k.index(y, [0]), k.binary("add", k.special("thread_id"), 1))
    k.atomic("max", k.index(y, [1]), before)
    k.atomic("cas", k.index(y, [2]), 5, expected=0)
    i = k.special("thread_id")
    k.store(k.index(old, [part(i, k.binary("add", i, 1))]), k.full(I32, (1,), before))
    y_, old_ = outputs(3), outputs(4)
    run(k.program(), y_, old_, grid=2, block=2)
    assert y_.tolist() == [10, 6, 5] and old_.tolist() == [0, 1, 3, 6]


# tables


def test_the_programs_tables_say_where_everything_is() -> None:
    source = SourceFile("k.py", "\n".join(f"line {n}" for n in range(1, 12)))

    def at(line: int, parent: Where | None = None) -> Where:
        return Where(source, line, 0, line, 4, parent)

    b = Builder("k", at(1), constexprs={"BLOCK": 8})
    x = b.pointer("x", F32, 1, at(1))
    y = b.pointer("y", F32, 1, at(1))
    counts = b.pointer("counts", I32, 1, at(1))
    scale = b.scalar("scale", F32, at(1))
    row = b.buffer("row", "L1", F32, (8,), at(2), slots=2)
    b.copy(b.slot(row, 0, at(3)), b.index(x, [part(0, 8)], at(3)), at(3))
    call = at(4)
    b.begin_inline("helper", call)
    t = b.declare(
        "t",
        b.binary("mul", b.slot(row, 0, at(8, call)), b.read(scale, at(8, call)), at(8, call)),
        at(8, call),
    )
    b.return_(at(9, call))
    b.end_inline(call)
    b.store(b.index(y, [part(0, 8)], at(5)), b.read(t, at(5)), at(5))
    b.atomic("add", b.index(counts, [0], at(6)), 1, at(6))
    program: Program = lower(b.finish(at(7)))
    verify(program)
    flags = {p.name: (p.kind, p.loaded, p.stored, p.atomic) for p in program.parameters}
    assert flags == {
        "x": ("pointer", True, False, False), "y": ("pointer", False, True, False),
        "counts": ("pointer", False, False, True), "scale": ("scalar", False, False, False),
    }  # fmt: skip
    assert program.constexprs == {"BLOCK": 8} and program.files == (source,)
    variables = {v.name: v for v in program.variables}
    assert variables["row"].kind == "buffer" and variables["row"].shape == (8,)
    assert variables["scale"].kind == "scalar" and variables["scale"].first_pc <= variables["t"].first_pc
    assert variables["t"].kind == "tile" and variables["t"].shape == (8,)
    multiply = names(program).index("tmul_s")
    location = program.locations[program.location_of[multiply]]
    assert (location.line, program.locations[location.parent].line) == (8, 4)
    assert variables["t"].first_pc == multiply + 1
    assert variables["t"].last_pc < names(program).index("dma", multiply)
    assert [(buffer.name, buffer.temporary) for buffer in program.buffers] == [("row", False), ("t", True)]
    assert program.buffers[1].offset_bytes == 256


def test_programs_are_equal_whenever_they_are_compiled() -> None:
    def compiled() -> Program:
        k = Sketch()
        x = k.pointer("x", F32, 1)
        t = k.declare("t", k.load(k.index(x, [part(0, 8)])))
        k.store(k.index(x, [part(0, 8)]), k.binary("add", k.read(t), k.binary("mul", k.read(t), 3.0)))
        return k.program()

    a, b = compiled(), compiled()
    np.testing.assert_array_equal(a.code, b.code)
    assert (a.buffers, a.constants, a.variables) == (b.buffers, b.constants, b.variables)
