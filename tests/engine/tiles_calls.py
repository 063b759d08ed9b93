"""Calls of the tile library in C and of its numpy twin on the same memory, compared bit for bit."""

from __future__ import annotations

import ctypes
import importlib
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tops_kit.engine import tiles_twin
from tops_kit.engine.tiles_twin import Memory, Tile, TileFault
from tops_kit.engine.tiles_twin.numbers import scalar_raw
from tops_kit.engine.tiles_twin.operations import NAMES
from tops_kit.isa.dtypes import DTYPES, DType, scalar

MAX_AXES = 5
EXAMPLES = int(os.environ.get("TOPSKIT_EXAMPLES", "150"))  # more of them for a soak
lenient = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)
PATHS = ("generic", "avx2", "avx512")


class RawTile(ctypes.Structure):
    """`tile` of engine/machine.h."""

    _fields_ = (
        ("p", ctypes.c_uint64),
        ("stride", ctypes.c_int64 * MAX_AXES),
        ("n", ctypes.c_int32 * MAX_AXES),
        ("lo", ctypes.c_int32 * MAX_AXES),
        ("hi", ctypes.c_int32 * MAX_AXES),
        ("slot", ctypes.c_int32),
        ("object", ctypes.c_int16),
        ("rank", ctypes.c_uint8),
        ("dtype", ctypes.c_uint8),
        ("space", ctypes.c_uint8),
        ("result", ctypes.c_uint8),
        ("inside", ctypes.c_uint8),
        ("capacity", ctypes.c_int32 * 3),
    )


def raw_tile(tile: Tile) -> RawTile:
    """A view of the twin as C has it."""
    raw = RawTile(p=tile.address % 2**64, rank=tile.rank, dtype=tile.dtype.code, space=tile.space,
                  result=tile.result, inside=tile.inside, slot=tile.slot, object=tile.object)  # fmt: skip
    for axis in range(tile.rank):
        raw.stride[axis], raw.n[axis] = tile.stride[axis], tile.n[axis]
        raw.lo[axis], raw.hi[axis] = tile.lo[axis], tile.hi[axis]
    for axis, extent in enumerate(tile.capacity):
        raw.capacity[axis] = extent
    return raw


@dataclass
class Scene:
    """Memory, views in it, and a call: `arguments` are names of `tiles`, or numbers."""

    name: str
    arguments: list[Any]
    memory: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    tiles: dict[str, Tile] = field(default_factory=dict)
    used: int = 0
    typed: DType | None = None  # of scalars

    def bound(self, memory: Memory) -> list[Any]:
        """The arguments with the views placed in `memory`."""
        placed = {name: tile.copy() for name, tile in self.tiles.items()}
        for tile in placed.values():
            tile.memory = memory
        return [placed[a] if isinstance(a, str) else a for a in self.arguments]


@dataclass
class Outcome:
    """What a call left behind."""

    fault: int
    memory: np.ndarray
    extents: list[int]

    def same(self, other: Outcome) -> bool:
        return (
            self.fault == other.fault
            and self.extents == other.extents
            and np.array_equal(self.memory, other.memory)
        )


def _first_tile(arguments: list[Any]) -> list[int]:
    return next(list(a.n) for a in arguments if isinstance(a, Tile))


def run_twin(scene: Scene) -> Outcome:
    """The call by the numpy twin."""
    data = scene.memory.copy()
    arguments = scene.bound(Memory(data, 4096))
    fault = 0
    try:
        if scene.name == "shape_broadcast":
            tiles_twin.shape_broadcast(arguments[0], arguments[1:])
        else:
            getattr(tiles_twin, scene.name)(*arguments)
    except TileFault as found:
        fault = found.number
    return Outcome(fault, data, _first_tile(arguments))


def scalar_bits(value: float, dtype: DType) -> int:
    """A scalar as a register has it."""
    wide = scalar(dtype)
    return int(np.asarray(scalar_raw(value, wide)).astype(np.int64)) & 0xFFFFFFFF


def run_c(module: Any, scene: Scene, path: str) -> Outcome:
    """The call by the C library."""
    module.tile_path(path)
    data = scene.memory.copy()
    arguments = scene.bound(Memory(data, data.ctypes.data))
    raws = []
    for a in arguments:
        if isinstance(a, Tile):
            raws.append(raw_tile(a))
        elif isinstance(a, float | np.floating) or (scene.typed and isinstance(a, Scalar)):
            raws.append(scalar_bits(a, scene.typed))
        else:
            raws.append(int(a))
    if scene.name == "shape_broadcast":
        fault = module.tile_shape_broadcast(*raws)
    else:
        fault = module.tile_call(scene.name, *raws)
    first = next(r for r in raws if isinstance(r, RawTile))
    return Outcome(fault, data, list(first.n[: first.rank]))


