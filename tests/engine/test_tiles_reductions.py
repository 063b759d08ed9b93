"""Reductions, running sums, gather and scatter: C on every path against the numpy twin, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tiles_calls import Builder, check, lenient, operation
from tops_kit.engine import tiles_twin
from tops_kit.isa.dtypes import BOOL, F32, I8, I16, I32, U8, accumulator
from tops_kit.isa.table import REDUCE


def result_type(name, dtype):
    if name == "sum":
        return accumulator(dtype)
    if name in ("argmax", "argmin"):
        return I32
    return BOOL if name in ("any", "all") else dtype


@pytest.mark.smoke
@given(st.data())
@lenient
def test_reduce(tile_library, data):
    build = Builder(data.draw)
    name = build.draw(st.sampled_from(REDUCE))
    dtype, shape = build.dtype(), build.shape(1)
    axis = build.draw(st.integers(0, len(shape) - 1))
    out = [1 if k == axis else n for k, n in enumerate(shape)]
    if build.draw(st.integers(0, 9)) == 0 and len(out) < 3:
        out = [1, *out]
    build.tile("d", build.other(result_type(name, dtype)), out)
    build.tile("a", dtype, shape)
    build.overlap("a", "d")
    check(tile_library, build.call("reduce", operation(name), "d", "a", axis))


@given(st.data())
@lenient
def test_long_rows_are_summed_in_lanes(tile_library, data):
    build = Builder(data.draw)
    name = build.draw(st.sampled_from(["sum", "max", "min", "argmax", "argmin"]))
    dtype = build.dtype()
    shape = [build.draw(st.integers(1, 3)), build.draw(st.integers(200, 1100))]
    build.tile("d", result_type(name, dtype), [shape[0], 1])
    build.tile("a", dtype, shape)
    check(tile_library, build.call("reduce", operation(name), "d", "a", 1))


@given(st.data())
@lenient
def test_cumsum(tile_library, data):
    build = Builder(data.draw)
    dtype, shape = build.dtype(), build.shape(1)
    axis = build.draw(st.integers(0, len(shape) - 1))
    build.tile("d", build.draw(st.sampled_from([dtype, accumulator(dtype), build.other(dtype)])), shape)
    build.tile("a", dtype, shape)
    build.overlap("a", "d")
    check(tile_library, build.call("cumsum", "d", "a", axis))


def put_indices(build, name, below):
    """Make the elements of an index tile valid ones, but now and then."""
    tile = build.scene.tiles[name]
    if 0 in tile.n or not tile.dtype.is_int or build.draw(st.integers(0, 9)) == 0:
        return
    twin = tile.copy()
    twin.memory = tiles_twin.Memory(build.scene.memory, 0)
    high = max(min(below, 128), 1)
    twin.raw()[...] = build.rng.integers(0, high, tile.n)


@given(st.data())
@lenient
def test_gather(tile_library, data):
    build = Builder(data.draw)
    dtype, shape = build.dtype(), build.shape(1)
    axis = build.draw(st.integers(0, len(shape) - 1))
    out = list(shape)
    out[axis] = build.draw(st.sampled_from([1, 2, 5, 33]))
    source = [n if k == axis or build.draw(st.integers(0, 3)) else 1 for k, n in enumerate(shape)]
    index = [n if k == axis or build.draw(st.integers(0, 1)) else 1 for k, n in enumerate(out)]
    if build.draw(st.booleans()):
        index = index[build.draw(st.integers(0, axis)) :]
    full = [1] * (len(out) - len(index)) + index
    for k, (s, i) in enumerate(zip(source, full, strict=True)):
        out[k] = max(s, i) if k != axis and 0 not in (s, i) else i
    build.tile("d", build.other(dtype), out)
    build.tile("a", dtype, source)
    build.tile("b", build.other(build.draw(st.sampled_from([I32, I32, I16, I8, U8]))), index)
    put_indices(build, "b", source[axis])
    if build.draw(st.integers(0, 9)) == 0:
        build.overlap("a", "d")
    check(tile_library, build.call("gather", "d", "a", "b", axis))


@given(st.data())
@lenient
def test_scatter(tile_library, data):
    build = Builder(data.draw)
    dtype, shape = build.dtype(), build.shape(1, elements=300)
    axis = build.draw(st.integers(0, len(shape) - 1))
    into = list(shape)
    into[axis] = build.draw(st.sampled_from([1, 2, 5, 33]))
    build.tile("d", build.other(dtype), into)
    build.tile("a", dtype, build.narrowed(shape))
    index = [n if k == axis or build.draw(st.integers(0, 1)) else 1 for k, n in enumerate(shape)]
    build.tile("b", build.other(build.draw(st.sampled_from([I32, I32, I16, I8, U8]))), index)
    put_indices(build, "b", into[axis])
    name = build.draw(st.sampled_from(["scatter", "scatter_add"]))
    check(tile_library, build.call(name, "d", "b", "a", axis))


def test_reductions_agree_with_numpy():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(7, 1000)).astype(np.float32)
    for axis in (0, 1):
        out = np.zeros([1 if k == axis else n for k, n in enumerate(x.shape)], np.float32)
        tiles_twin.reduce(tiles_twin.SUM, tiles_twin.plain(out), tiles_twin.plain(x), axis)
        assert np.allclose(out, x.sum(axis, keepdims=True, dtype=np.float64), rtol=1e-5, atol=1e-5)
        tiles_twin.reduce(tiles_twin.MAX, tiles_twin.plain(out), tiles_twin.plain(x), axis)
        assert np.array_equal(out, x.max(axis, keepdims=True))
    whole = np.zeros((7, 1000), np.float32)
    tiles_twin.cumsum(tiles_twin.plain(whole), tiles_twin.plain(x), 1)
    assert np.array_equal(whole, np.cumsum(x, 1, dtype=np.float32))


def test_nan_is_the_extreme_and_the_first_of_equals_wins():
    x = np.array([[1, 3, np.nan, np.nan, 3], [0.0, -0.0, 0.0, -1, -1]], np.float32)
    at = np.zeros((2, 1), np.int32)
    for op, expected in ((tiles_twin.ARGMAX, [2, 0]), (tiles_twin.ARGMIN, [2, 3])):
        tiles_twin.reduce(op, tiles_twin.plain(at, I32), tiles_twin.plain(x, F32), 1)
        assert at[:, 0].tolist() == expected
