"""Transfers: C against the numpy twin, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tiles_calls import Builder, check, lenient
from tops_kit.engine.tiles_twin.tile import SPACE_L2, SPACE_L3


def spaces(build):
    """Put the tiles into memories of any kind."""
    for tile in build.scene.tiles.values():
        tile.space = build.draw(st.sampled_from([1, SPACE_L2, SPACE_L3, SPACE_L3]))


def with_ones(build, shape):
    """The shape with axes of extent 1 put in or left out."""
    out = [n for n in shape if n != 1 or build.draw(st.booleans())]
    while len(out) < 5 and build.draw(st.integers(0, 2)) == 0:
        out.insert(build.draw(st.integers(0, len(out))), 1)
    return out


@pytest.mark.smoke
@given(st.data())
@lenient
def test_copy_set_and_add(tile_library, data):
    build = Builder(data.draw)
    dtype, shape = build.dtype(), build.shape(0, 4)
    build.tile("d", build.other(dtype), shape)
    name = build.draw(st.sampled_from(["dma_copy", "dma_copy", "dma_copy", "dma_set", "atomic_add"]))
    if name == "dma_set":
        scene = build.call(name, "d", build.number(build.scene.tiles["d"].dtype),
                           typed=build.scene.tiles["d"].dtype)  # fmt: skip
    else:
        own = with_ones(build, shape) if build.draw(st.booleans()) else build.narrowed(shape)
        build.tile("a", dtype, own)
        build.overlap("a", "d")
        scene = build.call(name, "d", "a")
    spaces(build)
    if name == "atomic_add" and build.draw(st.integers(0, 4)):
        build.scene.tiles["a"].space = 1
    check(tile_library, scene)


@given(st.data())
@lenient
def test_large_transpositions(tile_library, data):
    build = Builder(data.draw)
    dtype = build.dtype()
    shape = [build.draw(st.integers(1, 150)), build.draw(st.integers(1, 70))]
    build.tile("d", dtype, shape)
    tile = build.tile("a", dtype, shape[::-1])
    tile.n.reverse()
    tile.stride.reverse()
    tile.hi = list(tile.n)
    check(tile_library, build.call("dma_copy", "d", "a"))


def reach_outside(build, name):
    """Make some axes of a view reach outside of what lies there."""
    tile = build.scene.tiles[name]
    tile.inside = False
    for axis, n in enumerate(tile.n):
        if build.draw(st.booleans()):
            before, after = build.draw(st.integers(-3, 9)), build.draw(st.integers(-3, 9))
            tile.lo[axis], tile.hi[axis] = before, n - after
    # what does not exist must not be touched: it lies where no memory is
    for axis, stride in enumerate(tile.stride):
        low = min(max(tile.lo[axis], 0), tile.n[axis])
        tile.offset -= low * stride if build.draw(st.booleans()) and low * stride <= tile.offset else 0


@given(st.data())
@lenient
def test_pad_and_clip(tile_library, data):
    build = Builder(data.draw)
    dtype, shape = build.dtype(), build.shape(0, 4)
    pads = build.draw(st.booleans())
    build.tile("d", build.other(dtype), shape)
    own = with_ones(build, shape) if build.draw(st.integers(0, 3)) == 0 else build.narrowed(shape)
    build.tile("a", dtype, own)
    if build.draw(st.integers(0, 3)) == 0:
        build.overlap("a", "d")
    if build.draw(st.integers(0, 5)):
        reach_outside(build, "a" if pads else "d")
    value = build.number(dtype)
    spaces(build)
    scene = build.call("dma_pad", "d", "a", value, typed=dtype) if pads else build.call("dma_clip", "d", "a")
    check(tile_library, scene)


def test_what_lies_outside_is_neither_read_nor_written(tile_library):
    """Views that begin far outside of the memory: only what exists is touched."""
    from tests.engine.tiles_calls import Scene, run_c, run_twin
    from tops_kit.engine.tiles_twin import Memory, Tile
    from tops_kit.isa.dtypes import F32

    memory = np.arange(256, dtype=np.float32).view(np.uint8)
    far = Tile(Memory(memory, 0), -(1 << 40), F32, [1 << 20], [1 << 20], [0], [0], inside=False)
    far.lo, far.hi = [1 << 20], [1 << 20]
    near = Tile(Memory(memory, 0), 0, F32, [8], [4])
    over = Tile(Memory(memory, 0), -4 * 5, F32, [8], [4], [5], [8], SPACE_L3, inside=False)
    for name, arguments, tiles in (
        ("dma_pad", ["d", "a", 1.5], {"d": near, "a": over}),
        ("dma_clip", ["d", "a"], {"d": over, "a": near}),
        ("dma_clip", ["d", "a"], {"d": far, "a": Tile(Memory(memory, 0), 0, F32, [1], [4])}),
    ):
        scene = Scene(name, arguments, memory.copy(), tiles, typed=F32)
        assert run_c(tile_library, scene, tile_library.tile_path()).same(run_twin(scene))
