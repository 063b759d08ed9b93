"""`//` and `%` of floats: Python's, of the f32 values as doubles, each result rounded to f32 once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.tiles_calls import SPECIAL_FLOATS, operation, paths, raw_tile
from tops_kit.engine import tiles_twin
from tops_kit.engine.result import LaunchResult
from tops_kit.engine.tiles_twin.elementwise import scalar_binary
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32

Launch = Callable[..., LaunchResult]
Floats = np.ndarray[Any, np.dtype[np.float32]]

CASES = [  # a, b, a // b, a % b
    (1.0, 0.1, 9.0, 0.099999987), (1e9, 0.3, 3333333200.0, 0.26357174), (5.0, np.inf, 0.0, 5.0),
    (-1.0, np.inf, -1.0, np.inf), (5.0, -np.inf, -1.0, -np.inf), (-5.0, -np.inf, 0.0, -5.0),
    (5.3, -1.7, -4.0, -1.5), (-1e-20, 1.0, -1.0, 1.0), (0.0, 3.0, 0.0, 0.0), (-0.0, 3.0, -0.0, 0.0),
    (6.0, -3.0, -2.0, -0.0), (-6.0, -3.0, 2.0, -0.0), (1.0, 0.0, np.inf, np.nan),
    (-1.0, 0.0, -np.inf, np.nan), (0.0, 0.0, np.nan, np.nan), (np.inf, 2.0, np.nan, np.nan),
    (np.inf, np.inf, np.nan, np.nan), (np.nan, 1.0, np.nan, np.nan), (3e38, 1e-45, np.inf, 0.0),
    (1e-45, 3e38, 0.0, 1e-45), (7.5, 2.0, 3.0, 1.5), (16777216.0, 3.0, 5592405.0, 1.0),
    (-16777216.0, 3.0, -5592406.0, 2.0),
]  # fmt: skip


def as_python(a: float, b: float) -> tuple[np.float32, np.float32]:
    """The definition."""
    with np.errstate(all="ignore"):
        if b == 0:
            return np.float32(np.divide(a, b)), np.float32(np.nan)
        return np.float32(a // b), np.float32(a % b)


def expected(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    pairs = [as_python(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return np.array([q for q, _ in pairs]), np.array([r for _, r in pairs])


def same(got: Floats, wanted: Floats) -> Any:
    """Equal bits; every NaN is the one of arithmetic."""
    canonical = np.where(np.isnan(wanted), np.uint32(0x7FC00000), wanted.view(np.uint32))
    return got.view(np.uint32) == canonical


def pairs(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Of any sizes; multiples and what is beside them; quotients around 2**22 and 2**24; special values."""
    bits = rng.integers(0, 2**32, (2, count), dtype=np.uint32).view(np.float32)
    b = (rng.normal(size=count) * 2.0 ** rng.integers(-20, 20, count)).astype(np.float32)
    whole = rng.integers(-(2**25), 2**25, count) >> rng.integers(0, 25, count)
    multiple = (whole * b.astype(np.float64)).astype(np.float32)
    beside = np.nextafter(multiple, np.float32(rng.choice([-np.inf, np.inf])), dtype=np.float32)
    special = np.array(np.meshgrid(SPECIAL_FLOATS, SPECIAL_FLOATS), np.float32).reshape(2, -1)
    a = np.concatenate([bits[0], multiple, beside, rng.normal(size=count).astype(np.float32), special[0]])
    b = np.concatenate([bits[1], b, b, rng.normal(size=count).astype(np.float32), special[1]])
    return a, b


@pytest.mark.smoke
@pytest.mark.parametrize(("a", "b", "quotient", "rest"), CASES)
def test_some_values(a: float, b: float, quotient: float, rest: float) -> None:
    a32, b32 = np.float32(a), np.float32(b)
    for name, wanted in (("floordiv", quotient), ("mod", rest)):
        got = np.array([scalar_binary(name, a32, b32)])
        assert same(got, np.array([wanted], np.float32)).all(), (name, got)


@pytest.mark.parametrize("seed", range(3))
def test_the_twin_is_python(seed: int) -> None:
    a, b = pairs(np.random.default_rng(seed), 5000)
    with np.errstate(all="ignore"):
        got = [tiles_twin.elementwise.combine(name, a, b, F32) for name in ("floordiv", "mod")]
    for name, x, wanted in zip(("floordiv", "mod"), got, expected(a, b), strict=True):
        differs = np.flatnonzero(~same(x, wanted))
        assert not len(differs), (name, a[differs[:3]], b[differs[:3]], x[differs[:3]], wanted[differs[:3]])


@pytest.mark.parametrize("name", ["floordiv", "mod"])
def test_the_same_bits_from_c(tile_library: Any, name: str) -> None:
    a, b = pairs(np.random.default_rng(11), 50_000)
    with np.errstate(all="ignore"):
        wanted = tiles_twin.elementwise.combine(name, a, b, F32)
    for path in paths(tile_library):
        tile_library.tile_path(path)
        out = np.zeros_like(a)
        d, left, right = (raw_tile(tiles_twin.plain(x)) for x in (out, a, b))
        assert tile_library.tile_call("binary", operation(name), d, left, right) == 0
        differs = np.flatnonzero(out.view(np.uint32) != wanted.view(np.uint32))
        assert not len(differs), (path, a[differs[:5]], b[differs[:5]], out[differs[:5]])


def dividing() -> Any:
    """Scalars, vectors and tiles: x // y and x % y in each form, into rows of `out`."""
    asm = Assembler("dividing")
    out = asm.pointer("out", F32, ndim=2, loaded=False)
    x, y = asm.scalar("x", F32), asm.scalar("y", F32)
    zero = asm.constant(0)
    for number, name in enumerate(("row", "left", "right")):
        asm.op("tbuf", name, asm.buffer(name, "L1", F32, (32,)), zero, 0)
        if number:
            asm.op("tfill", name, (x, y)[number - 1])
    row = 0

    def store() -> None:
        nonlocal row
        asm.op("tptr", "to", out)
        asm.op("tindex", "to", "to", 0, asm.constant(row))
        asm.op("dma", "event", "to", "row", zero, 0)
        asm.op("wait", "event")
        row += 1

    for name in ("floordiv", "mod"):
        asm.op(f"f{name}", "value", x, y)
        asm.op("tfill", "row", "value")
        store()
        asm.op("vsplat", "vx", x, F32.code)
        asm.op("vsplat", "vy", y, F32.code)
        asm.op(f"v{name}", "vd", "vx", "vy", F32.code)
        asm.op("vst", "row", zero, "vd")
        store()
        asm.op(f"t{name}", "row", "left", "right")
        store()
        asm.op(f"t{name}_s", "row", "left", y)
        store()
        asm.op(f"t{name}_rs", "row", x, "right")
        store()
    asm.op("end")
    return asm.finish()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(width=32), st.floats(width=32))
def test_every_form_gives_the_same(run: Launch, x: float, y: float) -> None:
    out = np.zeros((10, 32), np.float32)
    run(dividing(), out, x, y)
    for rows, wanted in zip((out[:5], out[5:]), as_python(x, y), strict=True):
        assert same(rows, np.full_like(rows, wanted)).all(), (rows, wanted)
