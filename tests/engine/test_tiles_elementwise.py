"""Tile operations by elements: C on every path against the numpy twin, bit for bit."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.tiles_calls import Builder, check, lenient, operation
from tops_kit.engine.tiles_twin.operations import BINARY_NAMES, COMPARE_NAMES, UNARY_NAMES
from tops_kit.isa.dtypes import BOOL, DTYPES


@pytest.mark.smoke
@given(st.data())
@lenient
def test_binary_and_compare_in_all_forms(tile_library, data):
    build = Builder(data.draw)
    name = build.draw(st.sampled_from(BINARY_NAMES + COMPARE_NAMES))
    kind = "compare" if name in COMPARE_NAMES else "binary"
    dtype, shape = build.dtype(), build.shape()
    build.tile("d", build.other(BOOL if kind == "compare" else dtype), shape)
    form = build.draw(st.sampled_from(["", "_s", "_rs"]))
    arguments = []
    for side in "ab":
        if form == {"a": "_rs", "b": "_s"}[side]:
            arguments.append(build.number(dtype))
        else:
            build.tile(side, build.other(dtype), build.narrowed(shape))
            build.overlap(side, "d")
            arguments.append(side)
    if form:
        scalar_type = build.scene.tiles["a" if form == "_s" else "b"].dtype
        if scalar_type.is_float != dtype.is_float:
            return
        dtype = scalar_type
    check(tile_library, build.call(kind + form, operation(name), "d", *arguments, typed=dtype))


@given(st.data())
@lenient
def test_unary(tile_library, data):
    build = Builder(data.draw)
    name = build.draw(st.sampled_from(UNARY_NAMES))
    dtype, shape = build.dtype(), build.shape()
    build.tile("d", build.other(dtype), shape)
    build.tile("a", dtype, build.narrowed(shape))
    build.overlap("a", "d")
    check(tile_library, build.call("unary", operation(name), "d", "a"))


@given(st.data())
@lenient
def test_fma_and_select(tile_library, data):
    build = Builder(data.draw)
    dtype, shape = build.dtype(), build.shape()
    selects = build.draw(st.booleans())
    build.tile("d", build.other(dtype), shape)
    for name in "abc":
        build.tile(name, build.other(BOOL if selects and name == "c" else dtype), build.narrowed(shape))
        build.overlap(name, "d")
    order = ("d", "c", "a", "b") if selects else ("d", "a", "b", "c")
    check(tile_library, build.call("select" if selects else "fma", *order))


@given(st.data())
@lenient
def test_copy_converts(tile_library, data):
    build = Builder(data.draw)
    shape = build.shape()
    build.tile("d", build.dtype(), shape)
    build.tile("a", build.dtype(), build.narrowed(shape))
    build.overlap("a", "d")
    check(tile_library, build.call("copy", "d", "a"))


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
@given(data=st.data())
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=6)
def test_every_conversion(tile_library, source, to, data):
    build = Builder(data.draw)
    shape = [build.draw(st.sampled_from([300, 37]))]
    build.tile("d", to, shape)
    build.tile("a", source, shape)
    check(tile_library, build.call("copy", "d", "a"))


@given(st.data())
@lenient
def test_fill_and_iota(tile_library, data):
    build = Builder(data.draw)
    dtype = build.dtype()
    shape = build.shape()
    build.tile("d", dtype, shape)
    if build.draw(st.booleans()):
        scene = build.call("fill", "d", build.number(dtype), typed=dtype)
    else:
        axis = build.draw(st.integers(0, max(len(shape) - 1, 0)))
        scene = build.call("iota", "d", build.number(dtype), build.number(dtype), axis, typed=dtype)
    check(tile_library, scene)


@given(st.data())
@lenient
def test_result_tiles_take_extents(tile_library, data):
    build = Builder(data.draw)
    dtype = build.dtype()
    shape = build.shape(1)
    more = [1] * build.draw(st.integers(0, 3 - len(shape)))
    capacity = [n + build.draw(st.integers(-1, 2)) if n else 1 for n in shape]
    build.tile("d", dtype, more + [max(n, 1) for n in capacity], result=build.draw(st.integers(0, 4)) > 0)
    count = build.draw(st.integers(1, 3))
    for name in "abc"[:count]:
        build.tile(name, dtype, build.narrowed(shape))
    check(tile_library, build.call("shape_broadcast", "d", *"abc"[:count]))
