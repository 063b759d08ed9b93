"""What kernels refuse: the place, the reason, and what to write instead."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import tops_kit as tops

# a kernel's body with the refused part between « and »; a piece of the reason; a piece of the hint
CASES = {
    "try": ("«try:»\n    pass\nexcept ValueError:\n    pass", "no exceptions", "assert"),
    "raise": ("«raise ValueError('bad')»", "no exceptions", "assert"),
    "with": ("«with open('f'):»\n    pass", "with is not possible", ""),
    "class": ("«class A:»\n    pass", "classes", "functions"),
    "global": ("«global G»\nG = 1", "can't change variables", "return"),
    "import": ("«import os»", "imports belong", "outside"),
    "from import": ("«from os import path»", "imports belong", "outside"),
    "del": ("a = 1\n«del a»", "del", ""),
    "match": ("«match n:»\n    case 1:\n        pass", "match", "if and elif"),
    "list comprehension": ("a = «[i for i in range(4)]»", "comprehensions", "loop"),
    "generator": ("a = sum«(i for i in range(4))»", "comprehensions", "loop"),
    "dict": ("a = «{1: 2}»", "dictionaries", ""),
    "set": ("a = «{1, 2}»", "sets", ""),
    "walrus": ("a = («b := 3»)", "assignments inside", "line of its own"),
    "yield": ("«yield n»", "can't yield", "tops.store"),
    "await": ("«async def f():»\n    pass", "async", "load_async"),
    "star argument": ("t = (1, 2)\ntops.minimum(«*t»)", "* in a call", "each argument"),
    "double star": ("t = 1\ntops.minimum(1, 2, «**n»)", "** in a call", "each argument"),
    "starred target": ("a, «*b» = (1, 2, 3)", "* in an assignment", "each element"),
    "attribute target": ("n.«a» = 1".replace("n.«a»", "«n.a»"), "attributes", ""),
    "complex": ("a = «1j»", "complex", "the real"),
    "bytes": ("a = «b'x'»", "bytes", "tops.u8"),
    "return a value": ("«return n»", "a kernel returns nothing", "tops.store"),
    "unknown name": ("a = «fooo» + 1", "fooo is not defined", ""),
    "unknown name, near one": ("value = 1\na = «valu»", "valu is not defined", "did you mean value?"),
    "used before": ("a = «b»\nb = 1", "b has no value here", ""),
    "64-bit type": ("a = «tops.f64»(1)", "no 64-bit types", "tops.f32"),
    "64-bit buffer": ("a = tops.l1(«np.int64», (4,))", "no 64-bit types such as int64", "tops.i32"),
    "float64 of numpy": ("a = n * «np.float64(3.0)»", "float64", "tops.f32"),
    "numpy function": ("a = «np.exp(n)»", "numpy.exp can't be called", "tops.exp"),
    "math of a value": ("a = «math.sqrt(n)»", "math.sqrt can't be called", "tops.sqrt"),
    "no such word": ("a = «tops.expp»(n)", "no tops.expp", "tops.exp?"),
    "a word of others": ("a = «tops.exp2»(n)", "no tops.exp2", "tops.exp(x * 0.6931472)"),
    "any other function": ("«open('f')»", "open can't be called", "inlined"),
    "not callable": ("a = «(1, 2)(3)»", "can't be called", ""),
    "text arithmetic": ("a = «'a' * n»".replace("«'a' * n»", "«'a'» * n"), "text 'a' is no number", ""),
    "text formatting": ("a = «'a%d' % 3»", "% of texts", "f-string"),
    "is": ("if «n is 3»:\n    pass", "`is` compares with None only", "=="),
    "in": ("if «n in (1, 2)»:\n    pass", "`in` is possible only for", "each element"),
    "and of tiles": (
        "t = tops.zeros(tops.f32, (4,))\nif «(t > 0)» and n > 0:\n    pass".replace("«(t > 0)»", "(«t > 0»)"),
        "`and` of a tile of bool",
        "&",
    ),
    "tile as condition": ("t = tops.zeros(tops.f32, (4,))\nif «t»:\n    pass", "no condition", "tops.any"),
    "slots": ("b = tops.l1(tops.f32, (4,), slots=2)\na = tops.exp(«b»)", "which one", "b[slot]"),
    "slot slice": (
        "b = tops.l1(tops.f32, (4,), slots=2)\na = tops.exp(b[«:»])".replace("«:»", "«0:2»"),
        "first subscript of b is the slot",
        "b[slot",
    ),
    "buffer of unknown size": (
        "b = tops.l1(tops.f32, («n»,))".replace("(«n»,)", "«(n,)»"),
        "known when",
        "constexpr",
    ),
    "shape first": ("b = tops.zeros(«(4, 4)», tops.f32)", "element type comes first", "(dtype, shape)"),
    "assign to an array": ("«x[0:4]» = 1.0", "arrays in L3", "tops.store(x[0:4], ...)"),
    "element of an array": ("a = «x[0]» + 1.0", "element of f32 in L3", "tops.load(x[0])"),
    "array arithmetic": ("a = «x» + 1.0", "view of f32 in L3", "tops.load(x[i:i+B])"),
    "pointer arithmetic": ("a = tops.load(«x» + tops.arange(4))", "view of f32 in L3", "tops.load(x[i:i+B])"),
    "mask": ("a = «tops.load(x[0:4], mask=n > 2)»", "'mask'", "no masks: x[i:min(i+B, n)]"),
    "keepdims": ("t = tops.arange(4)\na = «tops.sum(t, 0, keepdims=True)»", "keepdims", "always stays"),
    "number plus tile": (
        "s = 0.0\nfor i in range(n):\n    «s += tops.sum(tops.load(x[i:i+1]))»",
        "s is an f32",
        "s = tops.zeros(tops.f32, (1,)), or take the element: t[0]",
    ),
    "extent from a number": ("b = tops.l1(tops.f32, «(n,)»)", "known when", "annotate it, n: tops.constexpr"),
    "slice of a number": (
        "a = tops.load«(x[0:n])»".replace("tops.load«(x[0:n])»", "«tops.load(x[0:n])»"),
        "isn't known",
        "annotate n: tops.constexpr, or bound it: min(n, 64)",
    ),
    "whole array": ("a = «tops.load(x)»", "isn't known", "x[i:i+B]"),
    "assert with values": ('assert n > 0, f"bad {«n»}"', "known when compiling", "print(n)"),
    "print an array": ("print('x is', «x[0:2]»)", "view of f32 in L3", "tops.load(x[0:2])"),
    "format of another type": ("«print(f'{n:.3q}')»", "the format '.3q' of i32", ""),
    "store a column into a row": (
        "b = tops.l1(tops.f32, (1, 4))\n«tops.store(b[0:1, 0:4], tops.zeros(tops.f32, (4, 1)))»",
        "(4, 1) does not fit (1, 4)",
        "",
    ),
    "too many subscripts": ("a = tops.load(x[0:1, «2»])", "2 subscripts for 1 axis", "x[a:b]"),
    "append": ("a = [1, 2]\n«a.append»(3)", "has no attribute append", "t + (x,)"),
    "step 0": ("«for i in range(0, 10, 0)»:\n    pass", "step 0", "at most -1"),
    "range of half": ("for i in range(«0.5»):\n    pass", "must be an int", "count in ints"),
    "@ of rows": ("a = «tops.arange(4) @ tops.arange(4)»", "both need 2 axes", "t[None, :]"),
    "extent below 0": ("a = «tops.zeros(tops.f32, (-1,))»", "extent 0 is -1", "at least 0"),
    "extent of a buffer": ("a = «tops.l1(tops.f32, (0,))»", "must be at least 1", "slices"),
    "axis outside": ("a = «tops.sum(tops.arange(4), axis=1)»", "axis 1 of a tile of 1 axis", "0, or -1"),
    "four axes": ("a = «tops.zeros(tops.f32, (2, 2, 2, 2))»", "a tile of 4 axes", "join axes"),
    "buffer of four axes": ("a = «tops.l1(tops.f32, (2, 2, 2, 2))»", "a has 4 axes", "join axes"),
    "index outside": ("a = «tops.arange(4)[4]»", "index 4 is outside", "0 to 3"),
    "item outside": ("a = «(1, 2)[2]»", "no item 2", "0 to 1"),
    "too big": ("a = «n + 2147483648»", "does not fit i32", "compute in f32"),
    "too big for a small type": ("a = tops.full(tops.i8, (4,), «300»)", "does not fit i8", "i32"),
    "None as a number": ("a = None\nb = «a + 1»", "None is no number", "is None"),
    "list of the module": ("a = «LIST»[0]", "list can't be subscripted", "make it a tuple"),
    "array of the module": ("a = «ARRAY + 1.0»", "ndarray is no number", "tops.ptr(tops.f32)"),
    "missing argument of a function": (
        "def f(a, b=1):\n    return a\nz = «f()»",
        "needs an argument a",
        "(a, [b])",
    ),
    "unknown argument of a function": ("def f(a):\n    return a\nz = f(a=1, «c=2»)", "no argument c", "(a)"),
    "part of another extent": (
        "b = tops.l1(tops.f32, (4,))\n«b[0:2] = tops.zeros(tops.f32, (3,))»",
        "(3,) does not fit (2,)",
        "equal",
    ),
    "channel": (
        "b = tops.l1(tops.f32, (4,))\n«tops.load_async(b, x[0:4], channel=300)»",
        "0 to 254",
        "leave it out",
    ),
    "tile as subscript": ("t = tops.arange(4)\na = x[«t»]", "this is a tile", "gather"),
    "tuple index": ("t = (1, 2)\na = t[«n»]", "must be known when compiling", "constexpr"),
    "tuple index outside": ("a = «(1, 2)[2]»", "no item 2", ""),
    "unpack too many": ("«a, b» = (1, 2, 3)", "2 names for 3 values", ""),
    "unpack a scalar": ("«a, b» = n", "can't be unpacked", ""),
    "range of a float": ("for i in range(«2.5»):\n    pass", "must be an int", ""),
    "range of None": ("for i in range(«None»):\n    pass", "None is no number", ""),
    "loop over a tile": ("for i in «tops.arange(4)»:\n    pass", "a loop over a tile", "range(n)"),
    "for else": ("for i in range(n):\n    pass\nelse:\n    «pass»", "else of a loop", ""),
    "while else": ("while n > 3:\n    pass\nelse:\n    «pass»", "else of a loop", ""),
    "unrolled too often": (
        "for i in «tops.static_range(100000)»:\n    pass",
        "can't be unrolled",
        "range(n)",
    ),
    "unrolled break": (
        "for i in tops.static_range(4):\n    if n > i:\n        «break»",
        "break in an unrolled loop",
        "range",
    ),
    "min of tiles": ("t = tops.arange(4)\na = «min(t, 1)»", "min() of a tile", "tops.minimum"),
    "max with a second tile": ("t = tops.arange(4)\na = tops.max(t, «t»)", "second tile", "tops.maximum"),
    "sum of a tile": ("t = tops.arange(4)\na = «sum(t)»", "sum() of values", "tops.sum"),
    "missing argument": (
        "«tops.store(x[0:4])»",
        "missing a required argument: 'source'",
        "(destination, source",
    ),
    "unknown argument": ("«tops.exp(n, out=3)»", "unexpected keyword argument 'out'", "it takes (x)"),
    "wait for a number": ("tops.wait(«n»)", "must be an event", "load_async"),
    "axis 1 of program_id": ("a = tops.program_id(«1»)", "axis 0 only", "block_id"),
    "int division": ("a = «n / 2»", "/ of i32", "//"),
    "mixed tiles": (
        "a = tops.zeros(tops.f32, (4,))\nb = tops.zeros(tops.f16, (4,))\nc = «a + b»",
        "f32",
        ".to(",
    ),
    "static_assert": ("«tops.static_assert(1 > 2, 'one is less')»", "one is less", ""),
    "assert message": ("assert n > 0, «n»", "must be a text", "print"),
    "constexpr that is not": ("a: tops.constexpr = «n»", "must be known when compiling", "constexpr"),
    "changes a tuple in a loop": (
        "t = (1, 2)\nfor i in range(n):\n    «t = (2, 3)»",
        "must be known when compiling",
        "unpack",
    ),
    "loop variable shadows": (
        "i = 5\nwhile n > i:\n    «for i in range(3)»:\n        pass\n    i += 1",
        "stands for something else around this loop",
        "another name",
    ),
    "lost after a branch": (
        "if n > 0:\n    t = (1, 2)\na = «t»",
        "may stand for different things",
        "outside of the branch",
    ),
    "no value on one way": ("if n > 0:\n    a = 1\nb = «a»", "a may have no value", ""),
    "astype": ("t = tops.arange(4)\na = «t.astype»(tops.f32)", "no astype", ".to("),
    "no such attribute": ("t = tops.arange(4)\na = «t.foo»", "has no foo", "shape"),
    "power": ("a = n ** «n»", "** of values", "tops.exp"),
    "pipeline without loads": ("for i in «tops.pipeline(n)»:\n    pass", "needs its loads", "lambda i"),
    "pipeline of L3": (
        "for i in tops.pipeline(n, load=«(x, lambda i: x[i:i+1])»):\n    pass",
        "fills buffers in L1",
        "tops.l1",
    ),
    "pipeline buffer by number": (
        "b = tops.l1(tops.f32, (1,), slots=2)\n"
        "for i in tops.pipeline(n, load=(b, lambda i: x[i:i+1])):\n    a = b[«0», 0]",
        "is the loop variable",
        "b[i]",
    ),
    "pipeline variable assigned": (
        "b = tops.l1(tops.f32, (1,), slots=2)\n"
        "for «i» in tops.pipeline(n, load=(b, lambda i: x[i:i+1])):\n    i = 2",
        "can't be assigned",
        "another name",
    ),
    "pipeline depends on its body": (
        "b = tops.l1(tops.f32, (1,), slots=2)\nk = 0\n"
        "for i in tops.pipeline(n, load=(b, lambda i: x[«k»:k+1])):\n    k = k + 1",
        "loads run ahead",
        "loop variable",
    ),
    "pipeline too far ahead": (
        "b = tops.l1(tops.f32, (1,), slots=2)\n"
        "for i in tops.pipeline(n, load=(b, lambda i: x[i:i+1]), ahead=«2»):\n    pass",
        "can't run 2 rounds ahead with 2 slots",
        "1 to 1",
    ),
    "pipeline ahead of one slot": (
        "b = tops.l1(tops.f32, (1,))\n"
        "for i in tops.pipeline(n, load=(b, lambda i: x[i:i+1]), ahead=«1»):\n    pass",
        "can't run 1 rounds ahead with 1 slot",
        "slots=2",
    ),
    "pipeline of another type": (
        "b = tops.l1(tops.f16, (1,), slots=2)\n"
        "for i in tops.pipeline(n, load=«(b, lambda i: x[i:i+1])»):\n    pass",
        "b holds f16, its source has f32",
        "tops.f32",
    ),
    "tabs and wide letters": ("s = 'größe'; a = «fooo»", "fooo is not defined", ""),
}


def _source(body: str) -> tuple[str, int, int, int]:
    """The kernel's file, and the line, column and end of what is marked (columns from 1)."""
    lines = [
        "WIDE, LIST, ARRAY = np.float64(2.0), [1, 2], np.ones(4)", "@tops.kernel",
        "def k(x: tops.ptr(tops.f32), n: tops.i32):",
        *textwrap.indent(body, "    ").split("\n"),
    ]  # fmt: skip
    for number, line in enumerate(lines):
        if "«" in line:
            start = line.index("«")
            end = line.index("»") - 1
            lines[number] = line.replace("«", "").replace("»", "")
            return "\n".join(lines) + "\n", number + 4, start + 1, end + 1
    raise AssertionError("nothing is marked")


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, load_text: Callable[[str], ModuleType]) -> None:
    body, what, hint = CASES[case]
    text, line, start, end = _source(body)
    kernel = load_text(text).k
    with pytest.raises(tops.KernelError) as caught:
        kernel.tree(np.zeros(8, np.float32), 3)
    error = caught.value
    message = str(error)
    shown = message.split("\n")
    assert what in error.what
    assert hint in error.hint
    assert error.hint or case == "static_assert", "it says nothing of what to write"
    assert f"kernels0.py:{line}:{start}: error: " in shown[0], message
    assert shown[2].count("^") == end - start, message
    assert shown[2].index("^") == 4 + start - 1


