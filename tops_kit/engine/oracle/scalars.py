"""Scalar registers: 32 bits, kept as unsigned ints, read and written as integers or f32."""

from __future__ import annotations

from typing import Any

import numpy as np

from tops_kit.isa.dtypes import DType

MASK = 0xFFFFFFFF
CANONICAL_NAN = 0x7FC00000


def as_int(bits: int) -> int:
    """The bits as i32."""
    return (bits ^ 0x80000000) - 0x80000000


def as_float(bits: int) -> np.float32:
    """The bits as f32, whatever they are: NaN payloads stay."""
    return np.uint32(bits).view(np.float32)


def from_float(value: Any) -> int:
    """The bits of a number rounded to f32."""
    return int(np.float32(value).view(np.uint32))


def from_arithmetic(value: Any) -> int:
    """As from_float, of a result: every NaN is the one that arithmetic gives."""
    bits = from_float(value)
    return CANONICAL_NAN if bits & 0x7FFFFFFF > 0x7F800000 else bits


def typed(bits: int, dtype: DType) -> Any:
    """A register as an operand for elements of `dtype`: f32 for floats, i32 for the rest."""
    return as_float(bits) if dtype.is_float else as_int(bits)


def from_typed(value: Any, dtype: DType) -> int:
    """The bits of a value of a `dtype`'s scalar: f32 for floats, i32 for the rest."""
    return from_float(value) if dtype.is_float else int(value) & MASK