class Scalar(int):
    """An int that is a scalar operand, not an axis or an operation."""


def paths(module: Any) -> list[str]:
    """Those that this processor has."""
    found = []
    for path in PATHS:
        try:
            module.tile_path(path)
        except ValueError:
            continue
        found.append(path)
    return found


def check(module: Any, scene: Scene) -> Outcome:
    """Run everywhere; all must agree. The twin's outcome."""
    expected = run_twin(scene)
    for path in paths(module):
        got = run_c(module, scene, path)
        assert got.same(expected), describe(scene, path, got, expected)
    return expected


def describe(scene: Scene, path: str, got: Outcome, expected: Outcome) -> str:
    """A readable account of a difference."""
    lines = [f"{scene.name} on {path}: " + " ".join(_text(a) for a in scene.arguments)]
    for name, tile in scene.tiles.items():
        lines.append(f"  {name}: {tile.dtype} {tile.n} strides {tile.stride} at {tile.offset}, {tile.space}")
    lines.append(f"  fault {got.fault}, expected {expected.fault}; extents {got.extents} {expected.extents}")
    at = np.flatnonzero(got.memory != expected.memory)
    for tile in list(scene.tiles.values())[:1]:
        if len(at) and tile.inside and 0 not in tile.n:
            views = []
            for memory in (got.memory, expected.memory):
                twin = tile.copy()
                twin.memory = Memory(memory, 0)
                views.append(twin.raw())
            differs = np.argwhere(views[0] != views[1])[:5]
            for index in differs:
                place = tuple(int(k) for k in index)
                lines.append(f"  {place}: {int(views[0][place]):#x} expected {int(views[1][place]):#x}")
    lines.append(f"  {len(at)} bytes differ, first at {at[:8].tolist()}")
    return "\n".join(lines)


def _text(a: Any) -> str:
    return a if isinstance(a, str) else repr(a)


SPECIAL_FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, 1.17549435e-38,
     3.4028235e38, -3.4028235e38, 0.5, -0.5, 2.5, 88.72284, -87.33655, -103.9, 65504.0, 65520.0, 6e-8,
     2147483648.0, -2147483648.0, 2147483520.0, 1e5, 102943.0, 102944.0, 1e30, 0.6, 0.9, 4.0, 8388608.0,
     8388607.5, 0.99999994, 1.0000001],
    np.float32,
)  # fmt: skip
SPECIAL_BITS = np.array([0x7FC00001, 0xFFC12345, 0x7F800001, 0xFF9ABCDE, 0x7FFFFFFF], np.uint32)


def random_raw(rng: np.random.Generator, dtype: DType, count: int) -> np.ndarray:
    """Raw elements: ordinary numbers, special ones, and any bits."""
    from tops_kit.engine.tiles_twin.numbers import narrow

    kind = rng.integers(0, 4)
    if dtype.is_float:
        values = (rng.normal(size=count) * 10.0 ** rng.integers(-3, 4)).astype(np.float32)
        if kind:
            pick = rng.random(count) < (0.05, 0.05, 0.2, 0.5)[kind]
            values[pick] = rng.choice(SPECIAL_FLOATS, int(pick.sum()))
        if kind == 3:
            values = np.trunc(values)  # ties for reductions
        bits = values.view(np.uint32)
        if kind == 2:
            pick = rng.random(count) < 0.3
            bits[pick] = rng.integers(0, 2**32, int(pick.sum()), dtype=np.uint32)
            pick = rng.random(count) < 0.05
            bits[pick] = rng.choice(SPECIAL_BITS, int(pick.sum()))
        raw = narrow(bits.view(np.float32), dtype)
        if kind == 2 and dtype.size_bytes == 2:
            pick = rng.random(count) < 0.2
            raw[pick] = rng.integers(0, 2**16, int(pick.sum()), dtype=np.uint16)
        return raw
    if kind == 0:
        return rng.integers(-4, 5, count).astype(np.int32).astype(_container(dtype))
    size = dtype.size_bytes
    return rng.integers(0, 256, count * size, dtype=np.uint8).view(_container(dtype))


def _container(dtype: DType) -> str:
    return {1: "u1", 2: "u2", 4: "u4"}[dtype.size_bytes]


@st.composite
def seeds(draw: st.DrawFn) -> np.random.Generator:
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