@pytest.mark.smoke
def test_a_refusal_reads_well(load_text: Callable[[str], ModuleType]) -> None:
    module = load_text("""
        def gelu(t):
            return np.tanh(t)

        @tops.kernel
        def k(x: tops.ptr(tops.f32), n: tops.i32):
            t = tops.load(x[0:64])
            tops.store(x[0:64], gelu(t))
    """)
    with pytest.raises(tops.KernelError) as caught:
        module.k.tree(np.zeros(64, np.float32), 3)
    path = module.__file__
    assert str(caught.value).split("\n") == [
        f"{path}:6:12: error: numpy.tanh can't be called in a kernel",
        "        return np.tanh(t)",
        "               ^^^^^^^^^^",
        "  hint: write tops.tanh",
        f"{path}:11:25: inlined at",
        "        tops.store(x[0:64], gelu(t))",
        "                            ^^^^^^^",
    ]


def test_recursion_names_the_cycle(load_text: Callable[[str], ModuleType]) -> None:
    module = load_text("""
        def even(n):
            return odd(n - 1)

        def odd(n):
            return even(n - 1)

        @tops.kernel
        def k(x: tops.ptr(tops.f32), n: tops.i32):
            a = even(n)
    """)
    with pytest.raises(tops.KernelError) as caught:
        module.k.tree(np.zeros(64, np.float32), 3)
    assert "recursion is not possible: even -> odd -> even" in str(caught.value)


@pytest.mark.parametrize(
    ("signature", "what"),
    [
        ("*x: tops.ptr(tops.f32)", "any number of arguments"),
        ("**x: tops.ptr(tops.f32)", "any number of arguments"),
        ("x: 'tops.foo'", "can't be read"),
        ("x: 'tops.ptr(tops.f64)'", "no attribute"),
        ("x: np.float64", "no 64-bit types"),
        ("x: list", "no element type"),
        ("x: tops.ptr(tops.f32) = None", "can't have a default"),
    ],
)
def test_signatures(signature: str, what: str, load_text: Callable[[str], ModuleType]) -> None:
    module = load_text(f"""
        @tops.kernel
        def k({signature}):
            pass
    """)
    with pytest.raises(tops.KernelError) as caught:
        module.k.tree(np.zeros(64, np.float32))
    assert what in str(caught.value)


def test_a_lambda_or_a_class_is_no_kernel(load_text: Callable[[str], ModuleType]) -> None:
    with pytest.raises(tops.KernelError, match="a lambda can't be a kernel"):
        load_text("k = tops.kernel(lambda x: x)\n").k.tree(1)
    with pytest.raises(Exception, match="stands above a function"):
        load_text("@tops.kernel\nclass A: pass\n")
