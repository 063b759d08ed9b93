"""Control flow, arithmetic and names mean in a kernel what they mean in Python."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# bodies of `def f(a, b)`, which return an int; each runs as Python, and inlined in a kernel
BODIES = {
    "arithmetic": "return (a + b) * 3 - a // 4 + b % 7 - (a // -3) - (b % -5)",
    "bits": "return (a & 12) | (b ^ 5) + (a << 2) + (b >> 1) + ~a",
    "compare": "return (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > b) + 32 * (a >= b)",
    "chain": "return 1 if -3 < a <= b < 9 else 0",
    "and or not": "return int(a > 2 and b > 2) + 2 * int(a > 2 or not b > 2)",
    "ternary": "return a if a > b else b if b > 3 else 7",
    "nested ternary": "x = (a if a > 0 else -a) + (b if b > 0 else -b)\nreturn x",
    "if elif else": "if a > 5:\n    r = 1\nelif a > b:\n    r = 2\nelse:\n    r = 3\nreturn r",
    "early return": "if a > b:\n    return 1\nif a < 0:\n    return 2\nreturn 3",
    "return in a loop": "for i in range(10):\n    if i * i > a:\n        return i\nreturn -1",
    "return before and in a loop": (
        "if b > 8:\n    return -5\nfor i in range(6):\n    if i > a:\n        return i + b\nreturn -1"
    ),
    "while": "n = 0\nwhile a > 0:\n    a = a - 3\n    n += 1\nreturn n",
    "while true": "n = 0\nwhile True:\n    n += 1\n    if n * 2 > a:\n        break\nreturn n",
    "continue": "s = 0\nfor i in range(9):\n    if i % 3 == a % 3:\n        continue\n    s += i\nreturn s",
    "break": "s = 0\nfor i in range(20):\n    if i == a:\n        break\n    s += i\nreturn s",
    "range step": "s = 0\nfor i in range(2, 20, 3):\n    s = s * 2 + i\nreturn s % 1000",
    "range down": "s = 0\nfor i in range(9, a, -2):\n    s = s * 3 + i\nreturn s % 1000",
    "range of variables": "s = 0\nfor i in range(a, b):\n    s += i\nreturn s",
    "nested loops": (
        "s = 0\nfor i in range(5):\n    for j in range(i):\n        if j == a:\n            break\n"
        "        s += i * j\n    else_ = s\n    s += 1\nreturn s"
    ),
    "loop variable assigned": "s = 0\nfor i in range(6):\n    i = i * 2\n    s += i\nreturn s",
    "bounds evaluated once": "n = 4\ns = 0\nfor i in range(n):\n    n = 10\n    s += 1\nreturn s + n",
    "swap": "x, y = a, b\nx, y = y, x\nfor _ in range(3):\n    x, y = y, x + 1\nreturn x * 100 + y",
    "tuples": "t = (a, b, 3)\nx, (y, z) = t[0], t[1:]\nreturn x + 10 * y + 100 * z + len(t) + sum(t)",
    "chained assignment": "x = y = a + 1\ny += 2\nreturn x * 10 + y",
    "unrolled": "s = 0\nfor k in (1, 2, 3):\n    s = s * 2 + k * a\nreturn s",
    "unrolled enumerate": "s = 0\nfor k, v in enumerate((5, 6)):\n    s += k * v + a\nreturn s",
    "unrolled zip": "s = 0\nfor k, v in zip((5, 6), (a, b)):\n    s += k * v\nreturn s",
    "unrolled break": "s = a\nfor k in (1, 2, 3, 4):\n    if k == 3:\n        break\n    s += k\nreturn s",
    "unrolled continue": "s = 0\nfor k in (1, 2, 3):\n    if k == 2:\n        continue\n    s += k\nreturn s",
    "return in unrolled": "for k in (1, 2, 3):\n    if k * 2 > a:\n        return k\nreturn 9",
    "min max abs": "return min(a, b, 3) + 10 * max(a, b) + 100 * abs(a - b)",
    "int float bool": "return int(float(a) * 1.5) + int(bool(b)) + int(a / 2.0)",
    "floats": "x = a * 0.5\ny = x - b\nreturn int(y * 4.0)",
    "float floor": "return int((a + 0.5) // 2.0) + int((b + 0.25) % 1.5 * 4.0)",
    "power": "return a ** 3 + b ** 2",
    "global constant": "return a * LIMIT + SIZES[1]",
    "inner function": "def twice(v):\n    return v * 2\nreturn twice(a) + twice(v=b)",
    "inner function of outer names": (
        "k = a + 1\ndef plus(v, w=3):\n    return v + w + k\nreturn plus(1) + plus(2, w=a)"
    ),
    "lambda": "f = lambda v: v * 3 + b\nreturn f(a) + f(2)",
    "helpers": "return helper(a, b) + helper(b, 1) + clamp(a, high=4)",
    "several results": "x, y = both(a, b)\nq, r = both(x, 3)\nreturn x + 10 * y + 100 * q + 1000 * r",
    "results of branches": "x, y = sided(a, b)\nreturn x * 10 + y",
    "parameter assigned": "return countdown(a) + countdown(b)",
    "function in a loop": "s = 0\nfor i in range(5):\n    s += helper(i, a)\nreturn s",
    "function as argument": "return apply(helper, a, b) + apply(lambda v, w: v - w, a, b)",
    "assert": "assert a == a, 'always'\nreturn a",
    "annotated": "x: int = a\ny: 'int' = b\nreturn x * y",
    "docstring": "'''What it does.'''\n'and a text'\n3\nreturn a",
    "variable of a branch, used in it": "s = 0\nif a > 0:\n    t = (a, b)\n    s = t[1]\nreturn s",
    "float after int": "x = a\nx = x * 0.5\nreturn int(x * 4.0)",
    "two loops, one name": "s = a\nfor i in range(3):\n    s += i\nfor i in range(4):\n    s += i\nreturn s",
    "loop in a loop, one name": (
        "s = a\nfor i in range(3):\n    for j in range(2):\n        s += j\n"
        "    for j in range(3):\n        s += i\nreturn s"
    ),
    "pass": "if a > 0:\n    pass\nelse:\n    pass\nreturn b",
    "condition of an int": "return (1 if a else 2) + (10 if not b else 20)",
    "is None": "x = None\nreturn a if x is None else b",
    "short circuit": "return 1 if b != 0 and a // b > 0 else 0",
    "or short circuit": "return 1 if b == 0 or a // b > 0 else 0",
    "big constants": "return (a * 2654435 + b) % 1000003",
    "many variables": "c = a + b\nd = c * 2\ne = d - a\nf = e + c\ng = f * d\nreturn g % 1009 + e",
}

_HELPERS = """
LIMIT = 3
SIZES = (4, 5)

