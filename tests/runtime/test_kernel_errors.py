"""What a launch says to its user: one place, one reason, none of our own frames."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tops_kit as tops


@tops.kernel
def divides(x: tops.ptr(tops.f32, 1), n: tops.i32) -> None:  # type: ignore[valid-type]
    a = n / 2  # noqa: F841


@tops.kernel
def part(x: tops.ptr(tops.f32, 1), y: tops.ptr(tops.f32, 1), n: tops.i32) -> None:  # type: ignore[valid-type]
    tops.store(y[0:n], tops.load(x[0:64]))


@tops.kernel
def shows(x: tops.ptr(tops.f32, 2)) -> None:  # type: ignore[valid-type]
    t = tops.load(x[0:2, 0:2])
    print(f"{t:.1f} {t > 1.0}")


X = np.arange(64, dtype=np.float32)


@pytest.mark.parametrize("launch", [lambda: divides[1](X, 3), lambda: part[1](X, X[:9], 20)])
def test_a_refused_launch_shows_one_frame_of_ours(launch: Callable[[], Any]) -> None:
    with pytest.raises((tops.KernelError, tops.KernelFault)) as caught:
        launch()
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert len([file for file in files if "tops_kit" in file]) == 1
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_slices_outside_and_extents_that_differ_say_what_to_write() -> None:
    with pytest.raises(tops.KernelFault, match="end at min"):
        part[1](X, X[:9], 20)
    with pytest.raises(tops.KernelFault, match=r"take the part that fits of the larger one, \[0:20\]"):
        part[1](X, np.empty(64, np.float32), 20)


def test_another_type_says_how_to_convert() -> None:
    with pytest.raises(
        tops.LaunchError, match=r"x\.astype\(numpy\.float32\), or take any type: x: tops\.ptr"
    ):
        divides[1](X.astype(np.float16), 3)


def test_grids_as_tritons() -> None:
    assert part.shape((4,)) == part.shape(4)


def test_methods_are_no_kernels() -> None:
    with pytest.raises(Exception, match="is a method: kernels are functions"):

        class Model:
            @tops.kernel
            def forward(self, x: tops.ptr(tops.f32)) -> None:  # type: ignore[valid-type]
                pass


def test_a_format_goes_to_each_element_of_a_tile() -> None:
    output = shows.options(quiet=True)[1](np.array([[0.123, 1.05], [2.0, 3.99]], np.float32)).output
    assert output == ["[[0.1, 1.0],\n [2.0, 4.0]] [[False,  True],\n [ True,  True]]"]


@tops.kernel
def picks(x: tops.ptr(tops.f32, 2), i: tops.ptr(tops.i32, 2), y: tops.ptr(tops.f32, 2)) -> None:  # type: ignore[valid-type]
    tops.store(y[0:4, 0:2], tops.gather(tops.load(x[0:4, 0:8]), tops.load(i[0:4, 0:2]), axis=1))


@tops.kernel
def puts(x: tops.ptr(tops.f32, 2), i: tops.ptr(tops.i32, 2), y: tops.ptr(tops.f32, 2)) -> None:  # type: ignore[valid-type]
    b = tops.l1(tops.f32, (4, 8))
    tops.scatter_add(b, tops.load(i[0:4, 0:2]), tops.load(x[0:4, 0:2]), axis=1)
    tops.store(y[0:4, 0:8], b)


@pytest.mark.parametrize("kernel", [picks, puts])
@pytest.mark.parametrize("engine", ["c", "oracle"])
def test_an_index_outside_is_named(kernel: Any, engine: str, needs_c: None) -> None:
    x, y, index = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float32), np.zeros((4, 2), np.int32)
    index[2, 1] = 9
    index[3, 0] = -1
    with pytest.raises(
        tops.KernelFault, match=r"index 9 at \[2, 1\] of the indices is outside of axis 1, which has 8"
    ):
        kernel.options(engine=engine)[1](x, index, y)


@tops.kernel
def careless(x: tops.ptr(tops.f32, 1), n: tops.i32, far: tops.i32):
    row = tops.l1(tops.f32, (4,))
    for i in range(n):
        tops.store(x[i : i + 4], row)  # nothing wrote the row; with two threads a race
    if far > 0:
        tops.store(x[far : far + 1], tops.full(tops.f32, (1,), 1.0))


def test_the_sanitizer_tells_by_itself(needs_c: None, capsys: pytest.CaptureFixture[str]) -> None:
    strict, x = careless.options(mode="sanitized"), np.zeros(4, np.float32)
    assert strict[1](x, 0, 0).faults.clean
    assert capsys.readouterr().err == ""
    launch = strict[2](x, 1, 0)
    err = capsys.readouterr().err
    assert err == launch.faults.short() + "\n"
    assert len(launch.faults) > 1
    assert launch.faults.short(1).count("more: print(launch.faults)") == 1
    assert "^" not in err
    careless.options(mode="sanitized", quiet=True)[2](x, 1, 0)
    assert capsys.readouterr().err == ""


def test_a_fault_comes_with_what_else_was_found(needs_c: None, capsys: pytest.CaptureFixture[str]) -> None:
    strict, x = careless.options(mode="sanitized"), np.zeros(4, np.float32)
    with pytest.raises(tops.KernelFault):
        strict[1](x, 0, 4)
    assert capsys.readouterr().err == ""  # nothing but the fault
    with pytest.raises(tops.KernelFault):
        strict[1](x, 1, 4)
    err = capsys.readouterr().err
    assert "uninitialised" in err
    assert err.endswith("2 mistakes found\n")


def test_where_nothing_can_be_checked_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    careless.options(mode="sanitized", engine="oracle")[1](np.zeros(4, np.float32), 0, 0)
    assert capsys.readouterr().err.endswith("sanitizer: careless: not checked\n")
