"""Refusals point at the value that is wrong, and say what to write for it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import tops_kit as tops

# a kernel's body with the refused part between « and »; a piece of the reason; a piece of the hint
CASES = {
    "an element as a bound": (
        "for i in range(«x[0]»):\n    pass",
        "an element of f32 in L3",
        "tops.load(x[0])",
    ),
    "a float as a bound": (
        "s = tops.load(x[0])\nfor i in range(0, «s»):\n    pass",
        "the stop of a range",
        "i32",
    ),
    "an element as a subscript": ("tops.store(x[«x[0]»], 1.0)", "an element of f32 in L3", "tops.load(x[0])"),
    "an element as an extent": ("t = tops.zeros(tops.f32, («x[0]»,))", "an element", "tops.load(x[0])"),
    "an element of min": ("a = min(«x[0]», 1.0)", "an element", "tops.load(x[0])"),
    "an element that is cast": ("a = tops.i32(«x[0]»)", "an element", "tops.load(x[0])"),
    "an element into a buffer": (
        "b = tops.l1(tops.f32, (4,))\nb[0] = «x[0]»",
        "an element",
        "tops.load(x[0])",
    ),
    "a float stored as i32": (
        "s = tops.f32(n)\ntops.store(y[0], «s»)",
        "an f32 into",
        "the value: tops.i32(s)",
    ),
    "a fraction stored as i32": ("tops.store(y[0], «2.7»)", "2.7 into values of i32", "whole number"),
    "a fraction added to i32": ("tops.atomic_add(y[0], «1.5»)", "1.5 into values of i32", "whole number"),
    "a float filled in": ("tops.memset(y[0:4], «2.0»)", "2.0 into values of i32", "write 2"),
    "too large an element": ("b = tops.l1(tops.u8, (4,))\n«b[0] = 300»", "300 does not fit u8", "i32"),
    "too large for f16": ("t = tops.full(tops.f16, (4,), «70000.0»)", "does not fit f16", "tops.f32"),
    "too large beside f16": ("t = «tops.zeros(tops.f16, (4,)) * 1e6»", "does not fit f16", ".to(tops.f32)"),
    "too large for bf16": ("t = tops.full(tops.bf16, (4,), «3.4e38»)", "does not fit bf16", "math.inf"),
    "astype": ("t = tops.load(x[0:4])\nu = «t.astype»(np.float16)", "no astype", ".to(tops.f16)"),
    "astype of 64 bits": ("t = tops.load(x[0:4])\nu = «t.astype»('int64')", "no astype", ".to(tops.i32)"),
    "an item of a tuple": (
        "e = (tops.no_event(),) * 4\nfor s in range(4):\n    «e[s]» = tops.no_event()",
        "tuples can't be assigned to",
        "make a new one",
    ),
    "an item of a tuple, changed": ("t = (1, 2)\n«t[0]» += 1", "tuples can't be assigned to", "buffer"),
    "a loop's variable after it": (
        "i = -7\nfor i in range(n):\n    pass\na = «i»",
        "i counts the rounds of a loop",
        "another name",
    ),
    "a loop's variable that began there": (
        "for i in range(n):\n    pass\na = «i»",
        "i counts the rounds of a loop",
        "another name",
    ),
    "atomics of a row": ("«tops.atomic_add(x[0:4], 1.0)»", "needs one element", "x[i]; or add a tile"),
    "f-string": ("s = f'{«n»} rows'", "a text outside of print", "print(f'{n} rows')"),
    "max of numbers": (
        "a = tops.max(«3.0», n)",
        "reduces a tile",
        "max(a, b); by elements tops.maximum(a, b)",
    ),
    "min of a scalar": ("a = tops.min(«n», 3)", "reduces a tile", "min(a, b)"),
    "static_print": ("«tops.static_print»(n)", "no tops.static_print", "print(...)"),
    "full as numpy's": (
        "t = tops.full(«(4,)», 0.0, tops.f32)",
        "the element type comes first",
        "dtype, shape",
    ),
    "l1 as numpy's": ("t = tops.l1(«(64,)», tops.f32)", "the element type comes first", "dtype, shape"),
    "annotation": ("a: «'tile'» = tops.load(x[0:4])", "the type tile is not known", "leave it out"),
    "product added": (
        "a, b = tops.zeros(tops.f32, (4, 3)), tops.zeros(tops.f32, (5, 4))\n"
        "c = tops.zeros(tops.f32, (4, 4))\nc += «a @ b»",
        "3 columns, 5 rows",
        "",
    ),
    "a product that is not used": (
        "a = tops.zeros(tops.f32, (4, 4))\nc = tops.zeros(tops.f32, (4, 4))\n«tops.dot(a, a, c)»",
        "tops.dot is not used",
        "c = tops.dot(a, b, c)",
    ),
    "a sum that is not used": ("t = tops.load(x[0:4])\n«t + 1.0»", "not used", "a name"),
    "a method that is not used": ("t = tops.load(x[0:4])\n«t.to(tops.f16)»", ".to is not used", "a name"),
    "columns as vectors": (
        "b = tops.l1(tops.f32, (32, 40))\nv = «tops.vload(b[0:32, 0], 0)»",
        "not dense",
        "rows",
    ),
    "steps as vectors": ("t = tops.load(x[0:64])\nv = «tops.vload(t[::2], 0)»", "not dense", "rows"),
    "a reversed slice": ("t = tops.load(«x[20:10]»)", "ends before it starts", "x[a:a]"),
    "too much L2": ("b = «tops.l2(tops.f32, (4096, 8192))»", "128.0 MB of the 60.0 MB", "fewer"),
}


def _load(body: str, load_text: Callable[[str], ModuleType]) -> ModuleType:
    head = "@tops.kernel\ndef k(x: tops.ptr(tops.f32), y: tops.ptr(tops.i32), n: tops.i32):\n"
    return load_text(head + textwrap.indent(body, "    ") + "\n")


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, load_text: Callable[[str], ModuleType]) -> None:
    body, what, hint = CASES[case]
    before = body[: body.index("«")]
    line = 6 + before.count("\n")
    start = 5 + len(before) - (before.rindex("\n") + 1 if "\n" in before else 0)
    width = body.index("»") - body.index("«") - 1
    kernel = _load(body.replace("«", "").replace("»", ""), load_text).k
    with pytest.raises(tops.KernelError) as caught:
        kernel.tree(np.zeros(64, np.float32), np.zeros(64, np.int32), 3)
    shown = str(caught.value).split("\n")
    assert what in caught.value.what
    assert hint in caught.value.hint
    assert caught.value.hint, "it says nothing of what to write"
    assert f"kernels0.py:{line}:{start}: error: " in shown[0]
    assert shown[2].strip() == "^" * width


@pytest.mark.parametrize(
    "body",
    [
        "t = tops.full(tops.f16, (4,), float('-inf')) * 65504.0",
        "b = tops.l1(tops.f32, (32, 40))\nb[:] = 1.0\nv = tops.vload(b[2:8], 0)",
        "t = tops.load(x[0:64])\nv = tops.vload(t[:, None], 32)\ntops.store(x[0], tops.sum(v))",
        "tops.load_async(tops.l1(tops.f32, (4,)), x[0:4])\ntops.wait_all()",
        "tops.atomic_add(y[0], 1)\ntops.atomic_add(y[0], True)",
        "t = tops.load(x[5:5])",
        "tops.store(y[0], WIDE)\ntops.store(x[0:WIDE], tops.full(tops.f32, (WIDE,), HALF))",
    ],
)
def test_taken(body: str, load_text: Callable[[str], ModuleType]) -> None:
    module = _load(body, load_text)
    module.WIDE, module.HALF = np.int64(3), np.float64(0.5)
    module.k[1](np.zeros(64, np.float32), np.zeros(64, np.int32), 3)


def test_a_constexpr_may_be_an_integer_of_numpy(load_text: Callable[[str], ModuleType]) -> None:
    module = load_text("""
        @tops.kernel()
        def k(x: tops.ptr(tops.f32), N: tops.constexpr):
            b = tops.l1(tops.f32, (N,))
            b[:] = N * 2
            tops.store(x[0:N], b)
    """)
    x = np.zeros(8, np.float32)
    module.k[1](x, N=np.int64(3))
    assert x.tolist() == [6, 6, 6, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["int64", ">f4", "complex64"])
def test_arrays_of_other_types_say_what_to_write_with_their_name(
    dtype: str, load_text: Callable[[str], ModuleType]
) -> None:
    module = load_text("@tops.kernel\ndef k(index: tops.ptr()): pass\n")
    with pytest.raises(tops.LaunchError, match=r"index\.(astype|real)"):
        module.k[1](np.zeros(4, dtype))