def helper(v, w):
    if v > w:
        return v - w
    return w - v + 1

def clamp(v, low=0, *, high):
    return min(max(v, low), high)

def both(v, w):
    return v + w, v * w

def sided(v, w):
    if v > w:
        return v, w
    elif v == w:
        return 0, 0
    return w, v

def countdown(v):
    n = 0
    while v > 0:
        v -= 2
        n += 1
    return n * 10 + v

def apply(function, v, w):
    return function(v, w)
"""
_KERNEL = """
@tops.kernel
def k(pairs: tops.ptr(tops.i32, 2), out: tops.ptr(tops.i32, 1), n: tops.i32):
    row = tops.l1(tops.i32, (2,))
    result = tops.l1(tops.i32, (1,))
    for number in range(n):
        tops.load(row, pairs[number])
        result[0] = f(row[0], row[1])
        tops.store(out[number:number + 1], result)
"""


def _check(body: str, load_text: Callable[[str], ModuleType], pairs: list[tuple[int, int]]) -> None:
    text = _HELPERS + "\ndef f(a, b):\n" + textwrap.indent(body, "    ") + "\n" + _KERNEL
    module = load_text(text)
    expected = [module.f(a, b) for a, b in pairs]
    out = np.zeros(len(pairs), np.int32)
    module.k.options(mode="fast")[1](np.array(pairs, np.int32), out, len(pairs))
    assert out.tolist() == [int(value) for value in expected], body


@pytest.mark.parametrize("name", BODIES)
def test_same_as_python(name: str, load_text: Callable[[str], ModuleType]) -> None:
    values = (-7, -3, 0, 1, 2, 3, 5, 8, 11)
    pairs = [(a, b) for a in values for b in values]
    _check(BODIES[name], load_text, pairs)


# programs of nested control flow over a few variables; every loop ends by its own counter
_NAMES = ("a", "b", "x", "y")
_names = st.sampled_from(_NAMES)
_atoms = st.one_of(_names, st.integers(-9, 9).map(lambda n: f"({n})"))
_expressions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "&", "|", "^"]), inner),
        st.builds("({} // {})".format, inner, st.sampled_from(["3", "-4", "7"])),
        st.builds("({} % {})".format, inner, st.sampled_from(["5", "-6", "11"])),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("helper({}, {})".format, inner, inner),
        st.builds(
            "({} if {} {} {} else {})".format, inner, inner, st.sampled_from(["<", "==", ">="]), inner, inner
        ),
    ),
    max_leaves=6,
)
_conditions = st.one_of(
    st.builds("{} {} {}".format, _expressions, st.sampled_from(["<", "<=", "==", "!="]), _expressions),
    st.builds("{} < {} and {} > {}".format, _atoms, _expressions, _atoms, _atoms),
    st.builds("not {} < {} or {} != {}".format, _atoms, _expressions, _atoms, _atoms),
)


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def _statement(draw: st.DrawFn, depth: int, loop: bool, counters: tuple[str, ...]) -> list[str]:
    choices = ["assign", "assign", "change", "two"]
    if depth < 3:
        choices += ["if", "if", "for", "while"]
    if loop:
        choices += ["leave"]
    match draw(st.sampled_from(choices)):
        case "assign":
            return [f"{draw(_names)} = ({draw(_expressions)}) % 97"]
        case "change":
            return [f"{draw(_names)} {draw(st.sampled_from(['+=', '-=', '^=']))} {draw(_atoms)}"]
        case "two":
            one, other = draw(st.permutations(_NAMES))[:2]
            return [f"{one}, {other} = {draw(_atoms)}, {draw(_atoms)}"]
        case "if":
            then = draw(_block(depth + 1, loop, counters))
            lines = [f"if {draw(_conditions)}:", *_indented(then)]
            if draw(st.booleans()):
                lines += ["else:", *_indented(draw(_block(depth + 1, loop, counters)))]
            return lines
        case "for":
            counter = f"i{depth}{len(counters)}"
            body = draw(_block(depth + 1, True, (*counters, counter)))
            use = [f"{draw(_names)} += {counter}"] if draw(st.booleans()) else []
            return [f"for {counter} in range({draw(st.integers(0, 4))}):", *_indented([*use, *body])]
        case "while":
            counter = f"w{depth}{len(counters)}"
            body = draw(_block(depth + 1, True, (*counters, counter)))
            return [
                f"{counter} = 0",
                f"while {counter} < {draw(st.integers(0, 4))} and ({draw(_conditions)}):",
                *_indented([f"{counter} += 1", *body]),
            ]
        case _:
            return [
                f"if {draw(_conditions)}:",
                f"    {draw(st.sampled_from(['break', 'continue', 'return a']))}",
            ]


@st.composite
def _block(draw: st.DrawFn, depth: int, loop: bool, counters: tuple[str, ...] = ()) -> list[str]:
    statements = draw(st.lists(_statement(depth, loop, counters), min_size=1, max_size=3))
    return [line for statement in statements for line in statement]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
@given(body=_block(0, False))
def test_generated_programs(body: list[str], load_text: Callable[[str], ModuleType]) -> None:
    lines = ["x = 1", "y = 2", *body, "return a + 3 * b + 5 * x + 7 * y"]
    _check("\n".join(lines), load_text, [(0, 0), (3, -2), (-5, 8), (7, 7)])
