"""What a person reads when a kernel is refused: place, source line, caret, reason, what to write instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.topscc.sketch import Sketch, part
from tops_kit.errors import UserError
from tops_kit.isa.dtypes import BOOL, F16, F32, I8, I32
from tops_kit.isa.program import SourceFile
from tops_kit.topscc.builder import Builder
from tops_kit.topscc.diagnostics import KernelError, Where
from tops_kit.topscc.target import Target

pytestmark = pytest.mark.smoke

SOURCE = SourceFile(
    "kernels.py",
    """@tops.kernel
def scale(x: tops.ptr(tops.f32), n: tops.i32):
    t = tops.load(x[0:64])
    y = t / n @ t
\treturn helper(y)
""",
)


def where(line: int, column: int, end: int, parent: Where | None = None) -> Where:
    return Where(SOURCE, line, column, line, end, parent)


def test_the_text_is_place_source_line_caret_hint_and_calls() -> None:
    call = where(5, 8, 17)
    error = KernelError(
        "f32 beside i32", where(4, 8, 13, call), "convert it", (("t begins here", where(3, 4, 5)),)
    )
    assert isinstance(error, UserError)
    assert str(error) == (
        "kernels.py:4:9: error: f32 beside i32\n"
        "        y = t / n @ t\n"
        "            ^^^^^\n"
        "  hint: convert it\n"
        "kernels.py:3:5: note: t begins here\n"
        "        t = tops.load(x[0:64])\n"
        "        ^\n"
        "kernels.py:5:9: inlined at\n"
        "    \treturn helper(y)\n"
        "    \t       ^^^^^^^^^"
    )


def test_a_span_of_several_lines_is_marked_to_the_end_of_its_first() -> None:
    error = KernelError("this", Where(SOURCE, 3, 8, 4, 5))
    assert str(error).splitlines()[1:] == ["        t = tops.load(x[0:64])", "            ^^^^^^^^^^^^^^^^^^"]


def test_a_place_that_the_source_does_not_have_leaves_the_excerpt_out() -> None:
    assert str(KernelError("gone", where(99, 0, 1))) == "kernels.py:99:1: error: gone"


def test_a_failed_call_says_the_line_it_stands_on() -> None:
    b = Builder("scale", where(1, 0, 4))
    x = b.pointer("x", F32, 1, where(2, 10, 31))
    with pytest.raises(KernelError) as caught:
        b.binary("add", x, 1.0, where(4, 8, 13))
    assert str(caught.value) == (
        "kernels.py:4:9: error: arithmetic works on L1; this is a view of f32 in L3\n"
        "        y = t / n @ t\n"
        "            ^^^^^\n"
        "  hint: load it first: tops.load(...)"
    )


Case = Callable[[Sketch], object]


def f32_tile(k: Sketch, *shape: int) -> object:
    return k.full(F32, shape or (4, 8), 0.0)


def i32_tile(k: Sketch, *shape: int) -> object:
    return k.full(I32, shape or (4, 8), 0)


def in_branch(k: Sketch) -> object:
    k.begin_if(k.compare("lt", k.special("thread_id"), 1))
    v = k.declare("v", 1)
    k.end_if()
    return k.read(v)


def after_loop(k: Sketch) -> object:
    i = k.begin_range("i", 0, 4, 1)
    k.end_range()
    return k.read(i)


def dynamic(k: Sketch) -> object:
    return k.read(k.scalar("m", I32))


GIVE_IT_A_VALUE = "give it a value on every way to this line, such as before the branch or loop: "

CASES: dict[str, tuple[Case, str, str]] = {
    "dtypes of tiles": (
        lambda k: k.binary("add", f32_tile(k), k.full(F16, (4, 8), 0.0)),
        "tiles of f32 and f16 don't go together",
        "convert one: .to(tops.f32) or .to(tops.f16)",
    ),
    "float literal beside an int tile": (
        lambda k: k.binary("mul", i32_tile(k), 3.5),
        "3.5 beside values of i32: they can't hold it",
        "convert the other side: .to(tops.f32)",
    ),
    "whole float literal beside an int tile": (
        lambda k: k.binary("mul", i32_tile(k), 2.0),
        "2.0 beside values of i32: they can't hold it",
        "write 2",
    ),
    "float scalar beside an int tile": (
        lambda k: k.binary("mul", i32_tile(k), k.cast(k.special("thread_id"), F32)),
        "an f32 beside a tile of i32",
        "convert the tile, .to(tops.f32), or the number, tops.i32(x)",
    ),
    "literal out of range": (
        lambda k: k.binary("add", k.full(I8, (4,), 0), 300),
        "300 does not fit i8 (-128 to 127)",
        "take a wider type: .to(tops.i32)",
    ),
    "extents": (
        lambda k: k.binary("add", f32_tile(k, 4, 8), f32_tile(k, 4, 6)),
        "extents 8 and 6 of axis 1 of (4, 8) and (4, 6) differ",
        "extents must be equal, or 1 where one side is repeated",
    ),
    "true division of ints": (
        lambda k: k.binary("div", k.special("thread_id"), 2),
        "/ of i32",
        "write // for the quotient rounded down, or convert: tops.f32(x)",
    ),
    "true division of bools": (
        lambda k: k.binary(
            "div", k.compare("lt", k.special("thread_id"), 2), k.compare("lt", k.special("thread_id"), 3)
        ),
        "/ of i32",
        "write // for the quotient rounded down, or convert: tops.f32(x)",
    ),
    "division by zero": (
        lambda k: k.binary("floordiv", k.special("thread_id"), 0),
        "integer division by zero",
        "test the divisor, or give it a value that is not 0",
    ),
    "literals that Python refuses": (
        lambda k: k.binary("floordiv", 1, 0),
        "1, 0: integer division or modulo by zero",
        "this is computed when compiling: give it other values",
    ),
    "exp of ints": (
        lambda k: k.unary("exp", i32_tile(k)),
        "exp of a tile of i32",
        "convert it: .to(tops.f32)",
    ),
    "bits of floats": (
        lambda k: k.binary("and", f32_tile(k), f32_tile(k)),
        "& of f32",
        "& is for ints and bools",
    ),
    "arithmetic on bools": (
        lambda k: k.binary("add", k.full(BOOL, (4,), True), k.full(BOOL, (4,), True)),
        "+ of tiles of bool",
        "convert them: .to(tops.i32)",
    ),
    "a tile as a condition": (
        lambda k: k.begin_if(f32_tile(k)),
        "a tile of f32 is no condition",
        "reduce it to one element, tops.any(t)[0, 0], or choose by elements: tops.where(t, a, b)",
    ),
    "an event as a number": (
        lambda k: k.binary("add", k.no_event(), 1),
        "an event is no number",
        "wait for it: tops.wait(event)",
    ),
    "too many subscripts": (
        lambda k: k.index(f32_tile(k), [0, 0, 0]),
        "3 subscripts for 2 axes",
        "its shape is (4, 8)",
    ),
    "index outside": (
        lambda k: k.index(f32_tile(k), [4]),
        "index 4 is outside of axis 0, which has 4 elements",
        "they are 0 to 3, or -4 to -1 from the end",
    ),
    "negative index outside": (
        lambda k: k.index(f32_tile(k), [-5]),
        "index -5 is outside of axis 0, which has 4 elements",
        "they are 0 to 3, or -4 to -1 from the end",
    ),
    "slice outside": (
        lambda k: k.index(f32_tile(k), [part(2, 6)]),
        "stop 6 is outside of axis 0, which has 4 elements",
        "slices must lie inside; load with pad= or store with clip=True what may reach outside",
    ),
    "slice too long": (
        lambda k: k.index(f32_tile(k), [part(m := dynamic(k), k.binary("add", m, 5))]),
        "a slice of 5 elements of axis 0, which has 4",
        "slices must lie inside; load with pad= or store with clip=True what may reach outside",
    ),
    "step": (
        lambda k: k.index(f32_tile(k), [part(0, 4, -1)]),
        "a step of -1 is not possible",
        "steps are at least 1; views don't run backwards",
    ),
    "slot": (
        lambda k: k.slot(k.buffer("row", "L1", F32, (8,), slots=2), 2),
        "row has 2 slots; no slot 2",
        "slots count from 0; more of them: slots=3",
    ),
    "dynamic buffer": (
        lambda k: k.buffer("row", "L1", F32, (dynamic(k),)),
        "extent 0 of row is only known when the kernel runs",
        "use a number or a constexpr parameter",
    ),
    "axes of a buffer": (
        lambda k: k.buffer("b", "L1", F32, (1, 2, 3, 4)),
        "b has 4 axes; buffers have 1 to 3",
        "join axes: (a * b, c, d), or loop over one",
    ),
    "element of L3": (
        lambda k: k.element(k.pointer("p", F32, 1), [0]),
        "single elements of an array in L3 can't be reached",
        "load a part, then take the element: tops.load(x[i:i+n])",
    ),
    "load without a bound": (
        lambda k: k.load(k.index(k.pointer("p", F32, 2), [part(0, 4)])),
        "the extent of axis 1 of (4, ?) isn't known when compiling",
        "give extents from constexprs: p[i:i+B, j:j+C], or i:min(i+B, n) for an end, "
        "or load into a buffer: tops.load(buffer, p[...])",
    ),
    "load of one element": (
        lambda k: k.load(k.index(k.pointer("p", F32, 1), [0])),
        "a tile of 0 axes; 1 to 3 are possible",
        "keep an axis with a slice: x[i:i+1]",
    ),
    "transfer into a tile": (
        lambda k: k.copy(f32_tile(k), k.pointer("p", F32, 2)),
        "a tile is a value; nothing can be transferred into it",
        "take the result, t = tops.load(x[...]), or use an L1 buffer",
    ),
    "types of a transfer": (
        lambda k: k.store(k.pointer("p", F16, 2), f32_tile(k)),
        "f32 into a view of f16 in L3: transfers don't convert",
        "convert the tile: .to(tops.f16)",
    ),
    "shapes of a transfer": (
        lambda k: k.store(k.slot(k.buffer("b", "L1", F32, (4, 4)), 0), f32_tile(k)),
        "(4, 8) does not fit (4, 4)",
        "extents must be equal, or 1 in the source, which is then repeated",
    ),
    "channel": (
        lambda k: k.transfer(k.slot(k.buffer("b", "L1", F32, (8,)), 0), k.pointer("p", F32, 1), channel=256),
        "channel 256; 0 to 254, or 255, are possible",
        "leave it out: each line has one of its own",
    ),
    "wait for a number": (
        lambda k: k.wait(k.special("thread_id")),
        "this must be an event, it is an i32",
        "events come from *_async functions",
    ),
    "matrices": (
        lambda k: k.matmul(f32_tile(k, 4, 8), f32_tile(k, 4, 8)),
        "(4, 8) @ (4, 8): 8 columns, 4 rows",
        "transpose one: b.T",
    ),
    "accumulator": (
        lambda k: k.mma(
            k.declare("acc", k.full(F16, (4, 4), 0.0)), k.full(F16, (4, 8), 0.0), k.full(F16, (8, 4), 0.0)
        ),
        "products of f32 into f16",
        "the accumulator must be of f32",
    ),
    "in place on a value": (
        lambda k: k.mma(f32_tile(k, 4, 4), f32_tile(k, 4, 8), f32_tile(k, 8, 4)),
        "mma changes its target in place; this is a value",
        "keep it in a variable first",
    ),
    "assigning another type": (
        lambda k: k.assign(k.declare("n", 0), 0.5),
        "n is an i32; an f32 can't be assigned to it",
        "convert it: tops.i32(x), or let n begin as a float: n = 0.0",
    ),
    "assigning another shape": (
        lambda k: k.assign(k.declare("t", f32_tile(k)), f32_tile(k, 4, 4)),
        "t has the shape (4, 8); (4, 4) can't be assigned to it",
        "use another name",
    ),
    "assigning a tail to a whole": (
        lambda k: k.assign(
            k.declare("t", f32_tile(k, 8)), k.full(F32, (k.binary("min", dynamic(k), 8),), 0.0)
        ),
        "t has the shape (8,); (<=8,) can't be assigned to it",
        "use another name, let its first value have the same extents, or load with pad= "
        "so that the extent is the same",
    ),
    "no value in one branch": (in_branch, "v may have no value here", GIVE_IT_A_VALUE + "v = ..."),
    "loop variable after its loop": (
        after_loop,
        "i may have no value here",
        GIVE_IT_A_VALUE + "i = ...",
    ),
    "break outside of a loop": (
        lambda k: k.break_(),
        "break outside of a loop",
        "put it in a for or while, or write return",
    ),
    "range with step 0": (
        lambda k: k.begin_range("i", 0, 1, 0),
        "a range with step 0",
        "steps are at least 1, or at most -1",
    ),
    "atomic on a slice": (
        lambda k: k.atomic("add", k.index(k.pointer("p", I32, 1), [part(0, 2)]), 1),
        "an atomic operation needs one element, this has 1 axes",
        "fix every axis: p[i]; or add a tile to a part: tops.atomic_add(c[0:n], t)",
    ),
    "atomic and on floats": (
        lambda k: k.atomic("and", k.index(k.pointer("p", F32, 1), [0]), 1),
        "atomic and on f32",
        "atomic and is for i32",
    ),
    "assertion that never holds": (lambda k: k.assert_(False, "n must be even"), "n must be even", ""),
    "elements of a tile": (
        lambda k: k.set_element(f32_tile(k), [0, 0], 1.0),
        "a tile is a value; its elements can't be assigned",
        "use an L1 buffer, or tops.where",
    ),
    "vector of bool": (
        lambda k: k.vector_splat(True, BOOL),
        "vectors of bool",
        "vectors are of numbers; use u8",
    ),
    "vector and tile": (
        lambda k: k.binary("add", k.vector_splat(1.0, F32), f32_tile(k)),
        "a vector and a tile don't go together",
        "load vectors from the tile: tops.vload",
    ),
    "extent without a bound": (
        lambda k: k.full(F32, (dynamic(k),), 0.0),
        "extent 0 of a tile has no bound that is known when compiling",
        "give it a bound from constexprs: tops.minimum(n, BLOCK)",
    ),
    "axis": (
        lambda k: k.reduce("sum", f32_tile(k), 2),
        "axis 2 of a tile of 2 axes",
        "they are 0 to 1, or -1 for the last",
    ),
    "reshape": (
        lambda k: k.reshape(f32_tile(k), (4, 9)),
        "(4, 8) has 32 elements, (4, 9) has 36",
        "the numbers of elements must be equal; one extent may be -1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    build, what, hint = CASES[name]
    k = Sketch()
    with pytest.raises(KernelError) as caught:
        build(k)
    assert (caught.value.what, caught.value.hint) == (what, hint)
    first, line, carets, *_ = str(caught.value).splitlines()
    assert first.startswith("test_builder_errors.py:") and first.endswith(f": error: {what}")
    assert line.strip() and set(carets.strip()) == {"^"}


def test_where_a_variable_got_its_type_is_shown() -> None:
    k = Sketch()
    total = k.declare("total", 0)
    with pytest.raises(KernelError) as caught:
        k.assign(total, 0.5)
    lines = str(caught.value).splitlines()
    assert lines[-3].endswith("note: total is an i32 from here on")
    assert lines[-2].strip() == 'total = k.declare("total", 0)'


def test_l1_overflow_lists_the_buffers_with_their_sizes() -> None:
    k = Sketch(target=Target("tiny", 64 << 10, 1 << 20))
    k.buffer("weights", "L1", F32, (128, 64), slots=2)
    k.buffer("row", "L1", F32, (64,))
    with pytest.raises(KernelError) as caught:
        k.tree()
    assert caught.value.what == (
        "L1 overflows: 64.25 KB of the 64 KB that a thread of tiny has "
        "(weights: f32 (128, 64) x 2 slots, 64 KB; row: f32 (64,), 256 B)"
    )
    assert "smaller tiles" in caught.value.hint


def test_l1_overflow_counts_the_compilers_tiles() -> None:
    k = Sketch(target=Target("tiny", 4096, 4096))
    x = k.pointer("x", F32, 1)
    big = k.declare("big", k.load(k.index(x, [part(0, 600)])))
    k.store(
        k.index(x, [part(0, 600)]), k.binary("add", k.read(big), k.binary("mul", k.read(big), k.read(big)))
    )
    with pytest.raises(KernelError, match=r"L1 overflows: .*big: f32 \(600,\), 2.375 KB; a tile of line \d+"):
        k.program()


def test_l2_overflows_too() -> None:
    k = Sketch(target=Target("tiny", 4096, 4096))
    k.buffer("shared", "L2", F32, (2048,))
    with pytest.raises(KernelError, match="L2 overflows: 8 KB of the 4 KB that a block of tiny has"):
        k.tree()


def test_a_loop_begun_without_a_variable_that_it_assigns_is_the_front_ends_error() -> None:
    k = Sketch()
    n = k.declare("n", 0)
    k.begin_range("i", 0, 4, 1, assigns=[])
    with pytest.raises(RuntimeError, match="n is assigned in a loop begun without it"):
        k.assign(n, 1)
