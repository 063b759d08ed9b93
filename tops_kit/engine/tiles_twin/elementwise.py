"""Tile operations by elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tops_kit.engine.tiles_twin import functions, numbers
from tops_kit.engine.tiles_twin import operations as op_numbers
from tops_kit.engine.tiles_twin.checks import (
    DIVIDE,
    SHAPE,
    TYPE,
    broadcast_raw,
    broadcast_values,
    check_l1,
    fault_unless,
    write,
)
from tops_kit.engine.tiles_twin.numbers import CANONICAL_NAN, Array, canonical
from tops_kit.engine.tiles_twin.tile import Tile
from tops_kit.engine.tiles_twin.transfers import dma_copy, dma_set
from tops_kit.isa.dtypes import BOOL, F32, DType

BinaryFunction = Callable[[Array, Array], Array]


def lesser(a: Array, b: Array) -> Array:
    """a < b ? a : b; NaN where either is."""
    return np.where(np.isnan(a) | np.isnan(b), CANONICAL_NAN, np.where(a < b, a, b))


def greater(a: Array, b: Array) -> Array:
    """a > b ? a : b; NaN where either is."""
    return np.where(np.isnan(a) | np.isnan(b), CANONICAL_NAN, np.where(a > b, a, b))


def divided_down(a: Array, b: Array) -> tuple[Array, Array]:
    """a // b and a % b as Python has them, of doubles, each rounded to f32 once; by 0 a / b, and NaN."""
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    rest = np.fmod(left, right)
    quotient = (left - rest) / right
    below = (rest != 0) & ((rest < 0) != (right < 0))
    quotient = np.where(below, quotient - 1, quotient)
    rest = np.where(rest == 0, np.copysign(0.0, right), np.where(below, rest + right, rest))
    whole = np.floor(quotient)
    whole = np.where(quotient - whole > 0.5, whole + 1, whole)
    quotient = np.where(quotient == 0, np.copysign(0.0, left / right), whole)
    quotient = np.where(right == 0, left / right, quotient)
    return np.asarray(quotient, np.float32), np.asarray(rest, np.float32)


def _wrapped(wide: Array) -> Array:
    return np.asarray(wide).astype(np.int32)  # the low 32 bits


def _long(x: Array) -> Array:
    return np.asarray(x, np.int64)


