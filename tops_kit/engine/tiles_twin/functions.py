"""Functions of float32 by elements, step by step as engine/tiles/functions.h, so that the bits agree.

Only +, -, *, /, sqrt, fma and bits are used; tiles.h states the errors. Polynomials have their highest
coefficient first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tops_kit.engine.tiles_twin.numbers import CANONICAL_NAN, Floats, canonical, fma

_F = np.float32
_ROUNDER = _F(12582912.0)  # 1.5 * 2**23: the sum's last place is 1
_ROUNDER_BITS = np.int64(0x4B400000)


def _hex(*values: str) -> tuple[np.float32, ...]:
    return tuple(_F(float.fromhex(value)) for value in values)


_LOG2E, _LN2_HIGH, _LN2_LOW = _hex("0x1.715476p0", "0x1.62e43p-1", "-0x1.05c61p-29")
_EXP = _hex("0x1.696e34p-10", "0x1.123f78p-7", "0x1.555a12p-5", "0x1.55548ap-3", "0x1.fffffap-2")
_LOG = _hex("-0x1.2a6f78p-4", "0x1.015974p-3", "-0x1.0e96ccp-3", "0x1.239ce2p-3", "-0x1.5466fep-3",
            "0x1.99944ep-3", "-0x1.000234p-2", "0x1.55557p-2", "-0x1p-1")  # fmt: skip
_TANH = _hex("-0x1.828776p-8", "0x1.54c3c2p-6", "-0x1.b89abap-5", "0x1.1109bep-3", "-0x1.55553ep-2")
_ERF_LARGE = _hex("0x1.a33924p-13", "-0x1.93f692p-9", "0x1.6eb0d2p-6", "-0x1.ab024p-4", "-0x1.460d5cp-1",
                  "-0x1.20bd5cp0", "-0x1.2e6f8cp-13")  # fmt: skip
_ERF_SMALL = _hex("-0x1.3fc37ap-11", "0x1.4890acp-8", "-0x1.b6c27ep-6", "0x1.ce1df4p-4", "-0x1.8126f8p-2",
                  "0x1.06eba6p-3")  # fmt: skip
_SIN = _hex("-0x1.9953fep-13", "0x1.110778p-7", "-0x1.555546p-3")
_COS = _hex("0x1.99e91p-16", "-0x1.6c0c2ap-10", "0x1.55554ap-5", "-0x1p-1", "0x1p0")
_TWO_OVER_PI, _PI_1, _PI_2, _PI_3 = _hex("0x1.45f306p-1", "0x1.921fb4p0", "0x1.4442dp-24", "0x1.84698ap-48")
_LARGE = _F(102943.0)
_QUARTER_TURN = float.fromhex("0x1.921fb54442d18p-64")  # in units of 2**-64 quarter turns
_HALF_ROOT = np.int64(0x3F3504F3)  # the bits of sqrt(1/2)
# the bits of 2/pi; the first word is left of the point
_TWO_OVER_PI_BITS = np.array([0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041,
                              0xFE5163AB, 0xDEBBC561], np.uint64)  # fmt: skip


def _polynomial(coefficients: Sequence[np.float32], x: Floats) -> Floats:
    total = np.full(x.shape, coefficients[0], np.float32)
    for coefficient in coefficients[1:]:
        total = fma(total, x, coefficient)
    return total


def _bits(x: Floats) -> npt.NDArray[np.int64]:
    return x.view(np.int32).astype(np.int64)


def _from_bits(bits: npt.NDArray[np.int64]) -> Floats:
    return bits.astype(np.int32).view(np.float32)


def _with_sign(x: Floats, sign: Floats) -> Floats:
    return (x.view(np.uint32) | (sign.view(np.uint32) & np.uint32(0x80000000))).view(np.float32)


def _clean(x: Floats, result: Floats) -> Floats:
    return np.where(np.isnan(x), CANONICAL_NAN, result)


def _scale(p: Floats, n: npt.NDArray[np.int64]) -> Floats:
    half = n >> 1
    return p * _from_bits((half + 127) << 23) * _from_bits((n - half + 127) << 23)


def _exp_of(x: Floats) -> Floats:
    x = np.where(np.isnan(x), _F(0), x)
    x = np.where(x < _F(-104), _F(-104), x)
    x = np.where(_F(89) < x, _F(89), x)
    shifted = fma(x, _LOG2E, _ROUNDER)
    n = shifted - _ROUNDER
    r = fma(n, -_LN2_HIGH, x)
    r = fma(n, -_LN2_LOW, r)
    total = _F(1) + r
    rest = r - (total - _F(1))  # exact together
    p = total + fma(_polynomial(_EXP, r), r * r, rest)
    return _scale(p, _bits(shifted) - _ROUNDER_BITS)


def exp(x: Floats) -> Floats:
    """e to the x."""
    return _clean(x, _exp_of(x))


def log(x: Floats) -> Floats:
    """The natural logarithm; -inf at 0, NaN below."""
    tiny = x < _F(2.0**-126)
    scaled = np.where(tiny, x * _F(2.0**23), x)
    bits = _bits(scaled) - _HALF_ROOT
    bits = ((bits + 2**31) & 0xFFFFFFFF) - 2**31  # as 32 bits wrap
    e = bits >> 23
    f = _from_bits((bits & 0x7FFFFF) + _HALF_ROOT) - _F(1)
    count = e.astype(np.float32) - np.where(tiny, _F(23), _F(0))
    tail = fma(_polynomial(_LOG, f), f * f, count * _LN2_LOW) + f
    result = fma(count, _LN2_HIGH, tail)
    result = np.where(x == _F(np.inf), x, result)
    result = np.where(x == 0, _F(-np.inf), result)
    result = np.where(x < 0, CANONICAL_NAN, result)
    return _clean(x, result)


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x))."""
    e = _exp_of(-np.abs(x))
    part = np.where(x < 0, e, _F(1)) / (_F(1) + e)
    return _clean(x, np.where(x < 0, fma(-e, part, e), part))


