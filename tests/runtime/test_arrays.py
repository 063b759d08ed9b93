"""Arrays of a device: shapes, types, views, contents, and how other libraries get at them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tops_kit as tops

from .programs import floats

TYPES = (np.float32, np.float16, np.int32, np.int16, np.int8, np.uint8, np.bool_)


@pytest.mark.parametrize("dtype", TYPES)
def test_contents_come_back(dtype: Any) -> None:
    x = (floats(7, 20) * 3).astype(dtype)
    y = tops.array(x)
    assert (y.shape, y.ndim, y.size, y.nbytes, y.itemsize) == (
        x.shape, x.ndim, x.size, x.nbytes, x.itemsize,
    )  # fmt: skip
    assert np.array_equal(y.numpy(), x)
    assert y.numpy().dtype == x.dtype
    assert np.array_equal(np.asarray(y), x)
    assert np.array_equal(tops.asarray(x.T).numpy(), x.T)
    assert tops.asarray(y) is y
    assert repr(y) == f"<Array (7, 20) {y.dtype} on device 0>"


def test_python_numbers_and_lists() -> None:
    assert tops.array([1, 2, 3]).dtype == tops.i32
    assert tops.array([1.5, 2]).dtype == tops.f32
    assert tops.array(True).dtype == tops.bool_
    assert tops.array(2.5).item() == 2.5
    assert float(tops.array([2.5])) == 2.5
    assert int(tops.array(7)) == 7
    assert bool(tops.array(0)) is False
    assert tops.array([[1, 2], [3, 4]], tops.f16).tolist() == [[1, 2], [3, 4]]
    assert tops.full((2, 2), 7).tolist() == [[7, 7], [7, 7]]
    assert tops.full(3, 0.5, tops.f16).numpy().tolist() == [0.5] * 3
    assert tops.zeros_like(np.ones(4, np.int8)).dtype == tops.i8
    assert tops.empty_like(tops.zeros((2, 3), tops.f16)).shape == (2, 3)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: tops.array(np.zeros(3)), "the array is float64: the GCU has no 64-bit types"),
        (lambda: tops.array([1 << 40]), "do not fit 32 bits"),
        (lambda: tops.array(["a"]), "devices hold numbers|is an array of|kernels take|GCU has"),
        (lambda: tops.empty((1,) * 6), "6 axes: at most 5"),
        (lambda: tops.empty((2, -1)), "a shape is an int or a tuple of ints"),
        (lambda: tops.empty(3, "f64"), "the GCU has no 64-bit types such as f64"),
        (lambda: tops.zeros(3).reshape(2, 2), "cannot reshape"),
        (lambda: tops.zeros(3)[[0, 1]], "not list: tops.gather does that in a kernel"),
        (lambda: tops.zeros(3)[True], "not bool"),
        (lambda: tops.zeros(3).item(), "has 3 elements"),
        (lambda: tops.zeros(3).assign(np.zeros(4, "f4")), r"an array of \(4,\) does not fit"),
        (lambda: tops.zeros(3).assign(tops.zeros(3, tops.i32)), "is of another type"),
        (lambda: tops.zeros(3).numpy(np.zeros(3, "f8")), "does not fit a host array"),
        (lambda: tops.Array(), "arrays are made by"),
    ],
)
def test_what_is_wrong_is_told(make: Any, complaint: str) -> None:
    with pytest.raises(tops.TopsError, match=complaint) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_tile_is_no_array() -> None:
    from tops_kit.topscc.language import OutsideKernelError

    with pytest.raises(OutsideKernelError, match=r"inside of kernels only; on the host shape comes first"):
        tops.zeros(tops.f32, (4, 4))

    @tops.kernel
    def both(y: tops.ptr(tops.f32, 2)):
        tops.memset(y[0:1], 5.0)
        tops.store(y[1:3], tops.zeros(tops.f32, (2, 4)))
        tops.store(y[3:4], tops.full(tops.f32, (1, 4), 2.0))

    y = tops.full((4, 4), 9.0)
    both[1](y)
    assert y.numpy()[:, 0].tolist() == [5, 0, 0, 2]


INDICES = [
    (1,), (-1,), (slice(2, 5),), (slice(None, None, 2), 3), (..., 0), (None, 1),
    (slice(5, 1, -2), slice(1, None)),
    (slice(3, 3),), (2, 3), (slice(-3, None), None, slice(None, None, -1)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES)
def test_views_are_numpys(index: Any) -> None:
    x = floats(6, 5)
    y = tops.array(x)
    view = y[index]
    assert isinstance(view, tops.Array)
    assert view.shape == np.asarray(x[index]).shape
    assert np.array_equal(view.numpy(), x[index])
    x[index] = 7
    y[index] = 7
    assert np.array_equal(y.numpy(), x)
    rows = floats(*np.asarray(x[index]).shape, seed=3)
    x[index] = rows
    y[index] = rows
    assert np.array_equal(y.numpy(), x)
    y[index] = tops.array(rows * 2)
    x[index] = rows * 2
    assert np.array_equal(y.numpy(), x)


def test_shapes_change_as_numpys() -> None:
    x = floats(4, 6)
    y = tops.array(x)
    assert np.array_equal(y.reshape(2, -1).numpy(), x.reshape(2, -1))
    assert np.array_equal(y.reshape((24,)).numpy(), x.ravel())
    assert np.array_equal(y.T.reshape(3, 8).numpy(), x.T.reshape(3, 8))
    assert np.array_equal(y.transpose(1, 0)[2].numpy(), x.T[2])
    assert np.array_equal(y[:, None].squeeze().numpy(), x)
    assert np.array_equal(y.view(tops.i32).numpy(), x.view(np.int32))
    assert np.array_equal(y.view(tops.f16).numpy(), x.view(np.float16), equal_nan=True)
    copied = y.T.copy()
    assert copied.is_contiguous
    assert np.array_equal(copied.numpy(), x.T)
    y.reshape(-1)[0] = 5
    assert y.numpy()[0, 0] == 5
    assert [float(row[0]) for row in y] == y.numpy()[:, 0].tolist()
    assert len(y) == 4
    out = np.empty((6, 4), np.float32)
    assert y.T.numpy(out) is out
    assert np.array_equal(out, y.numpy().T)


@settings(max_examples=40, deadline=None)
@given(
    arrays.arrays(np.int16, arrays.array_shapes(max_dims=4, max_side=6)).flatmap(
        lambda x: st.tuples(
            st.just(x), arrays.basic_indices(x.shape, allow_newaxis=False, allow_ellipsis=True)
        )
    )
)
def test_any_view_is_numpys(case: tuple[np.ndarray[Any, Any], Any]) -> None:
    x, index = case
    y = tops.array(x)
    assert np.array_equal(y[index].numpy(), x[index])
    y[index] = 3
    x[index] = 3
    assert np.array_equal(y.numpy(), x)


def test_arrays_of_no_axes_or_elements() -> None:
    x = tops.array(3.0)
    assert x.shape == ()
    assert x.numpy() == 3
    assert x[...].item() == 3
    empty = tops.zeros((0, 4))
    assert empty.numpy().shape == (0, 4)
    empty[...] = 1
    assert tops.array(np.zeros((0,), "f4")).size == 0


def test_bfloat16_is_held_as_it_is() -> None:
    x = np.array([1.0, -2.5, 3.140625, 1e30, np.inf, np.nan], np.float32)
    y = tops.array(x, tops.bf16)
    assert y.dtype == tops.bf16
    assert y.bits().dtype == np.uint16
    back = y.numpy().astype(np.float32)
    assert np.allclose(back, x, rtol=2**-8, equal_nan=True)
    bits = tops.array(y.bits(), tops.bf16)
    assert np.array_equal(bits.bits(), y.bits())
    out = np.empty(6, np.float32)
    y.numpy(out)
    assert np.array_equal(out, back, equal_nan=True)
    y.fill(2.5)
    assert y.numpy().astype(np.float32).tolist() == [2.5] * 6


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@settings(max_examples=50, deadline=None)
def test_bfloat16_rounds_to_the_nearest(value: float) -> None:
    from tops_kit.isa.dtypes import BF16
    from tops_kit.runtime.arrays import host_array

    bits = int(host_array(np.float32(value), BF16))
    wide = np.uint32(int(np.float32(value).view(np.uint32)))
    low, high = int(wide) >> 16, (int(wide) >> 16) + 1
    rest = int(wide) & 0xFFFF
    expected = high if rest > 0x8000 or (rest == 0x8000 and low & 1) else low
    assert bits == expected


def test_bfloat16_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(5, 4).bfloat16()
    y = tops.asarray(x)
    assert y.dtype == tops.bf16
    assert torch.equal(torch.from_dlpack(y), x)
    assert tops.empty_like(x).dtype == tops.bf16


def test_other_libraries_get_copies() -> None:
    x = tops.array(floats(4))
    taken = np.from_dlpack(x)
    x.fill(0)
    assert np.array_equal(taken, floats(4))
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="only be copied"):
        x.__dlpack__(copy=False)
    with pytest.raises(ValueError, match="only be copied"):
        np.asarray(x, copy=False)
    assert np.asarray(x, np.float64).dtype == np.float64
    torch = pytest.importorskip("torch")
    assert torch.from_dlpack(x).tolist() == [0] * 4
    assert torch.from_numpy(np.asarray(x)).tolist() == [0] * 4
    assert tops.asarray(torch.ones(3, requires_grad=True)).tolist() == [1] * 3
