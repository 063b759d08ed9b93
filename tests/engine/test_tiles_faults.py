"""Every fault that the tile library returns: C and twin agree, and nothing has been written."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.tiles_calls import Scalar, Scene, operation, paths, raw_tile, run_c, run_twin
from tops_kit.engine import tiles_twin
from tops_kit.engine.tiles_twin import Memory, Tile
from tops_kit.isa.dtypes import BF16, BOOL, F16, F32, I8, I16, I32, U8
from tops_kit.isa.faults import BY_NAME

L2, L3 = 2, 3


def scene(name, *arguments, typed=None, fill=1, **tiles):
    """Tiles by name: (dtype, extents) or (dtype, extents, changes)."""
    memory = np.full(1 << 14, fill, np.uint8)
    made, offset = {}, 128
    for key, (dtype, extents, *changes) in tiles.items():
        made[key] = Tile.dense(Memory(memory, 0), offset, dtype, tuple(extents))
        for change in changes:
            for attribute, value in change.items():
                setattr(made[key], attribute, value)
        offset += 1024
    return Scene(name, list(arguments), memory, made, typed=typed)


op = operation
F4 = (F32, [4])
OUTSIDE = {"inside": False, "lo": [0], "hi": [2]}

CASES = [
    ("space", scene("binary", op("add"), "d", "a", "b", d=F4, a=F4, b=(F32, [4], {"space": L3}))),
    ("space", scene("binary_s", op("add"), "d", "a", 1.0, typed=F32, d=(F32, [4], {"space": L2}), a=F4)),
    ("space", scene("mma", "d", "a", "b", d=(F32, [2, 2]), a=(F32, [2, 2]), b=(F32, [2, 2], {"space": L2}))),
    ("space", scene("reduce", op("sum"), "d", "a", 0, d=(F32, [1]), a=(F32, [4], {"space": 0}))),
    ("space", scene("dma_copy", "d", "a", d=F4, a=(F32, [4], {"space": 0}))),
    ("space", scene("dma_set", "d", 1.0, typed=F32, d=(F32, [4], {"space": 0}))),
    ("space", scene("atomic_add", "d", "a", d=(F32, [4], {"space": L3}), a=(F32, [4], {"space": L3}))),
    ("space", scene("fill", "d", 1.0, typed=F32, d=(F32, [4], {"space": L3}))),
    ("bounds", scene("unary", op("exp"), "d", "a", d=F4, a=(F32, [4], OUTSIDE))),
    ("bounds", scene("select", "d", "c", "a", "b", d=(F32, [4], OUTSIDE), c=(BOOL, [4]), a=F4, b=F4)),
    ("bounds", scene("dma_copy", "d", "a", d=F4, a=(F32, [4], OUTSIDE))),
    ("bounds", scene("dma_pad", "d", "a", 0.0, typed=F32, d=(F32, [4], OUTSIDE), a=F4)),
    ("bounds", scene("dma_clip", "d", "a", d=F4, a=(F32, [4], OUTSIDE))),
    ("bounds", scene("dma_set", "d", 1.0, typed=F32, d=(F32, [4], OUTSIDE))),
    ("bounds", scene("atomic_add", "d", "a", d=(F32, [4], OUTSIDE), a=F4)),
    ("type", scene("binary", op("add"), "d", "a", "b", d=F4, a=F4, b=(F16, [4]))),
    ("type", scene("binary", op("and"), "d", "a", "b", d=F4, a=F4, b=F4)),
    ("type", scene("binary_s", op("shl"), "d", "a", 1.0, typed=BF16, d=(BF16, [4]), a=(BF16, [4]))),
    ("type", scene("compare", op("lt"), "d", "a", "b", d=F4, a=F4, b=F4)),
    ("type", scene("unary", op("exp"), "d", "a", d=(I32, [4]), a=(I32, [4]))),
    ("type", scene("unary", op("not"), "d", "a", d=F4, a=F4)),
    ("type", scene("reduce", op("sum"), "d", "a", 0, d=(F16, [1]), a=(F16, [4]))),
    ("type", scene("reduce", op("argmax"), "d", "a", 0, d=(F32, [1]), a=F4)),
    ("type", scene("cumsum", "d", "a", 0, d=(I16, [4]), a=F4)),
    ("type", scene("fma", "d", "a", "b", "c", d=F4, a=F4, b=F4, c=(I32, [4]))),
    ("type", scene("select", "d", "c", "a", "b", d=F4, c=(U8, [4]), a=F4, b=F4)),
    ("type", scene("gather", "d", "a", "b", 0, d=F4, a=F4, b=(BOOL, [4]))),
    ("type", scene("gather", "d", "a", "b", 0, d=F4, a=F4, b=F4)),
    ("type", scene("scatter", "d", "b", "a", 0, d=F4, b=(I32, [4]), a=(I32, [4]))),
    ("type", scene("mma", "d", "a", "b", d=(F16, [2, 2]), a=(F16, [2, 2]), b=(F16, [2, 2]))),
    ("type", scene("mma", "d", "a", "b", d=(I32, [2, 2]), a=(BOOL, [2, 2]), b=(BOOL, [2, 2]))),
    ("type", scene("dma_copy", "d", "a", d=F4, a=(I32, [4]))),
    ("type", scene("atomic_add", "d", "a", d=F4, a=(I32, [4]))),
    ("shape", scene("binary", op("add"), "d", "a", "b", d=F4, a=F4, b=(F32, [3]))),
    ("shape", scene("binary", op("add"), "d", "a", "b", d=F4, a=(F32, [2, 4]), b=F4)),
    ("shape", scene("copy", "d", "a", d=(F16, [4]), a=(F32, [5]))),
    ("shape", scene("copy", "d", "a", d=(F32, [4, 1]), a=F4)),
    ("shape", scene("reduce", op("sum"), "d", "a", 1, d=(F32, [1]), a=F4)),
    ("shape", scene("reduce", op("sum"), "d", "a", 0, d=(F32, [2]), a=F4)),
    ("shape", scene("reduce", op("max"), "d", "a", 0, d=(F32, [1]), a=(F32, [0]))),
    ("shape", scene("reduce", op("argmin"), "d", "a", 1, d=(I32, [2, 1]), a=(F32, [2, 0]))),
    ("shape", scene("cumsum", "d", "a", 2, d=F4, a=F4)),
    ("shape", scene("iota", "d", Scalar(0), Scalar(1), 1, typed=I32, d=(I32, [4]))),
    ("shape", scene("gather", "d", "a", "b", 0, d=(F32, [3]), a=F4, b=(I32, [2]))),
    ("shape", scene("gather", "d", "a", "b", 1, d=(F32, [3]), a=F4, b=(I32, [3]))),
    ("shape", scene("scatter", "d", "b", "a", 0, d=(F32, [4, 2]), b=(I32, [4, 1]), a=(F32, [4, 3]))),
    ("shape", scene("scatter", "d", "b", "a", 0, d=F4, b=(I32, [3]), a=(F32, [2]))),
    ("shape", scene("mma", "d", "a", "b", d=(F32, [2, 2]), a=(F32, [2, 3]), b=(F32, [2, 2]))),
    ("shape", scene("mma", "d", "a", "b", d=(F32, [2, 3]), a=(F32, [2, 2]), b=(F32, [2, 2]))),
    ("shape", scene("matmul", "d", "a", "b", d=F4, a=F4, b=F4)),
    ("shape", scene("dma_copy", "d", "a", d=F4, a=(F32, [3]))),
    ("shape", scene("dma_copy", "d", "a", d=(F32, [2, 3]), a=(F32, [3, 2]))),
    ("shape", scene("dma_copy", "d", "a", d=(F32, [2, 1, 3]), a=(F32, [2, 3, 1]))),
    ("divide", scene("binary", op("div"), "d", "a", "b", fill=0, d=(I32, [4]), a=(I32, [4]), b=(I32, [4]))),
    ("divide", scene("binary_s", op("mod"), "d", "a", Scalar(0), typed=I8, d=(I8, [4]), a=(I8, [4]))),
    ("divide", scene("binary_s", op("mod"), "d", "a", Scalar(256), typed=I8, d=(I8, [4]), a=(I8, [4]))),
    ("divide", scene("binary_rs", op("mod"), "d", Scalar(3), "b", typed=U8, fill=0, d=(U8, [4]), b=(U8, []))),
    ("gather", scene("gather", "d", "a", "b", 0, fill=4, d=F4, a=F4, b=(U8, [4]))),
    ("gather", scene("gather", "d", "a", "b", 0, fill=255, d=F4, a=F4, b=(I32, [4]))),
    ("gather", scene("scatter", "d", "b", "a", 0, fill=4, d=F4, b=(I8, [4]), a=F4)),
    ("gather", scene("scatter_add", "d", "b", "a", 0, fill=255, d=F4, b=(I8, [4]), a=F4)),
]


NAMES = [f"{fault}-{case.name}-{k}" for k, (fault, case) in enumerate(CASES)]


@pytest.mark.parametrize(("fault", "case"), CASES, ids=NAMES)
def test_faults(request, fault, case):
    expected = run_twin(case)
    assert expected.fault == BY_NAME[fault].number
    assert np.array_equal(expected.memory, case.memory)
    library = request.getfixturevalue("tile_library")
    for path in paths(library):
        assert run_c(library, case, path).same(expected), path


FINE = [
    # division by 0 of floats, of nothing, and empty axes are no faults
    scene("binary", op("div"), "d", "a", "b", fill=0, d=F4, a=F4, b=F4),
    scene("binary_s", op("div"), "d", "a", Scalar(0), typed=I32, d=(I32, [0]), a=(I32, [0])),
    scene("reduce", op("sum"), "d", "a", 0, d=(F32, [1]), a=(F32, [0])),
    scene("reduce", op("any"), "d", "a", 1, d=(BOOL, [2, 1]), a=(F32, [2, 0])),
    scene("reduce", op("all"), "d", "a", 0, d=(BOOL, [1, 2]), a=(I8, [0, 2])),
    scene("gather", "d", "a", "b", 0, fill=9, d=(F32, [0]), a=F4, b=(I32, [0])),
    scene("matmul", "d", "a", "b", d=(F32, [2, 2]), a=(F32, [2, 0]), b=(F32, [0, 2])),
    scene("mma", "d", "a", "b", d=(F32, [2, 2]), a=(F32, [2, 0]), b=(F32, [0, 2])),
]


@pytest.mark.parametrize("case", FINE, ids=[f"{c.name}-{k}" for k, c in enumerate(FINE)])
def test_no_faults(tile_library, case):
    expected = run_twin(case)
    assert expected.fault == 0
    for path in paths(tile_library):
        assert run_c(tile_library, case, path).same(expected), path


EXTENTS = [((2, 3), 0), ((0, 0), 0), ((3, 3), 5), ((2, -1), 5), ((2,), 5)]


@pytest.mark.parametrize(("extents", "fault"), EXTENTS)
def test_extents_of_results(tile_library, extents, fault):
    memory = np.zeros(256, np.uint8)
    made = Tile(Memory(memory, 0), 0, F32, [2, 4], [16, 4], result=True, capacity=[2, 4])
    raw = raw_tile(made)
    assert tile_library.tile_shape_extent(raw, len(extents), *(*extents, 0, 0)[:3]) == fault
    found = 0
    try:
        tiles_twin.shape_extent(made, list(extents))
    except tiles_twin.TileFault as raised:
        found = raised.number
    assert found == fault
    assert list(raw.n[:2]) == made.n == (list(extents) if fault == 0 else [2, 4])


def test_other_tiles_keep_their_extents(tile_library):
    case = scene("shape_same", "d", "a", d=(F32, [2, 2]), a=(F32, [2, 2]))
    for path in paths(tile_library):
        assert run_c(tile_library, case, path).same(run_twin(case))
    for name, tiles in (
        ("shape_same", {"d": (F32, [2, 2]), "a": (F32, [2, 1])}),
        ("shape_matmul", {"d": (F32, [2, 2]), "a": (F32, [2, 2]), "b": (F32, [2, 3])}),
    ):
        case = scene(name, *tiles, **tiles)
        expected = run_twin(case)
        assert expected.fault == BY_NAME["shape"].number
        assert run_c(tile_library, case, tile_library.tile_path()).same(expected)