def tanh(x: Floats) -> Floats:
    """The hyperbolic tangent."""
    size, square = np.abs(x), x * x
    large = _F(1) - _F(2) / (_exp_of(size + size) + _F(1))
    small = fma(_polynomial(_TANH, square) * square, x, x)
    return _clean(x, _with_sign(np.where(size < _F(0.6), small, large), x))


def erf(x: Floats) -> Floats:
    """The error function."""
    size, square = np.abs(x), x * x
    bounded = np.where(size < _F(4), size, _F(4))
    large = _F(1) - _exp_of(_polynomial(_ERF_LARGE, bounded))
    small = fma(_polynomial(_ERF_SMALL, square), x, x)
    return _clean(x, _with_sign(np.where(size < _F(0.9), small, large), x))


def _reduce_large(x: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """x less its quarter turns, and how many those were, from the bits of 2/pi that matter."""
    bits = x.view(np.uint32).astype(np.uint64)
    m = (bits & 0x7FFFFF) | 0x800000
    at = ((bits >> 23) & 0xFF) - 120
    word, shift = (at >> 5).astype(np.int64), at & 31
    w = []
    for i in range(3):
        pair = (_TWO_OVER_PI_BITS[word + i] << np.uint64(32)) | _TWO_OVER_PI_BITS[word + i + 1]
        w.append((pair << shift) >> np.uint64(32))
    middle = m * w[1] + ((m * w[2]) >> np.uint64(32))
    turns = ((m * w[0]) << np.uint64(32)) + middle
    fraction = turns << np.uint64(2)
    quarter = (turns >> np.uint64(62)).astype(np.int64) + (fraction >> np.uint64(63)).astype(np.int64)
    r = (fraction.view(np.int64).astype(np.float64) * _QUARTER_TURN).astype(np.float32)
    return np.where(x < 0, -r, r), np.where(x < 0, -quarter, quarter)


def _sine_of(x: Floats, ahead: int) -> Floats:
    size = np.abs(x)
    finite = size < _F(np.inf)
    near = np.where(size <= _LARGE, x, _F(0))
    shifted = fma(near, _TWO_OVER_PI, _ROUNDER)
    n = shifted - _ROUNDER
    quarters = _bits(shifted) - _ROUNDER_BITS
    r = fma(n, -_PI_1, near)
    r = fma(n, -_PI_2, r)
    r = fma(n, -_PI_3, r)
    far = (size > _LARGE) & finite
    if far.any():
        r[far], quarters[far] = _reduce_large(x[far])
    quarters = quarters + ahead
    square = r * r
    sine = _with_sign(fma(_polynomial(_SIN, square) * square, r, r), r)
    cosine = _polynomial(_COS, square)
    result = np.where(quarters & 1 != 0, cosine, sine)
    result = np.where(quarters & 2 != 0, -result, result)
    return np.where(finite, result, CANONICAL_NAN)


def sin(x: Floats) -> Floats:
    """The sine, of any finite number."""
    return _sine_of(x, 0)


def cos(x: Floats) -> Floats:
    """The cosine, of any finite number."""
    return _sine_of(x, 1)


FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "neg": lambda x: (x.view(np.uint32) ^ np.uint32(0x80000000)).view(np.float32),
    "abs": lambda x: (x.view(np.uint32) & np.uint32(0x7FFFFFFF)).view(np.float32),
    "exp": exp,
    "log": log,
    "sqrt": lambda x: canonical(np.sqrt(x)),
    "rsqrt": lambda x: canonical(_F(1) / np.sqrt(x)),
    "tanh": tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "sin": sin,
    "cos": cos,
    "floor": lambda x: canonical(np.floor(x)),
    "ceil": lambda x: canonical(np.ceil(x)),
    "recip": lambda x: canonical(_F(1) / x),
}


def apply(name: str, x: Floats) -> Floats:
    """The function of that name by elements, of an array."""
    with np.errstate(all="ignore"):
        result = FUNCTIONS[name](np.ascontiguousarray(x, np.float32))
    return np.asarray(result, np.float32).reshape(np.shape(x))


def scalar_function(name: str, x: float | np.float32) -> np.float32:
    """A function of one number, as tiles have it."""
    return np.float32(apply(name, np.array([x], np.float32))[0])
