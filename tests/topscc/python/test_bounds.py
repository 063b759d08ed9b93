"""Kernels beyond what a compiler can do: refused with the place, not a RecursionError or an endless wait."""

from __future__ import annotations

import contextlib
import copy
import pickle
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tops_kit.topscc.python import core

Load = Callable[[str], ModuleType]


def compiled(module: ModuleType) -> Any:
    return module.k.compile(np.zeros(4, np.float32))


def test_deep_expressions_and_branches(load_text: Load) -> None:
    expression = load_text(f"""
        @tops.kernel
        def k(y: tops.ptr(tops.f32, 1)):
            n = y.shape[0]
            tops.store(y[0:1], n{"+ n" * 900})
    """)
    with pytest.raises(tops.KernelError, match="nested too deep here") as caught:
        compiled(expression)
    assert caught.value.where.line == 8


def test_a_caller_that_used_up_the_stack(load_text: Load) -> None:
    module = load_text("""
        @tops.kernel
        def k(y: tops.ptr(tops.f32, 1)):
            tops.store(y[0:1], 1.0)
    """)

    def descend(depth: int) -> Any:
        return descend(depth - 1) if depth else compiled(module)

    here, frame = 0, sys._getframe()
    while frame.f_back is not None:
        here, frame = here + 1, frame.f_back
    for left in range(10, 80, 5):  # whatever is reached, it is not called the kernel's mistake
        with contextlib.suppress(RecursionError):
            descend(sys.getrecursionlimit() - here - left)
    compiled(module)


def test_unrolling_and_inlining_end(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MAX_ROUNDS", 2000)
    rounds = load_text("""
        @tops.kernel
        def k(y: tops.ptr(tops.f32, 1)):
            for i in tops.static_range(1000):
                for j in tops.static_range(1000):
                    pass
    """)
    with pytest.raises(tops.KernelError, match="2,000 rounds to unroll"):
        compiled(rounds)
    doubling = "\n".join(f"def f{i}(x):\n    return f{i - 1}(f{i - 1}(x))" for i in range(1, 30))
    calls = load_text(
        f"def f0(x):\n    return x + 1.0\n{doubling}\n"
        + """
@tops.kernel
def k(y: tops.ptr(tops.f32, 1)):
    tops.store(y[0:1], f29(1.0))
"""
    )
    with pytest.raises(tops.KernelError, match="too long"):
        compiled(calls)


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("tops.store(y[0:1], tops.i32(math.nan))", "nan can't be converted to i32"),
        ("tops.store(y[0:1], 1e300)", "does not fit f32"),
        ("tops.store(y[0:1], GREAT)", "this number does not fit f32"),
        ("print(f'{y.shape[0]:>99999999}')", "a field of more than 1000 characters"),
        ("print(f'{3:>99999999}')", "a field of more than 1000 characters"),
        ("tops.store(y[0:1], thing.broken)", "broken raises RuntimeError: no"),
        ("for i in range(2147483600, 2147483647, 100): pass", "leaves 32 bits at its end"),
        ("for i in range(-2147483600, -2147483648, -100): pass", "leaves 32 bits at its end"),
    ],
)
def test_values_that_are_not_possible(statement: str, complaint: str, load_text: Load) -> None:
    module = load_text(f"""
        GREAT = 10**5000

        class Thing:
            @property
            def broken(self):
                raise RuntimeError("no")

        thing = Thing()

        @tops.kernel
        def k(y: tops.ptr(tops.f32, 1)):
            {statement}
    """)
    with pytest.raises(tops.KernelError, match=complaint):
        compiled(module)


def test_annotations_that_are_too_deep(load_text: Load) -> None:
    module = load_text(f"""
        @tops.kernel
        def k(y: "{"a." * 3000}b"):
            pass
    """)
    with pytest.raises(tops.KernelError, match="can't be read"):
        compiled(module)


def test_what_changes_between_launches(load_text: Load) -> None:
    module = load_text("""
        def helper(a=1.0, *, b=0.0):
            return a + b

        def make():
            v = 1.0
            def remove():
                nonlocal v
                del v
            @tops.kernel
            def k(y: tops.ptr(tops.f32, 1)):
                tops.store(y[0:1], v * helper())
            return k, remove

        k, remove = make()

        def other(a=1.0, *, b=0.0):
            return a - b
    """)
    y = np.zeros(1, np.float32)

    def answer() -> float:
        module.k[1](y)
        return float(y[0])

    assert answer() == 1.0
    module.helper.__defaults__ = (7.0,)
    assert answer() == 7.0
    module.helper.__kwdefaults__["b"] = 2.0
    assert answer() == 9.0
    module.helper.__code__ = module.other.__code__
    assert answer() == 5.0
    module.remove()
    with pytest.raises(tops.KernelError, match="v has no value yet"):
        answer()


def test_errors_cross_processes(load_text: Load) -> None:
    module = load_text("""
        @tops.kernel
        def k(y: tops.ptr(tops.f32, 1)):
            tops.store(y[0:1], nothing)

        @tops.kernel
        def outside(y: tops.ptr(tops.f32, 1)):
            tops.store(y[9:10], 1.0)
    """)
    with pytest.raises(tops.KernelError) as refused:
        compiled(module)
    with pytest.raises(tops.KernelFault) as fault:
        module.outside[1](np.zeros(4, np.float32))
    for error in (refused.value, fault.value):
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert str(copy.copy(error)) == str(error)
    assert copied.kind == fault.value.kind
