"""What the builder makes of operands: types, shapes, what is known of extents, what is shared and folded."""

from __future__ import annotations

import pytest

from tests.topscc.sketch import Sketch, part
from tops_kit.isa.dtypes import BOOL, F16, F32, I8, I32
from tops_kit.topscc import tree
from tops_kit.topscc.kinds import AtMost, ScalarKind, TileKind, VectorKind, ViewKind, shape_text
from tops_kit.topscc.tree import Constant, Value
from tops_kit.topscc.tree_text import tree_text

pytestmark = pytest.mark.smoke


def kind_of(value: object) -> object:
    assert isinstance(value, Value)
    return value.kind


def shape_of(value: object) -> str:
    kind = kind_of(value)
    assert isinstance(kind, TileKind | ViewKind)
    return shape_text(kind.shape)


def test_numbers_alone_are_computed_as_python_does() -> None:
    k = Sketch()
    assert k.binary("add", 3, 4) == 7
    assert k.binary("div", 1, 4) == 0.25
    assert k.binary("floordiv", -7, 2) == -4
    assert k.binary("max", 2, 3.5) == 3.5
    assert k.unary("neg", 5) == -5
    assert k.unary("invert", True) is False
    assert k.compare("lt", 1, 2) is True
    assert k.select(True, 1, 2) == 1
    assert k.truth(0.0) is False


def test_functions_of_numbers_are_left_to_the_machine() -> None:
    k = Sketch()
    assert kind_of(k.unary("exp", 1)) == ScalarKind(F32)
    assert kind_of(k.fma(1.0, 2, 3)) == ScalarKind(F32)


def test_scalars_meet_in_the_wider_type() -> None:
    k = Sketch()
    i, f = k.special("thread_id"), k.read(k.scalar("f", F32))
    b = k.compare("lt", i, 1)
    assert kind_of(k.binary("add", i, 1)) == ScalarKind(I32)
    assert kind_of(k.binary("mul", i, 0.5)) == ScalarKind(F32)
    assert kind_of(k.binary("mul", i, f)) == ScalarKind(F32)
    assert kind_of(k.binary("add", b, b)) == ScalarKind(I32)
    assert kind_of(k.binary("and", b, True)) == ScalarKind(BOOL)
    assert kind_of(k.cast(f, F16)) == ScalarKind(F32)
    assert kind_of(k.cast(f, I8)) == ScalarKind(I32)
    assert kind_of(k.read(k.scalar("h", F16))) == ScalarKind(F32)


def test_literals_and_scalars_take_the_type_of_a_tile() -> None:
    k = Sketch()
    half, small = k.full(F16, (4, 8), 0), k.full(I8, (4, 8), 1)
    assert kind_of(k.binary("mul", half, 2)) == TileKind(F16, (4, 8))
    assert kind_of(k.binary("mul", k.special("thread_id"), half)) == TileKind(F16, (4, 8))
    assert kind_of(k.binary("add", small, True)) == TileKind(I8, (4, 8))
    assert kind_of(k.compare("lt", half, 0.5)) == TileKind(BOOL, (4, 8))
    assert kind_of(k.select(k.compare("lt", half, 0.5), 0.0, 1.0)) == TileKind(F32, (4, 8))


def test_shapes_broadcast_as_in_numpy() -> None:
    k = Sketch()
    a = k.full(F32, (4, 1), 0.0)
    assert shape_of(k.binary("add", a, k.full(F32, (8,), 0.0))) == "(4, 8)"
    assert shape_of(k.binary("add", k.full(F32, (2, 4, 8), 0.0), a)) == "(2, 4, 8)"
    assert shape_of(k.reduce("sum", k.full(F32, (4, 8), 0.0), 1)) == "(4, 1)"
    assert shape_of(k.reduce("max", k.full(F32, (2, 4, 8), 0.0), None)) == "(1, 1, 1)"
    assert shape_of(k.matmul(k.full(F16, (4, 8), 0.0), k.transpose(k.full(F16, (6, 8), 0.0)))) == "(4, 6)"
    assert shape_of(k.gather(k.full(F32, (9, 8), 0.0), k.iota(I32, (5, 1), 0), 0)) == "(5, 8)"


