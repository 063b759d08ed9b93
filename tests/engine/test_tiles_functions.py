"""The functions of f32: errors against float64, special values, and the same bits from C on every path.

The bounds are those that tiles.h states, in units in the last place of the true value.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.engine.tiles_calls import SPECIAL_BITS, SPECIAL_FLOATS, operation, paths, raw_tile
from tops_kit.engine import tiles_twin
from tops_kit.engine.tiles_twin.functions import FUNCTIONS, apply

erf = np.vectorize(math.erf, otypes=[float])
# name: (the true function, bound in ulps, where the samples lie; None for all of f32)
BOUNDS = {
    "exp": (np.exp, 0.8, (-104.5, 89.5)),
    "log": (np.log, 0.9, None),
    "sqrt": (np.sqrt, 0.5, None),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, None),
    "recip": (lambda x: 1 / x, 0.5, None),
    "tanh": (np.tanh, 1.5, (-10, 10)),
    "erf": (erf, 1.2, (-5, 5)),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 1.6, (-104.5, 30)),
    "sin": (np.sin, 1.6, (-102943, 102943)),
    "cos": (np.cos, 1.6, (-102943, 102943)),
}
SPECIAL = SPECIAL_FLOATS[np.isfinite(SPECIAL_FLOATS)]


def error_ulps(got, true):
    """|got - true| in ulps of the f32 at `true`, for finite f32 results."""
    size = np.maximum(np.abs(true), 2.0**-126)
    unit = 2.0 ** (np.floor(np.log2(size)) - 23)
    return np.abs(got.astype(np.float64) - true) / unit


def samples(span, count=400_000):
    rng = np.random.default_rng(11)
    anywhere = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    if span is None:
        return np.concatenate([anywhere, rng.uniform(0.5, 2, count).astype(np.float32), SPECIAL])
    low, high = span
    special = SPECIAL[[low <= s <= high for s in SPECIAL.tolist()]]
    even = np.linspace(low, high, count).astype(np.float32)
    near_zero = anywhere[np.abs(anywhere) < max(abs(low), high)]
    near_zero = near_zero[near_zero >= low]
    ordinary = rng.normal(size=count).astype(np.float32)
    return np.concatenate([even, near_zero, ordinary, special])


@pytest.mark.parametrize("name", BOUNDS)
def test_errors_are_within_the_stated_bounds(name):
    function, bound, span = BOUNDS[name]
    x = samples(span)
    x = x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        true = function(x.astype(np.float64))
    limit = float(np.finfo(np.float32).max)
    usable = np.isfinite(true) & (np.abs(true) <= limit) & ((true != 0) | (x == 0))
    worst = error_ulps(apply(name, x[usable]), true[usable])
    at = int(np.argmax(worst))
    assert worst[at] <= bound, f"{worst[at]} ulps at {x[usable][at]!r}"


def test_the_page_states_the_bounds():
    page = (Path(__file__).parents[2] / "docs" / "kernel-language.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if "error at most, in ulp of f32" in line)
    stated = {}
    for names, bound in re.findall(r"((?:`\w+` )+)(\d\.\d)", row.partition("ulp of f32:")[2]):
        stated |= dict.fromkeys(re.findall(r"\w+", names), float(bound))
    assert stated == {name: bound for name, (_, bound, _) in BOUNDS.items()}


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles(name):
    """Beyond the range of the fast reduction: against the exact remainder."""
    rng = np.random.default_rng(2)
    bits = rng.integers(0x47C90F00, 0x7F800000, 300, dtype=np.uint32)
    hard = [1e5, 102944, 1e10, 1e22, 3.4e38, 16367173 * 2.0**72]  # the last is very near a quarter turn
    x = np.concatenate([bits.view(np.float32), np.float32(hard)])
    shift = 1200  # pi/2 in units of 2**-1200, by Machin's formula
    one = 1 << shift

    def arctan_inverse(n):
        total, term, k = 0, one // n, 0
        while term:
            total += (-1) ** k * (term // (2 * k + 1))
            term //= n * n
            k += 1
        return total

    half_pi = 2 * (4 * arctan_inverse(5) - arctan_inverse(239))
    for value, got in zip(x.tolist(), apply(name, x).tolist(), strict=True):
        quarter, rest = divmod(int(value * 2**24) << (shift - 24), half_pi)
        angle = rest / one + (quarter % 4) * math.pi / 2
        true = math.sin(angle) if name == "sin" else math.cos(angle)
        small = min(abs(rest), abs(half_pi - rest)) / one  # near a zero, float64's own angle is not enough
        if abs(true) < 1e-3:
            true = math.copysign(math.sin(small), true)
        assert error_ulps(np.array([got]), np.array([true]))[0] <= 1.6, value


SPECIAL_RESULTS = {
    "exp": [(0, 1), (-0.0, 1), (np.inf, np.inf), (-np.inf, 0), (89, np.inf), (-104, 0), (-103.5, 1e-45)],
    "log": [(0, -np.inf), (-0.0, -np.inf), (1, 0), (np.inf, np.inf), (-1, np.nan), (-np.inf, np.nan)],
    "sqrt": [(0, 0), (-0.0, -0.0), (np.inf, np.inf), (-1, np.nan)],
    "rsqrt": [(0, np.inf), (-0.0, -np.inf), (np.inf, 0), (-1, np.nan)],
    "recip": [(0, np.inf), (-0.0, -np.inf), (np.inf, 0), (-np.inf, -0.0)],
    "tanh": [(0, 0), (-0.0, -0.0), (np.inf, 1), (-np.inf, -1), (20, 1), (1e-45, 1e-45)],
    "erf": [(0, 0), (-0.0, -0.0), (np.inf, 1), (-np.inf, -1), (4, 1), (-5, -1)],
    "sigmoid": [(0, 0.5), (np.inf, 1), (-np.inf, 0), (100, 1), (-104, 0), (-103.5, 1e-45)],
    "sin": [(0, 0), (-0.0, -0.0), (np.inf, np.nan), (-np.inf, np.nan), (1e-45, 1e-45)],
    "cos": [(0, 1), (-0.0, 1), (np.inf, np.nan), (-np.inf, np.nan)],
    "floor": [(-0.0, -0.0), (0.5, 0), (-0.5, -1), (np.inf, np.inf), (8388607.5, 8388607), (3e38, 3e38)],
    "ceil": [(-0.0, -0.0), (0.5, 1), (-0.5, -0.0), (-np.inf, -np.inf), (8388607.5, 8388608), (3e38, 3e38)],
    "neg": [(0, -0.0), (np.inf, -np.inf)],
    "abs": [(-0.0, 0), (-np.inf, np.inf)],
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", SPECIAL_RESULTS)
def test_special_values(name):
    assert set(SPECIAL_RESULTS) == set(FUNCTIONS)
    for x, expected in SPECIAL_RESULTS[name]:
        got = tiles_twin.scalar_function(name, np.float32(x))
        wanted = np.float32(expected)
        assert got.tobytes() == wanted.tobytes() or (np.isnan(got) and np.isnan(wanted)), (name, x, got)
    for bits in SPECIAL_BITS.tolist():
        got = int(tiles_twin.scalar_function(name, np.uint32(bits).view(np.float32)).view(np.uint32))
        kept = {"neg": bits ^ 0x80000000, "abs": bits & 0x7FFFFFFF}
        assert got == kept.get(name, 0x7FC00000)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_bits_from_c(tile_library, name):
    rng = np.random.default_rng(7)
    x = np.concatenate([
        SPECIAL_FLOATS, SPECIAL_BITS.view(np.float32),
        rng.integers(0, 2**32, 40_000, dtype=np.uint32).view(np.float32),
        (rng.normal(size=20_000) * 10).astype(np.float32), np.linspace(-105, 90, 20_000).astype(np.float32),
        (rng.normal(size=20_000) * 1e6).astype(np.float32),
    ])  # fmt: skip
    expected = apply(name, x).view(np.uint32)
    for path in paths(tile_library):
        tile_library.tile_path(path)
        out = np.zeros_like(x)
        d, a = raw_tile(tiles_twin.plain(out)), raw_tile(tiles_twin.plain(x))
        assert tile_library.tile_call("unary", operation(name), d, a) == 0
        differs = np.flatnonzero(out.view(np.uint32) != expected)
        assert not len(differs), (path, x[differs[:5]], out[differs[:5]])
