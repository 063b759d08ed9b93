"""What faults of slices and extents say: the real numbers, and what to write; the same in both machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tops_kit as tops
from tops_kit.engine.launch import ENGINES as BUILT


@tops.kernel
def added(x: tops.ptr(tops.f32, 1), n: tops.i32):
    s = tops.zeros(tops.f32, (16,))
    s += tops.load(x[0 : min(n, 16)])
    tops.store(x[0:16], s)


@tops.kernel
def sums(x: tops.ptr(tops.f32, 1), n: tops.i32, m: tops.i32):
    a, b = tops.load(x[0 : min(n, 64)]), tops.load(x[0 : min(m, 64)])
    tops.store(x[0 : min(n, 64)], a + b)


@tops.kernel
def chosen(x: tops.ptr(tops.f32, 1), n: tops.i32):
    a, b = tops.load(x[0:32]), tops.load(x[0 : min(n, 64)])
    tops.store(x[0:32], tops.where(a > 0.0, a, b))


@tops.kernel
def product(x: tops.ptr(tops.f32, 2), n: tops.i32):
    tops.store(x[0:16, 0:16], tops.load(x[0:16, 0:4]) @ tops.load(x[0 : min(n, 8), 0:16]))


@tops.kernel
def into_buffer(x: tops.ptr(tops.f32, 1), n: tops.i32):
    b = tops.l1(tops.f32, (8,))
    b[:] = tops.load(x[0 : min(n, 64)])
    tops.store(x[0:8], b)


@tops.kernel
def stored(x: tops.ptr(tops.f32, 1), n: tops.i32):
    tops.store(x[0:8], tops.load(x[0 : min(n, 64)]))


@tops.kernel
def part(x: tops.ptr(tops.f32, 1), y: tops.ptr(tops.f32, 1), start: tops.i32, stop: tops.i32):
    b = tops.l1(tops.f32, (64,))
    tops.load(b[start:stop], x[start:stop])
    tops.store(y[start:stop], b[start:stop])


@tops.kernel
def over(x: tops.ptr(tops.f32, 1), y: tops.ptr(tops.f32, 1), start: tops.i32, stop: tops.i32):
    b = tops.l1(tops.f32, (64,))
    tops.load(b[0 : stop - start], x[start:stop], pad=-1.0)
    tops.store(y[0 : stop - start], b[0 : stop - start])


@tops.kernel
def column(x: tops.ptr(tops.f32, 1), n: tops.i32):
    b = tops.l1(tops.f32, (32, 40))
    b[:] = 1.0
    tops.store(x[0], tops.sum(tops.vload(b[0:32, 0 : min(n, 40)], 0)))


def line(size: int = 64) -> Any:
    return np.arange(size, dtype=np.float32)


def table() -> Any:
    return np.ones((16, 16), np.float32)


_ENGINE = st.sampled_from(["oracle"] if BUILT.c() is None else ["c", "oracle"])
ENGINES: list[dict[str, Any]] = [
    {},
    {"mode": "fast"},
    {"mode": "sanitized", "quiet": True},
    {"engine": "oracle"},
]


@pytest.mark.parametrize("options", ENGINES, ids=str)
@pytest.mark.parametrize(
    ("launch", "says"),
    [
        (lambda o: added.options(**o)[1](line(), 5), "together: (16,) and (5,); take the part that fits"),
        (
            lambda o: sums.options(**o)[1](line(), 10, 12),
            "together: (10,) and (12,); take the part that fits of the",
        ),
        (lambda o: chosen.options(**o)[1](line(), 40), "together: (32,) and (40,)"),
        (lambda o: product.options(**o)[1](table(), 5), "a matrix product of (16, 4) and (5, 16)"),
        (lambda o: into_buffer.options(**o)[1](line(), 5), "together: (8,) and (5,)"),
        (lambda o: stored.options(**o)[1](line(), 5), "(8,) and (5,); name the part that fits, x[0:5]"),
        (
            lambda o: part.options(**o)[1](line(), line(), 0, -3),
            "[0, -3) on axis 0 of b ends below 0: take max(n, 0)",
        ),
        (
            lambda o: part.options(**o)[1](line(), line(), 20, 10),
            "starts past its end: test `if i < n:` before",
        ),
        (
            lambda o: part.options(**o)[1](line(), line(), 80, 80),
            "starts past its extent 64: test `if i < n:`",
        ),
        (
            lambda o: part.options(**o)[1](line(), line(), -4, -2),
            "starts below 0: only literals count from the end",
        ),
        (
            lambda o: part.options(**o)[1](line(), line(), 32, 65),
            "its extent 64: end at min(i + B, n), load with",
        ),
        (lambda o: column.options(**o)[1](line(), 5), "b is not dense"),
    ],
)
def test_faults_say_what_is_so(
    launch: Callable[[dict[str, Any]], Any], says: str, options: dict[str, Any]
) -> None:
    with pytest.raises(tops.KernelFault) as caught:
        launch(options)
    assert says in caught.value.message


@given(st.integers(-70, 70), st.integers(-70, 70), _ENGINE)
def test_a_slice_of_the_running_kernel_is_pythons_or_a_fault(start: int, stop: int, engine: str) -> None:
    y = np.zeros(64, np.float32)
    kernel = part.options(engine=engine, mode="fast")[1]
    if 0 <= start <= stop <= 64:
        kernel(line(), y, start, stop)
        assert y.nonzero()[0].tolist() == [k for k in range(start, stop) if k]
    else:
        with pytest.raises(tops.KernelFault, match="view"):
            kernel(line(), y, start, stop)
        assert not y.any()


@given(st.integers(-70, 70), st.integers(-70, 70), _ENGINE)
def test_padded_slices_don_t_run_backwards_either(start: int, stop: int, engine: str) -> None:
    y = np.zeros(64, np.float32)
    kernel = over.options(engine=engine, mode="fast")[1]
    if 0 <= stop - start <= 64:
        kernel(line(), y, start, stop)
        assert y[: stop - start].tolist() == [k if 0 <= k < 64 else -1 for k in range(start, stop)]
    else:
        with pytest.raises(tops.KernelFault, match="view"):
            kernel(line(), y, start, stop)