class Builder:
    """Puts tiles into a scene as hypothesis draws them."""

    def __init__(self, draw: Any, name: str = "", *, contents: bool = True) -> None:
        self.draw = draw
        self.scene = Scene(name, [])
        self.rng = draw(seeds())
        self.contents = contents

    def shape(self, low: int = 0, high: int = 3, elements: int = 1000) -> list[int]:
        """Extents, some of them 0 and 1."""
        rank = self.draw(st.integers(low, high))
        out: list[int] = []
        for _ in range(rank):
            n = self.draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 48, 65, 0, 257, 300]))
            total = int(np.prod([max(k, 1) for k in out])) * n
            out.append(n if total <= elements else 2)
        return out

    def narrowed(self, shape: list[int]) -> list[int]:
        """Extents that broadcast to `shape`: some axes 1, some leading ones gone."""
        if self.draw(st.integers(0, 2)):
            return list(shape)
        out = [1 if self.draw(st.booleans()) else n for n in shape]
        return out[self.draw(st.integers(0, len(out))) :]

    def tile(self, name: str, dtype: DType, shape: list[int], *, result: bool = False) -> Tile:
        """A view of these extents: dense, in another order of axes, with gaps; filled at random."""
        rank = len(shape)
        order = list(range(rank))
        gaps = [1] * rank
        style = 0 if result else self.draw(st.integers(0, 3))
        if style >= 2 and rank > 1:
            order = self.draw(st.permutations(order))
        if style in (1, 3):
            gaps = [self.draw(st.sampled_from([1, 1, 2, 3])) for _ in range(rank)]
        stride = [0] * rank
        size = dtype.size_bytes
        for axis in reversed(order):
            stride[axis] = size * gaps[axis]
            size *= gaps[axis] * (max(shape[axis], 1) + (self.draw(st.integers(0, 2)) if style == 1 else 0))
        tile = self.allocate(name, dtype, shape, stride, size)
        if result:
            tile.result = True
            tile.capacity = list(shape)
            if self.draw(st.booleans()):
                tile.set_extents([self.draw(st.integers(0, n)) for n in shape])
        return tile

    def allocate(self, name: str, dtype: DType, shape: list[int], stride: list[int], size: int) -> Tile:
        scene = self.scene
        offset = (scene.used + 127) // 128 * 128 + 128
        if self.draw(st.integers(0, 3)) == 0:
            offset += dtype.size_bytes  # rows need not begin on a boundary
        scene.used = offset + size
        scene.memory = np.pad(scene.memory, (0, scene.used + 128 - len(scene.memory)))
        if self.contents:
            raw = random_raw(self.rng, dtype, size // dtype.size_bytes)
            scene.memory[offset : offset + raw.nbytes] = raw.view(np.uint8)
        tile = Tile(Memory(np.zeros(0, np.uint8), 0), offset, dtype, list(shape), stride)
        scene.tiles[name] = tile
        return tile

    def overlap(self, name: str, onto: str) -> None:
        """Now and then: a source that lies, in part or exactly, where the destination does."""
        if self.draw(st.integers(0, 5)) == 0:
            d, a = self.scene.tiles[onto], self.scene.tiles[name]
            a.offset = d.offset + self.draw(st.sampled_from([0, 0, 1, 4, 17])) * a.dtype.size_bytes
            if a.n == d.n and a.dtype.size_bytes == d.dtype.size_bytes and self.draw(st.booleans()):
                a.stride = list(d.stride)
            reach = a.offset + sum((max(n, 1) - 1) * s for n, s in zip(a.n, a.stride, strict=True)) + 128
            self.scene.memory = np.pad(self.scene.memory, (0, max(0, reach - len(self.scene.memory))))
            self.scene.used = max(self.scene.used, reach)

    def number(self, dtype: DType) -> Any:
        """A scalar operand."""
        if dtype.is_float:
            special = [float(x) for x in SPECIAL_FLOATS]
            return self.draw(st.one_of(st.sampled_from(special), st.floats(-1e4, 1e4, width=32)))
        return Scalar(self.draw(st.one_of(st.integers(-5, 5), st.integers(-(2**31), 2**31 - 1))))

    def dtype(self) -> DType:
        return self.draw(st.sampled_from(DTYPES))

    def other(self, dtype: DType) -> DType:
        """Mostly `dtype`, now and then a wrong one."""
        return self.dtype() if self.draw(st.integers(0, 19)) == 0 else dtype

    def call(self, name: str, *arguments: Any, typed: DType | None = None) -> Scene:
        self.scene.name, self.scene.arguments, self.scene.typed = name, list(arguments), typed
        return self.scene


def operation(name: str) -> int:
    """The number of an operation."""
    return NAMES.index(name)


def module() -> tuple[Any, str]:
    """The C library, or None and why there is none."""
    from tops_kit.engine.launch import ENGINES

    if ENGINES.c() is None:
        return None, f"needs the C engine: {ENGINES.why_not}"
    return importlib.import_module("tops_kit.engine._engine"), ""