@pytest.mark.parametrize(
    ("name", "dtype", "wanted"),
    [("sum", F16, "f32"), ("sum", I8, "i32"), ("max", F16, "f16"), ("argmax", F32, "i32"),
     ("any", BOOL, "bool"), ("sum", BOOL, "i32")],
)  # fmt: skip
def test_reductions_have_the_type_of_their_meaning(name: str, dtype: object, wanted: str) -> None:
    k = Sketch()
    kind = kind_of(k.reduce(name, k.full(dtype, (4, 8), False if dtype == BOOL else 0), 1))
    assert isinstance(kind, TileKind) and kind.dtype.name == wanted


def test_extents_of_slices_are_known_where_their_ends_differ_by_a_number() -> None:
    k = Sketch()
    x, n = k.pointer("x", F32, 2), k.read(k.scalar("n", I32))
    start = k.binary("mul", k.special("thread_id"), 64)
    end = k.binary("add", start, 64)
    assert shape_of(k.index(x, [part(start, end)])) == "(64, ?)"
    assert shape_of(k.index(x, [part(start, k.binary("min", end, n))])) == "(<=64, ?)"
    assert shape_of(k.index(x, [part(start, k.binary("min", n, end)), part(None, 8)])) == "(<=64, 8)"
    again = k.binary("mul", k.binary("add", k.special("thread_id"), 1), 64)
    assert shape_of(k.index(x, [part(start, again)])) == "(64, ?)"
    assert shape_of(k.index(x, [part(start, end, 2), 3])) == "(32,)"
    assert shape_of(k.index(x, [part(0, n)])) == "(?, ?)"


def test_extents_are_followed_through_variables_and_loops() -> None:
    k = Sketch()
    x = k.pointer("x", F32, 1)
    start = k.declare("start", k.special("thread_id"))
    end = k.declare("end", k.binary("add", k.read(start), 16))
    other = k.declare("other", 0)
    k.begin_range("i", 0, 4, 1, assigns=[other])
    assert shape_of(k.index(x, [part(k.read(start), k.read(end))])) == "(16,)"
    k.assign(other, 1)
    k.end_range()
    k.begin_range("i", 0, 4, 1, assigns=[start])
    assert shape_of(k.index(x, [part(k.read(start), k.read(end))])) == "(?,)"
    k.assign(start, k.binary("add", k.read(start), 1))
    k.end_range()
    assert shape_of(k.index(x, [part(k.read(start), k.read(end))])) == "(?,)"


def test_a_slice_of_something_known_has_a_bound() -> None:
    k = Sketch()
    row = k.slot(k.buffer("row", "L1", F32, (4, 64)), 0)
    n = k.read(k.scalar("n", I32))
    assert shape_of(k.index(row, [1, part(0, n)])) == "(<=64,)"
    assert shape_of(k.index(row, [part(1), part(8, n)])) == "(3, <=56)"
    assert shape_of(k.index(row, [-1, part(-8)])) == "(8,)"


def test_extents_of_sums_of_tails_are_the_same() -> None:
    k = Sketch()
    x, y = k.pointer("x", F32, 1), k.pointer("y", F32, 1)
    n = k.binary("min", k.read(k.scalar("n", I32)), 64)
    a, b = k.load(k.index(x, [part(0, n)])), k.load(k.index(y, [part(0, n)]))
    kind = kind_of(k.binary("add", a, b))
    assert isinstance(kind, TileKind) and kind.shape == kind_of(a).shape
    assert isinstance(kind.shape[0], AtMost) and kind.shape[0].key is not None


def test_equal_scalars_and_views_are_computed_once() -> None:
    k = Sketch()
    i = k.special("thread_id")
    row = k.buffer("row", "L1", F32, (8,), slots=2)
    assert k.binary("add", i, 1) is k.binary("add", i, 1)
    assert k.slot(row, k.binary("mod", i, 2)) is k.slot(row, k.binary("mod", i, 2))
    n = k.declare("n", k.clock())
    before = k.read(n)
    assert before is k.read(n)
    k.assign(n, k.clock())
    assert k.read(n) is not before


def test_what_a_branch_computed_is_not_used_after_it() -> None:
    k = Sketch()
    i = k.special("thread_id")
    k.begin_if(k.compare("lt", i, 1))
    inside = k.binary("add", i, 5)
    k.end_if()
    assert k.binary("add", i, 5) is not inside


