"""Numbers of the GCU in numpy, to the bit: conversions between types, rounding, fused multiply-add.

f16 arithmetic of numpy is never used: values are widened to float32, computed, and narrowed here. NaN that
comes from arithmetic is the one NaN 0x7FC00000; conversions keep the sign and the upper payload of NaNs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.isa.dtypes import DType

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Array = npt.NDArray[Any]
Operand = Array | np.float32

CANONICAL_NAN = np.uint32(0x7FC00000).view(np.float32)
# how the elements of a type lie in numpy: floats of 16 bits as their bits, bool as its byte
RAW = {
    name: np.dtype(raw)
    for name, raw in (
        ("f32", "u4"), ("i32", "i4"), ("f16", "u2"), ("bf16", "u2"),
        ("i8", "i1"), ("i16", "i2"), ("u8", "u1"), ("bool", "u1"),
    )
}  # fmt: skip


def canonical(x: Array) -> Floats:
    """`x` with every NaN replaced by the one that arithmetic gives."""
    return np.asarray(np.where(np.isnan(x), CANONICAL_NAN, x), np.float32)


def f16_to_f32(bits: Array) -> Floats:
    """The values of f16 bits (uint16)."""
    half = np.atleast_1d(np.asarray(bits, np.uint32))
    sign, rest, payload = (half & 0x8000) << 16, half & 0x7FFF, half & 0x3FF
    normal = (rest << 13) + np.uint32(112 << 23)
    subnormal = (rest.astype(np.float32) * np.float32(2.0**-24)).view(np.uint32)
    special = np.where(payload != 0, 0x7FC00000 | payload << 13, 0x7F800000)
    out = np.where(rest >= 0x7C00, special, np.where(rest < 0x400, subnormal, normal))
    return (sign | out).astype(np.uint32).view(np.float32).reshape(np.shape(bits))


def f32_to_f16(x: Array) -> npt.NDArray[np.uint16]:
    """The bits of the nearest f16, ties to even."""
    bits = _bits(x)
    sign, rest = bits >> 16 & 0x8000, bits & 0x7FFFFFFF
    nan = 0x7E00 | rest >> 13 & 0x3FF
    # adding 0.5 puts the unit of subnormals, 2**-24, in the last place, and rounds
    small = np.where(rest < 0x38800000, rest, 0).astype(np.uint32).view(np.float32)
    subnormal = (small + np.float32(0.5)).view(np.uint32) - 0x3F000000
    normal = (rest - np.uint32(112 << 23) + 0xFFF + (rest >> 13 & 1)) >> 13
    out = np.where(rest < 0x38800000, subnormal, normal)
    out = np.where(rest >= 0x477FF000, 0x7C00, out)  # from half way above 65504
    out = np.where(rest > 0x7F800000, nan, out)
    return (sign | out).astype(np.uint16).reshape(np.shape(x))


def bf16_to_f32(bits: Array) -> Floats:
    """The values of bf16 bits (uint16)."""
    wide = np.atleast_1d(np.asarray(bits, np.uint32)) << 16
    return wide.view(np.float32).reshape(np.shape(bits))


def f32_to_bf16(x: Array) -> npt.NDArray[np.uint16]:
    """The bits of the nearest bf16, ties to even."""
    bits = _bits(x)
    nan = bits >> 16 | 0x40
    rounded = (bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16
    out = np.where(bits & 0x7FFFFFFF > 0x7F800000, nan, rounded)
    return out.astype(np.uint16).reshape(np.shape(x))


def _bits(x: Array) -> npt.NDArray[np.uint32]:
    return np.atleast_1d(np.asarray(x, np.float32)).view(np.uint32)


def widen(raw: Array, dtype: DType) -> Array:
    """A copy of raw elements as scalar registers have them: float32 for floats, int32 for the rest."""
    if dtype.name == "f32":
        return np.array(raw, np.uint32).view(np.float32)
    if dtype.name == "f16":
        return f16_to_f32(raw)
    if dtype.name == "bf16":
        return bf16_to_f32(raw)
    if dtype.name == "bool":
        return np.array(raw != 0, np.int32)
    return np.array(raw, np.int32)


def narrow(values: Array, dtype: DType) -> Array:
    """Raw elements from scalars: floats rounded, integers cut to their low bits, bool to 0 or 1."""
    if dtype.name == "f32":
        return _bits(values).reshape(np.shape(values))
    if dtype.name == "f16":
        return f32_to_f16(values)
    if dtype.name == "bf16":
        return f32_to_bf16(values)
    if dtype.name == "bool":
        return np.asarray(np.asarray(values) != 0, np.uint8)
    return np.asarray(values).astype(RAW[dtype.name])


def scalar_values(value: Any, dtype: DType) -> Array:
    """A scalar operand as tile operations see it: rounded or narrowed to `dtype`, then widened (0-d)."""
    if dtype.is_float:
        return widen(narrow(np.asarray(value, np.float32), dtype), dtype)
    return widen(narrow(np.asarray(wrap(int(value)), np.int32), dtype), dtype)


def scalar_raw(value: Any, dtype: DType) -> Array:
    """The bits of a scalar operand in an element of `dtype` (0-d array)."""
    if dtype.is_float:
        return narrow(np.asarray(value, np.float32), dtype)
    return narrow(np.asarray(wrap(int(value)), np.int32), dtype)


def wrap(value: int) -> int:
    """An int cut to 32 bits, signed."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def round_f16(x: Any) -> np.float32:
    """A number rounded to the values of f16."""
    return np.float32(f16_to_f32(f32_to_f16(np.asarray(x, np.float32))))


def round_bf16(x: Any) -> np.float32:
    """A number rounded to the values of bf16."""
    return np.float32(bf16_to_f32(f32_to_bf16(np.asarray(x, np.float32))))


def truncate(x: Floats) -> Ints:
    """To int32 towards 0, saturating; NaN gives 0."""
    with np.errstate(invalid="ignore"):
        wide = np.where(np.isnan(x), 0, np.clip(x.astype(np.float64), -(2.0**31), 2.0**31 - 1))
    return wide.astype(np.int32)


def f2i_sat(x: Any) -> int:
    """A number to int32 towards 0, saturating; NaN gives 0."""
    return int(truncate(np.asarray(x, np.float32)))


def fma(a: Operand, b: Operand, c: Operand) -> Floats:
    """a * b + c in float32, rounded once, by elements.

    The product is exact in float64. The sum is rounded to odd there (its error comes from Knuth's two-sum),
    which makes the second rounding, to float32, right: float64 has more than 24 + 2 bits.
    """
    with np.errstate(all="ignore"):
        product = np.multiply(a, b, dtype=np.float64)
        addend = np.asarray(c, np.float64)
        total = np.asarray(product + addend)
        part = total - product
        error = (product - (total - part)) + (addend - part)
        bits = total.view(np.int64)
        inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
        towards = np.where((error > 0) == (total > 0), 1, -1)
        odd = np.where(inexact, bits + towards, bits).view(np.float64)
        return canonical(odd.astype(np.float32))


def fma32(a: Any, b: Any, c: Any) -> np.float32:
    """a * b + c of scalars, rounded once to float32."""
    return np.float32(fma(np.asarray(a, np.float32), np.asarray(b, np.float32), np.asarray(c, np.float32)))
