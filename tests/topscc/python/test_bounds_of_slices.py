"""Bounds of slices that follow from asserts, conditions, and values that are chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tops_kit as tops
from tops_kit.runtime.kernel import Kernel
from tops_kit.topscc.building.affine import Affine
from tops_kit.topscc.building.facts import limits
from tops_kit.topscc.diagnostics import KernelError

X = tops.ArrayType(tops.f32, 1)


@tops.kernel
def asserted(x: tops.ptr(tops.f32, 1), n: tops.i32):
    assert n <= 8
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def both_asserted(x: tops.ptr(tops.f32, 1), n: tops.i32):
    i = tops.thread_id()
    assert 0 < n <= 8 and i >= 0
    tops.store(x[i : i + n], tops.load(x[i : i + n]) * 2.0)


@tops.kernel
def not_more(x: tops.ptr(tops.f32, 1), n: tops.i32):
    assert not n > 8
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def at_most_another(x: tops.ptr(tops.f32, 1), n: tops.i32):
    most = 8 if tops.thread_id() else 4
    assert 2 * n <= most
    tops.store(x[0 : 2 * n], tops.load(x[0 : 2 * n]) * 2.0)


@tops.kernel
def chosen(x: tops.ptr(tops.f32, 1), n: tops.i32):
    m = 8 if n > 3 else 4
    tops.store(x[0:m], tops.load(x[0:m]) * 2.0)


@tops.kernel
def chosen_by_where(x: tops.ptr(tops.f32, 1), n: tops.i32):
    m = tops.where(n > 3, 8, 4)
    tops.store(x[0:m], tops.load(x[0:m]) * 2.0)


@tops.kernel
def the_lesser(x: tops.ptr(tops.f32, 1), n: tops.i32):
    m = n if n < 8 else 8
    tops.store(x[0:m], tops.load(x[0:m]) * 2.0)


@tops.kernel
def cut(x: tops.ptr(tops.f32, 1), n: tops.i32):
    if n > 8:
        n = 8
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def left_before(x: tops.ptr(tops.f32, 1), n: tops.i32):
    if n > 8:
        return
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def guarded(x: tops.ptr(tops.f32, 1), n: tops.i32):
    if n <= 8:
        tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


GOOD = [
    asserted, both_asserted, not_more, at_most_another, chosen, chosen_by_where, the_lesser, cut, left_before,
    guarded,
]  # fmt: skip


@pytest.mark.parametrize("kernel", GOOD, ids=lambda kernel: kernel.name)
def test_what_a_condition_tells_is_a_bound(kernel: Kernel) -> None:
    x = np.ones(16, np.float32)
    kernel[1](x, 2)
    count = 4 if kernel in (at_most_another, chosen, chosen_by_where) else 2
    assert x.tolist() == [2.0] * count + [1.0] * (16 - count)


def test_an_assert_that_does_not_hold_is_a_fault() -> None:
    with pytest.raises(tops.KernelFault, match="n <= 8"):
        asserted[1](np.ones(16, np.float32), 9)


@tops.kernel
def at_least(x: tops.ptr(tops.f32, 1), n: tops.i32):
    assert n >= 8
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def changed_after(x: tops.ptr(tops.f32, 1), n: tops.i32):
    assert n <= 8
    n *= n
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def one_or_the_other(x: tops.ptr(tops.f32, 1), n: tops.i32):
    assert n <= 8 or n > 100
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def changed_in_the_loop(x: tops.ptr(tops.f32, 1), n: tops.i32):
    assert n <= 8
    for _ in range(3):
        tops.store(x[0:n], tops.load(x[0:n]) * 2.0)
        n += 1


@tops.kernel
def only_within(x: tops.ptr(tops.f32, 1), n: tops.i32):
    if n <= 8:
        tops.store(x[0:1], 1.0)
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def the_other_side(x: tops.ptr(tops.f32, 1), n: tops.i32):
    if n <= 8:
        tops.store(x[0:1], 1.0)
    else:
        tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


@tops.kernel
def one_arm(x: tops.ptr(tops.f32, 1), n: tops.i32):
    m = n if n > 8 else 8
    tops.store(x[0:m], tops.load(x[0:m]) * 2.0)


@tops.kernel
def from_below(x: tops.ptr(tops.f32, 1), n: tops.i32):
    assert -n <= 8
    tops.store(x[0:n], tops.load(x[0:n]) * 2.0)


BAD = [
    at_least, changed_after, one_or_the_other, changed_in_the_loop, only_within, the_other_side, one_arm,
    from_below,
]  # fmt: skip


@pytest.mark.parametrize("kernel", BAD, ids=lambda kernel: kernel.name)
def test_what_tells_no_bound_is_refused(kernel: Kernel) -> None:
    with pytest.raises(KernelError, match="isn't known when compiling"):
        kernel.compile(X, 2)


_NUMBERS = st.integers(-4, 4)


def _sums(most: int) -> st.SearchStrategy[list[Affine]]:
    terms = st.dictionaries(st.integers(0, 2), _NUMBERS.filter(bool), max_size=3)
    sums = st.builds(lambda c, t: Affine(c, tuple(sorted(t.items()))), _NUMBERS, terms)
    return st.lists(sums, min_size=1, max_size=most)


@given(_sums(6), st.lists(_NUMBERS, min_size=3, max_size=3))
def test_limits_are_limits(sums: list[Affine], values: list[int]) -> None:
    def number(sum_: Affine) -> int:
        return sum_.constant + sum(values[symbol] * coefficient for symbol, coefficient in sum_.terms)

    value, *facts = sums
    for limit in limits(value, [fact for fact in facts if number(fact) <= 0]):
        assert number(value) <= number(limit)
