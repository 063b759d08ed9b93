"""Operands made fit for an operation: weak literals typed, scalars converted, element types compared."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tops_kit.isa.dtypes import BF16, BOOL, F16, F32, I32, DType, scalar
from tops_kit.topscc import tree
from tops_kit.topscc.building.state import BOOL_KIND, F32_KIND, I32_KIND, BuilderState
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import EventKind, Kind, ScalarKind, TileKind, VectorKind, ViewKind
from tops_kit.topscc.tree import Constant, Value

Operand: TypeAlias = Value | int | float | bool
Number: TypeAlias = int | float | bool
_T = TypeVar("_T")
_WIDEST = "no integer type is wider: compute in f32, or write the bits as a number below 0"

# what each integer type holds
_RANGES = {
    "i32": (-(1 << 31), (1 << 31) - 1),
    "i16": (-(1 << 15), (1 << 15) - 1),
    "i8": (-128, 127),
    "u8": (0, 255),
}
_BF16_END = float.fromhex("0x1.ffp127")  # from here on bf16 rounds to infinity
_GREATEST = {"f16": "65504", "bf16": "3.39e38"}


@dataclass(frozen=True, slots=True)
class Slice:
    """`start:stop:step` of a subscript; None as in Python. Literals below 0 count from the end."""

    start: Operand | None = None
    stop: Operand | None = None
    step: Operand | None = None


Item: TypeAlias = Operand | Slice


def kind_name(kind: Kind) -> str:
    """A kind in a sentence: "a tile of f32", "an i32", "a view of L3"."""
    match kind:
        case ScalarKind():
            return f"an {kind.dtype}" if kind.dtype.name[0] in "if" else f"a {kind.dtype}"
        case TileKind():
            return f"a tile of {kind.dtype}"
        case ViewKind():
            return f"a view of {kind.dtype} in {kind.space}"
        case VectorKind():
            return f"a vector of {kind.dtype}"
    return "an event"


class ValueBuilder(BuilderState):
    """Operands."""

    def _number(self, number: Number, dtype: DType, where: Where, *, into: bool = False) -> Constant:
        """A literal as a scalar that goes with values of `dtype` (its kind is f32, i32 or bool).

        `into`: it is written there; else it stands beside such values.
        """
        if dtype.is_float:
            return self._real(number, dtype, where, into=into)
        if isinstance(number, float):
            whole = math.isfinite(number) and number == math.floor(number)
            other = f"write a whole number: {dtype} holds no others" if into else (
                f"convert the other side: {self._words.cast(F32)}"
            )  # fmt: skip
            raise self._error(
                f"{number!r} {'into' if into else 'beside'} values of {dtype}: they can't hold it",
                where,
                f"write {int(number)}" if whole else other,
            )
        if dtype == BOOL:
            if not isinstance(number, bool):
                raise self._error(
                    f"{number!r} beside values of bool", where, "write True or False, or compare first"
                )
            return Constant(0, BOOL_KIND, number)
        low, high = _RANGES[dtype.name]
        if not low <= number <= high:
            raise self._error(
                f"{_shown(number)} does not fit {dtype} ({low} to {high})", where,
                _WIDEST if dtype == I32 else f"take a wider type: tops.{I32}" if into
                else f"take a wider type: {self._words.cast(I32)}",
            )  # fmt: skip
        return Constant(0, I32_KIND, int(number))

    def _real(self, number: Number, dtype: DType, where: Where, *, into: bool) -> Constant:
        """A literal as an f32 that goes with floats of `dtype`: refused where rounding makes it infinite."""
        try:
            real = float(number)
            struct.pack("<e" if dtype == F16 else "<f", real)
            if dtype == BF16 and math.isfinite(real) and abs(real) >= _BF16_END:
                raise OverflowError
        except OverflowError:
            hint = "write math.inf"
            if dtype != F32:
                hint += f", or take a wider type: {f'tops.{F32}' if into else self._words.cast(F32)}"
            most = f" (at most {_GREATEST[dtype.name]})" if dtype != F32 else ""
            raise self._error(f"{_shown(number)} does not fit {dtype}{most}", where, hint) from None
        return Constant(0, F32_KIND, real)

    def _typed(self, operand: Operand, where: Where) -> Value:
        """A literal on its own: f32, i32 or bool; values as they are."""
        if isinstance(operand, Value):
            return operand
        if isinstance(operand, bool):
            return Constant(0, BOOL_KIND, operand)
        return self._number(operand, F32 if isinstance(operand, float) else I32, where)

    def _usable(self, operand: Operand, where: Where) -> Operand:
        """An operand of arithmetic: views without axes are read; events, L2 and L3 are refused."""
        if not isinstance(operand, Value):
            return operand
        kind = operand.kind
        if isinstance(kind, EventKind):
            raise self._error("an event is no number", where, "wait for it: tops.wait(event)")
        if isinstance(kind, ViewKind):
            if kind.outside:
                raise self._error(
                    "a view that may reach outside of its array can't be computed with",
                    where,
                    f"load it with pad: {self._words.load('..., pad=0')}",
                )
            if kind.rank == 0 and kind.space != "L3":
                return self._give(
                    tree.Element(where, self._new(ScalarKind(scalar_type(kind.dtype))), operand, ())
                )
            if kind.space != "L1":
                raise self._error(
                    f"arithmetic works on L1; this is {kind_name(kind)}",
                    where,
                    f"load it first: {self._words.load(self._part_at(where))}",
                )
        return operand

    @staticmethod
    def _part_at(where: Where) -> str:
        """What stands at a place, where it is a name or a subscript; else "..."."""
        text = where.text()
        return text if re.fullmatch(r"[\w.]+(\[[^=]*\])?", text) else "..."

    def integer(self, operand: Operand, where: Where, what: str) -> Operand:
        """A scalar that must be an i32, refused at its own place; numbers as they are."""
        return self._integer(operand, where, what) if isinstance(operand, Value) else operand

    def _scalar(self, operand: Operand, dtype: DType, where: Where, what: str) -> Value:
        """A scalar of a type: f32, i32 or bool; i32 and bool become f32, bool becomes i32, nothing else."""
        operand = self._usable(operand, where)
        if not isinstance(operand, Value):
            return self._number(
                int(operand) if dtype == I32 and isinstance(operand, bool) else operand, dtype, where
            )
        kind = operand.kind
        if not isinstance(kind, ScalarKind):
            hint = (
                "take one element: t[0, 0]" if isinstance(kind, TileKind | ViewKind) else "give it a number"
            )
            raise self._error(f"{what} must be a scalar, this is {kind_name(kind)}", where, hint)
        if kind.dtype == dtype:
            return operand
        if dtype == F32 or (dtype == I32 and kind.dtype == BOOL):
            return self._convert(operand, dtype, where)
        hint = "compare it: x != 0" if dtype == BOOL else f"convert it: {self._words.number(dtype, 'x')}"
        raise self._error(f"{what} must be {dtype}, this is {kind_name(kind)}", where, hint)

    def _integer(self, operand: Operand, where: Where, what: str) -> Value:
        return self._scalar(operand, I32, where, what)

    def _convert(self, value: Value, dtype: DType, where: Where) -> Value:
        """A scalar of another scalar type; constants at once."""
        if isinstance(value, Constant):
            return self._number(int(value.value) if dtype == I32 else value.value, dtype, where)
        key = ("cast", dtype, value)
        return self._shared(key) or self._share(
            key, tree.Elementwise(where, self._new(ScalarKind(dtype)), "cast", (value,))
        )

    def _event(self, operand: Value, where: Where) -> Value:
        if not isinstance(operand, Value) or not isinstance(operand.kind, EventKind):
            what = kind_name(operand.kind) if isinstance(operand, Value) else repr(operand)
            raise self._error(
                f"this must be an event, it is {what}", where, "events come from *_async functions"
            )
        return operand

    def _tile(self, operand: Operand, where: Where, what: str) -> Value:
        """A tile or a view of L1 with axes."""
        operand = self._usable(operand, where)
        if not isinstance(operand, Value) or not isinstance(operand.kind, TileKind | ViewKind):
            what_it_is = kind_name(operand.kind) if isinstance(operand, Value) else repr(operand)
            raise self._error(
                f"{what} must be a tile, this is {what_it_is}", where, "fill a tile with it first"
            )
        if operand.kind.rank == 0 or operand.kind.rank > 3:
            raise self._error(
                f"{what} must have 1 to 3 axes, this has {operand.kind.rank}",
                where,
                "fix an axis by a number, or join axes by a reshape",
            )
        return operand

    def _common(self, operands: Sequence[Operand], where: Where) -> tuple[str, DType, list[Value]]:
        """Operands of one operation, converted to go together.

        Gives "tile", "vector" or "scalar", their element type, and the operands: beside tiles and vectors,
        scalars stay scalars (of the register type that goes with the element type).
        """
        usable = [self._usable(operand, where) for operand in operands]
        kinds = [operand.kind for operand in usable if isinstance(operand, Value)]
        vectors = [kind for kind in kinds if isinstance(kind, VectorKind)]
        tiles = [kind for kind in kinds if isinstance(kind, TileKind | ViewKind)]
        if vectors and tiles:
            raise self._error(
                "a vector and a tile don't go together", where, "load vectors from the tile: tops.vload"
            )
        if vectors or tiles:
            dtypes = [kind.dtype for kind in (vectors or tiles)]
            dtype = dtypes[0]
            if any(other != dtype for other in dtypes):
                other = next(other for other in dtypes if other != dtype)
                noun = "vectors" if vectors else "tiles"
                raise self._error(
                    f"{noun} of {dtype} and {other} don't go together",
                    where,
                    f"convert one: {self._words.cast(dtype)} or {self._words.cast(other)}",
                )
            name = "vector" if vectors else "tile"
            return name, dtype, [self._beside(operand, dtype, name, where) for operand in usable]
        dtype = self._scalar_type(usable, where)
        return "scalar", dtype, [self._scalar(operand, dtype, where, "an operand") for operand in usable]

    def _into(self, operand: Operand, dtype: DType, where: Where) -> Value:
        """A scalar that is written where values of `dtype` are; what is no scalar as it is."""
        operand = self._usable(operand, where)
        if not isinstance(operand, Value):
            if dtype == I32 and isinstance(operand, bool):
                operand = int(operand)
            return self._number(operand, dtype, where, into=True)
        kind = operand.kind
        if isinstance(kind, ScalarKind) and kind.dtype.is_float and not dtype.is_float:
            text = where.text()
            value = text if re.fullmatch(r"[\w.]+", text) else "x"
            raise self._error(
                f"an f32 into values of {dtype}",
                where,
                f"convert the value: {self._words.number(I32, value)}",
            )
        return self._beside(operand, dtype, "value", where)

    def _beside(self, operand: Operand, dtype: DType, noun: str, where: Where) -> Value:
        """An operand beside a tile or vector of `dtype`."""
        if not isinstance(operand, Value):
            if dtype == I32 and isinstance(operand, bool):
                operand = int(operand)
            return self._number(operand, dtype, where)
        kind = operand.kind
        if not isinstance(kind, ScalarKind):
            return operand
        if kind.dtype.is_float and not dtype.is_float:
            raise self._error(
                f"an f32 beside a {noun} of {dtype}",
                where,
                f"convert the {noun}, {self._words.cast(F32)}, or the number, {self._words.number(I32, 'x')}",
            )
        if dtype == BOOL and kind.dtype != BOOL:
            raise self._error(f"an {kind.dtype} beside a {noun} of bool", where, "compare it first: x != 0")
        register = scalar(dtype) if dtype != BOOL else BOOL
        return operand if kind.dtype == register else self._convert(operand, register, where)

    def _scalar_type(self, operands: Sequence[Operand], where: Where) -> DType:
        """The type in which scalars meet: f32 before i32 before bool."""
        out = BOOL
        for operand in operands:
            dtype = self._typed(operand, where).kind
            assert isinstance(dtype, ScalarKind)
            if dtype.dtype == F32:
                return F32
            if dtype.dtype == I32:
                out = I32
        return out


def scalar_type(dtype: DType) -> DType:
    """The type of a scalar read from memory of `dtype`: f32, i32 or bool."""
    return BOOL if dtype == BOOL else scalar(dtype)


def _shown(number: Number) -> str:
    """A number in a message; one of thousands of digits is not written out."""
    return "this number" if isinstance(number, int) and number.bit_length() > 256 else repr(number)
