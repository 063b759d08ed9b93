"""Matrix products: C on every path against the numpy twin, bit for bit, and against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tiles_calls import Builder, check, lenient
from tops_kit.engine import tiles_twin
from tops_kit.isa.dtypes import DTYPES, F32, accumulator

EXTENTS = [1, 2, 3, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 40, 0]


@pytest.mark.smoke
@given(st.data())
@lenient
def test_products(tile_library, data):
    build = Builder(data.draw)
    dtype = build.dtype()
    m, n, k = (build.draw(st.sampled_from(EXTENTS)) for _ in range(3))
    batch = build.draw(st.sampled_from([None, None, 1, 2, 3]))
    a, b, d = [m, k], [k, n], [m, n]
    if batch is not None:
        d = [batch, *d]
        a = [build.draw(st.sampled_from([1, batch])), *a]
        b = [batch, *b] if a[0] != batch or build.draw(st.booleans()) else b
        if a[0] == 1 and build.draw(st.booleans()) and len(b) == 3:
            a = a[1:]
    build.tile("d", build.other(accumulator(dtype)), d)
    build.tile("a", build.other(dtype), a)
    build.tile("b", dtype, b)
    build.overlap("a", "d")
    build.overlap("b", "d")
    check(tile_library, build.call(build.draw(st.sampled_from(["mma", "matmul"])), "d", "a", "b"))


@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
@pytest.mark.parametrize("transposed", ["", "a", "b"])
def test_products_larger_than_a_block(tile_library, dtype, transposed):
    for m, n, k in ((130, 37, 300), (13, 70, 515), (260, 5, 130), (1, 64, 270)):
        draw = fixed(hash((m, n, k)) % 1000)
        build = Builder(draw)
        build.tile("d", accumulator(dtype), [m, n])
        for name, rows, columns in (("a", m, k), ("b", k, n)):
            if name == transposed:
                tile = build.tile(name, dtype, [columns, rows])
                tile.n.reverse()
                tile.stride.reverse()
                tile.hi = list(tile.n)
            else:
                build.tile(name, dtype, [rows, columns])
        check(tile_library, build.call("mma", "d", "a", "b"))


def fixed(seed):
    """A `draw` for a Builder that takes dense views and one seed."""
    rng = np.random.default_rng(seed)
    return lambda strategy: rng if "seeds" in repr(strategy) else 0


def test_floats_agree_with_numpy(tile_library):
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(64, 200)).astype(np.float32), rng.normal(size=(200, 48)).astype(np.float32)
    out = np.zeros((64, 48), np.float32)
    tiles_twin.matmul(tiles_twin.plain(out), tiles_twin.plain(a), tiles_twin.plain(b))
    assert np.allclose(out, a @ b, rtol=1e-4, atol=1e-4)


def test_one_accumulator_in_order_of_k():
    a = np.array([[1e8, 1.0, -1e8]], np.float32)
    b = np.ones((3, 1), np.float32)
    out = np.full((1, 1), 3.0, np.float32)
    tiles_twin.mma(tiles_twin.plain(out, F32), tiles_twin.plain(a), tiles_twin.plain(b))
    assert out[0, 0] == np.float32(np.float32(np.float32(3 + 1e8) + 1) - 1e8)