FLOAT_BINARY: dict[str, BinaryFunction] = {
    "add": lambda a, b: canonical(a + b),
    "sub": lambda a, b: canonical(a - b),
    "mul": lambda a, b: canonical(a * b),
    "div": lambda a, b: canonical(a / b),
    "min": lesser,
    "max": greater,
    "floordiv": lambda a, b: canonical(divided_down(a, b)[0]),
    "mod": lambda a, b: canonical(divided_down(a, b)[1]),
}
INT_BINARY: dict[str, BinaryFunction] = {
    "add": lambda a, b: _wrapped(_long(a) + b),
    "sub": lambda a, b: _wrapped(_long(a) - b),
    "mul": lambda a, b: _wrapped(_long(a) * b),
    "div": lambda a, b: _wrapped(_long(a) // b),
    "min": np.minimum,
    "max": np.maximum,
    "floordiv": lambda a, b: _wrapped(_long(a) // b),
    "mod": lambda a, b: _wrapped(_long(a) % b),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": lambda a, b: _wrapped(_long(a) << (_long(b) & 31)),
    "shr": lambda a, b: _wrapped(_long(a) >> (_long(b) & 31)),
}
COMPARE: dict[str, BinaryFunction] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
DIVISIONS = ("div", "floordiv", "mod")


def combine(name: str, a: Array, b: Array, dtype: DType) -> Array:
    """A binary operation on values of one type, widened; FAULT_TYPE, FAULT_DIVIDE."""
    table = FLOAT_BINARY if dtype.is_float else INT_BINARY
    fault_unless(name in table, TYPE)
    if not dtype.is_float and name in DIVISIONS:
        fault_unless(np.all(b != 0), DIVIDE)
    with np.errstate(all="ignore"):
        return np.asarray(table[name](a, b), np.float32 if dtype.is_float else np.int32)


def scalar_binary(name: str, a: float | np.float32, b: float | np.float32) -> np.float32:
    """A binary operation on two numbers, as tiles have it."""
    return np.float32(combine(name, np.array([a], np.float32), np.array([b], np.float32), F32)[0])


def _binary(op: int, d: Tile, a: Tile | Array, b: Tile | Array, dtype: DType) -> None:
    name = op_numbers.NAMES[op]
    fault_unless(d.dtype == dtype and name in (FLOAT_BINARY if dtype.is_float else INT_BINARY), TYPE)
    left, right = _operands(d, a, b)
    if left.size:
        write(d, combine(name, left, right, dtype))


def _operands(d: Tile, a: Tile | Array, b: Tile | Array) -> list[Array]:
    return [
        broadcast_values(x, d.n) if isinstance(x, Tile) else np.broadcast_to(x, tuple(d.n)) for x in (a, b)
    ]


def binary(op: int, d: Tile, a: Tile, b: Tile) -> None:
    """d = a op b, broadcast."""
    check_l1(d, a, b)
    fault_unless(a.dtype == b.dtype, TYPE)
    _binary(op, d, a, b, a.dtype)


def binary_s(op: int, d: Tile, a: Tile, b: Any) -> None:
    """d = a op b with a scalar on the right."""
    check_l1(d, a)
    _binary(op, d, a, numbers.scalar_values(b, a.dtype), a.dtype)


def binary_rs(op: int, d: Tile, a: Any, b: Tile) -> None:
    """d = a op b with a scalar on the left."""
    check_l1(d, b)
    _binary(op, d, numbers.scalar_values(a, b.dtype), b, b.dtype)


def _compare(op: int, d: Tile, a: Tile | Array, b: Tile | Array) -> None:
    fault_unless(d.dtype == BOOL, TYPE)
    left, right = _operands(d, a, b)
    d.raw()[...] = COMPARE[op_numbers.NAMES[op]](left, right).astype(np.uint8)


def compare(op: int, d: Tile, a: Tile, b: Tile) -> None:
    """d (bool) = a op b, broadcast."""
    check_l1(d, a, b)
    fault_unless(a.dtype == b.dtype, TYPE)
    _compare(op, d, a, b)


def compare_s(op: int, d: Tile, a: Tile, b: Any) -> None:
    """d (bool) = a op b with a scalar on the right."""
    check_l1(d, a)
    _compare(op, d, a, numbers.scalar_values(b, a.dtype))


def compare_rs(op: int, d: Tile, a: Any, b: Tile) -> None:
    """d (bool) = a op b with a scalar on the left."""
    check_l1(d, b)
    _compare(op, d, numbers.scalar_values(a, b.dtype), b)


def unary_values(name: str, a: Array, dtype: DType) -> Array:
    """A unary operation on widened values; FAULT_TYPE."""
    if dtype.is_float:
        fault_unless(name in functions.FUNCTIONS, TYPE)
        return functions.apply(name, a)
    fault_unless(name in ("neg", "abs", "not"), TYPE)
    if name == "not":
        return (a == 0).astype(np.int32) if dtype == BOOL else np.invert(a)
    return _wrapped(-_long(a) if name == "neg" else np.abs(_long(a)))


def unary(op: int, d: Tile, a: Tile) -> None:
    """d = op(a)."""
    check_l1(d, a)
    name = op_numbers.NAMES[op]
    known = name in (functions.FUNCTIONS if a.dtype.is_float else ("neg", "abs", "not"))
    fault_unless(d.dtype == a.dtype and known, TYPE)
    write(d, unary_values(name, broadcast_values(a, d.n), a.dtype))


def fma_values(a: Array, b: Array, c: Array, dtype: DType) -> Array:
    """a * b + c on widened values."""
    return numbers.fma(a, b, c) if dtype.is_float else _wrapped(_long(a) * b + c)


def fma(d: Tile, a: Tile, b: Tile, c: Tile) -> None:
    """d = a * b + c, rounded once in f32, broadcast."""
    check_l1(d, a, b, c)
    fault_unless(a.dtype == b.dtype == c.dtype == d.dtype, TYPE)
    left, right, addend = (broadcast_values(x, d.n) for x in (a, b, c))
    write(d, fma_values(left, right, addend, a.dtype))


def select(d: Tile, c: Tile, a: Tile, b: Tile) -> None:
    """d = a where c, else b, broadcast."""
    check_l1(d, c, a, b)
    fault_unless(c.dtype == BOOL and a.dtype == b.dtype == d.dtype, TYPE)
    left, right, condition = (broadcast_raw(x, d.n) for x in (a, b, c))
    d.raw()[...] = np.where(condition != 0, left, right)


_SATURATED = {"i8": (-128, 127), "i16": (-(2**15), 2**15 - 1), "u8": (0, 255)}


def copy(d: Tile, a: Tile) -> None:
    """d = a, converted, broadcast."""
    check_l1(d, a)
    source = broadcast_raw(a, d.n)
    if a.dtype == d.dtype:
        dma_copy(d, a)
        return
    values = numbers.widen(source, a.dtype)
    if a.dtype.is_float and not d.dtype.is_float:
        if d.dtype == BOOL:
            values = (values != 0).astype(np.int32)
        else:
            values = numbers.truncate(values)
            if d.dtype.name in _SATURATED:
                values = np.clip(values, *_SATURATED[d.dtype.name])
    elif d.dtype.is_float and not a.dtype.is_float:
        values = values.astype(np.float32)
    write(d, values)


def fill(d: Tile, a: Any) -> None:
    """One value everywhere."""
    check_l1(d)
    dma_set(d, a)


def iota(d: Tile, a: Any, b: Any, axis: int) -> None:
    """a + b * index along an axis."""
    check_l1(d)
    fault_unless(0 <= axis < d.rank, SHAPE)
    start, step = numbers.scalar_values(a, d.dtype), numbers.scalar_values(b, d.dtype)
    index = np.arange(d.n[axis])
    with np.errstate(all="ignore"):
        if d.dtype.is_float:
            line = canonical(start + step * index.astype(np.float32))
        else:
            line = _wrapped(_long(start) + _long(step) * index)
    write(d, np.broadcast_to(line.reshape([-1] + [1] * (d.rank - axis - 1)), tuple(d.n)))