def test_integer_operations_on_known_numbers_are_folded() -> None:
    k = Sketch()
    i = k.special("thread_id")
    seven = k.cast(7, I32)
    assert isinstance(k.binary("mul", seven, 3), Constant) and k.binary("mul", seven, 3).value == 21
    assert k.binary("add", i, 0) is i and k.binary("mul", 1, i) is i
    n = k.declare("n", 12)
    assert k.read(n).value == 12
    big = k.binary("mul", k.cast(1 << 30, I32), 4)
    assert big.value == 0  # wraps as the machine does


def test_branches_known_when_compiling_leave_one_side() -> None:
    k = Sketch()
    n = k.declare("n", 0)
    k.begin_if(k.compare("lt", 2, 1))
    k.assign(n, 1)
    k.begin_else()
    k.assign(n, 2)
    k.end_if()
    assert k.read(n).value == 2
    assert not any(isinstance(node, tree.If) for node in k.tree().body)


def test_nothing_is_built_after_a_return() -> None:
    k = Sketch()
    k.return_()
    assert not k.builder.reachable
    k.barrier()
    assert [type(node) for node in k.tree().body] == [tree.Return]


def test_a_variable_has_a_value_where_all_ways_gave_it_one() -> None:
    k = Sketch()
    k.begin_if(k.compare("lt", k.special("thread_id"), 1))
    v = k.declare("v", 1)
    k.begin_else()
    k.assign(v, 2)
    k.end_if()
    assert kind_of(k.read(v)) == ScalarKind(I32)
    k.begin_if(k.compare("lt", k.special("thread_id"), 1))
    k.return_()
    k.begin_else()
    w = k.declare("w", 1)
    k.end_if()
    assert k.builder.has_value(w)


def test_a_loop_left_only_by_break_gives_what_was_assigned_before_it() -> None:
    k = Sketch()
    k.begin_loop()
    k.loop_condition(True)
    v = k.declare("v", k.clock())
    k.begin_if(k.compare("gt", k.read(v), 3))
    k.break_()
    k.end_if()
    k.end_loop()
    assert k.builder.has_value(v)


def test_variables_take_parts_of_tiles_as_values_and_parts_of_buffers_as_views() -> None:
    k = Sketch()
    t = k.full(F32, (4, 8), 0.0)
    row = k.slot(k.buffer("row", "L1", F32, (4, 8)), 0)
    assert isinstance(k.declare("a", k.index(t, [part(0, 2)])).kind, TileKind)
    assert isinstance(k.declare("b", k.index(row, [part(0, 2)])).kind, ViewKind)
    assert k.declare("c", k.index(row, [0, 0])).kind == ScalarKind(F32)


def test_a_transposed_load_with_padding_may_reach_outside() -> None:
    k = Sketch()
    x, i = k.pointer("x", F32, 2), k.special("thread_id")
    window = k.transpose(k.index(x, [part(i, k.binary("add", i, 4)), part(-1, 7)], outside=True))
    assert shape_of(k.load(window, pad=0.0)) == "(8, 4)"
    later = k.index(x, [part(i, k.binary("add", i, 4)), part(0, 8)])
    assert shape_of(k.load(k.transpose(later), pad=0.0)) == "(8, 4)"


def test_vectors_go_with_scalars_of_their_type() -> None:
    k = Sketch()
    v = k.vector_splat(1.0, F32)
    assert kind_of(k.binary("mul", v, 2)) == VectorKind(F32)
    assert kind_of(k.compare("lt", v, 0.0)) == VectorKind(F32)
    assert kind_of(k.select(k.compare("lt", v, 0.0), 0.0, v)) == VectorKind(F32)
    assert kind_of(k.reduce("sum", v, None)) == ScalarKind(F32)


def test_the_tree_reads_like_the_kernel() -> None:
    k = Sketch("double")
    x, n = k.pointer("x", F32, 1), k.scalar("n", I32)
    i = k.begin_range("i", 0, k.read(n), 64, assigns=[])
    piece = k.index(x, [part(k.read(i), k.binary("min", k.binary("add", k.read(i), 64), k.read(n)))])
    k.store(piece, k.binary("mul", k.load(piece), 2.0))
    k.end_range()
    lines = [line.split("| ")[-1] for line in tree_text(k.tree()).splitlines()]
    assert lines == [
        "kernel double for s60",
        "  x: ptr(f32, 1)",
        "  n: i32",
        "  for i in range(0, n, 64):",
        "    %6: view f32 (<=64,) in L3 = x[i:min((i + 64), n)]",
        "    %7: tile f32 (<=64,) = load(%6)",
        "    store(%6, (%7 * 2.0))",
    ]
