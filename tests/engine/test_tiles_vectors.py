"""Vector registers, scalars and single elements: C on every path against the numpy twin, bit for bit."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tiles_calls import (
    SPECIAL_BITS,
    SPECIAL_FLOATS,
    Builder,
    Scalar,
    lenient,
    operation,
    paths,
    random_raw,
    raw_tile,
    scalar_bits,
    seeds,
)
from tops_kit.engine import tiles_twin
from tops_kit.engine.tiles_twin import Memory, TileFault
from tops_kit.engine.tiles_twin.numbers import narrow, widen
from tops_kit.engine.tiles_twin.operations import BINARY_NAMES, COMPARE_NAMES, UNARY_NAMES
from tops_kit.isa.dtypes import DTYPES, F32, I32, VECTOR_BYTES
from tops_kit.isa.table import UNARY_FUNCTIONS


def vector(rng, dtype):
    return np.array(random_raw(rng, dtype, VECTOR_BYTES // dtype.size_bytes)).view(np.uint8).copy()


def twin_fault(function, *arguments):
    try:
        function(*arguments)
    except TileFault as fault:
        return fault.number
    return 0


@pytest.mark.smoke
@given(st.data())
@lenient
def test_operations_on_registers(tile_library, data):
    rng = data.draw(seeds())
    dtype = data.draw(st.sampled_from(DTYPES))
    kind = data.draw(st.sampled_from(["vbinary", "vcompare", "vunary", "vfma", "vselect"]))
    names = {"vbinary": BINARY_NAMES, "vcompare": COMPARE_NAMES, "vunary": UNARY_NAMES}.get(kind)
    count = {"vbinary": 2, "vcompare": 2, "vunary": 1}.get(kind, 3)
    head = [operation(data.draw(st.sampled_from(names)))] if names else []
    registers = [np.full(VECTOR_BYTES, 7, np.uint8)] + [vector(rng, dtype) for _ in range(count)]
    if data.draw(st.booleans()) and count > 1:
        registers[1] = registers[2]
    code = data.draw(st.integers(0, 30)) if data.draw(st.integers(0, 19)) == 0 else dtype.code
    expected = [r.copy() for r in registers]
    fault = twin_fault(getattr(tiles_twin, kind), *head, *expected, code)
    for path in paths(tile_library):
        tile_library.tile_path(path)
        got = [r.copy() for r in registers]
        assert tile_library.tile_call(kind, *head, *got, code) == fault
        assert np.array_equal(got[0], expected[0]), (path, kind, head, dtype)


@given(st.data())
@lenient
def test_reductions_of_registers(tile_library, data):
    rng = data.draw(seeds())
    dtype = data.draw(st.sampled_from(DTYPES))
    op = operation(data.draw(st.sampled_from(["sum", "max", "min"])))
    register = vector(rng, dtype)
    expected = scalar_bits(tiles_twin.vreduce(op, register, dtype.code), dtype)
    for path in paths(tile_library):
        tile_library.tile_path(path)
        assert tile_library.tile_vreduce(op, register, dtype.code) == expected


@given(st.data())
@lenient
def test_load_and_store_of_registers(tile_library, data):
    build = Builder(data.draw)
    dtype, shape = build.dtype(), build.shape()
    tile = build.tile("t", dtype, shape)
    tile.space = build.draw(st.sampled_from([1, 1, 1, 1, 2, 3]))
    tile.inside = build.draw(st.integers(0, 9)) > 0
    size = int(np.prod(shape))
    i = build.draw(st.sampled_from([0, 1, size - VECTOR_BYTES // dtype.size_bytes, size, -1]))
    stores = build.draw(st.booleans())
    register = vector(build.rng, dtype)
    results = []
    for by_twin in (True, False):
        memory, own = build.scene.memory.copy(), register.copy()
        placed = tile.copy()
        placed.memory = Memory(memory, memory.ctypes.data)
        name = "vstore" if stores else "vload"
        if by_twin:
            arguments = (placed, i, own) if stores else (own, placed, i)
            fault = twin_fault(getattr(tiles_twin, name), *arguments)
        else:
            raw = raw_tile(placed)
            fault = tile_library.tile_call(name, *((raw, i, own) if stores else (own, raw, i)))
        results.append((fault, memory.tobytes(), own.tobytes()))
    assert results[0] == results[1]


@given(st.data())
@lenient
def test_making_registers(tile_library, data):
    dtype = data.draw(st.sampled_from(DTYPES))
    whole = st.integers(-(2**31), 2**31 - 1).map(Scalar)
    value = data.draw(st.floats(width=32) if dtype.is_float else whole)
    expected, got = np.zeros(VECTOR_BYTES, np.uint8), np.zeros(VECTOR_BYTES, np.uint8)
    tiles_twin.vsplat(expected, value, dtype.code)
    tile_library.tile_vmake(got, scalar_bits(value, dtype), dtype.code)
    assert np.array_equal(got, expected)
    tiles_twin.viota(expected, dtype.code)
    tile_library.tile_vmake(got, None, dtype.code)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_single_elements(tile_library, dtype):
    rng = np.random.default_rng(9)
    bits = np.concatenate([SPECIAL_FLOATS.view(np.uint32), SPECIAL_BITS,
                           rng.integers(0, 2**32, 3000, dtype=np.uint32)])  # fmt: skip
    wide = bits.view(np.float32 if dtype.is_float else np.int32)
    stored = narrow(wide, dtype)
    loaded = widen(stored, dtype).view(np.uint32)
    mask = (1 << 8 * dtype.size_bytes) - 1
    for given_bits, raw, back in zip(bits.tolist(), stored.tolist(), loaded.tolist(), strict=True):
        assert tile_library.tile_element(given_bits, dtype.code) == (raw & mask, back)


def test_every_f16_widens(tile_library):
    every = np.arange(2**16, dtype=np.uint32)
    for dtype in DTYPES[2:4]:
        expected = widen(every.astype(np.uint16), dtype)
        for path in paths(tile_library):
            tile_library.tile_path(path)
            out, source = np.zeros(2**16, np.float32), every.astype(np.uint16)
            d, a = tiles_twin.plain(out, F32), tiles_twin.plain(source, dtype)
            assert tile_library.tile_call("copy", raw_tile(d), raw_tile(a)) == 0
            assert np.array_equal(out.view(np.uint32), expected.view(np.uint32))


@given(
    st.floats(width=32) | st.sampled_from([float(x) for x in SPECIAL_FLOATS]),
    st.sampled_from(UNARY_FUNCTIONS),
)
@lenient
def test_scalars_are_as_tiles(tile_library, x, name):
    expected = np.float32(tiles_twin.scalar_function(name, np.float32(x)))
    bits = int(np.float32(x).view(np.uint32))
    for path in paths(tile_library):
        tile_library.tile_path(path)
        assert tile_library.tile_scalar(operation(name), bits) == int(expected.view(np.uint32))


def test_operations_have_the_same_numbers(repo_root):
    text = (repo_root / "tops_kit/engine/tiles/tiles.h").read_text()
    listed = re.search(r"enum \{\s*(TK_ADD.*?)TK_COUNT", text, re.S)
    assert listed
    names = re.findall(r"TK_([A-Z0-9]+)", re.sub(r"/\*.*?\*/", "", listed[1]))
    assert [n.lower() for n in names] == list(tiles_twin.operations.NAMES)
    assert I32.code == 1
