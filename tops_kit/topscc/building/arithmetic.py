"""Arithmetic by elements: on scalars, tiles and vectors alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tops_kit.isa.dtypes import BOOL, F32, I32, DType
from tops_kit.isa.table import BINARY, COMPARE, UNARY_FUNCTIONS
from tops_kit.topscc import tree
from tops_kit.topscc.building.facts import OPPOSITE
from tops_kit.topscc.building.folding import fold, fold_i32
from tops_kit.topscc.building.shapes import broadcast
from tops_kit.topscc.building.state import BOOL_KIND, I32_KIND
from tops_kit.topscc.building.values import Operand, kind_name
from tops_kit.topscc.building.views import ViewBuilder
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import Kind, ScalarKind, Shape, TileKind, VectorKind, ViewKind
from tops_kit.topscc.tree import Constant, Value

_BITWISE = ("and", "or", "xor")
_SHIFTS = ("shl", "shr")
_ANY_TYPE = ("neg", "abs")  # unary functions that ints have too
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%",
    "min": "minimum", "max": "maximum", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip


class ArithmeticBuilder(ViewBuilder):
    """Unary functions, binary operations, comparisons, select, fma, casts."""

    def unary(self, name: str, a: Operand, where: Where) -> Operand:
        """A function of one operand.

        neg abs exp log sqrt rsqrt tanh erf sigmoid sin cos floor ceil recip; `not` (logical, of a scalar,
        gives bool); `invert` (bitwise; on bool logical).
        """
        if not isinstance(a, Value):
            folded = self._fold(name, where, a)
            if folded is not None:
                return folded
        if name == "not":
            return self._opposite(self._typed(self.truth(a, where), where), where)
        if name == "invert":
            return self._invert(a, where)
        if name not in UNARY_FUNCTIONS:
            raise ValueError(f"no unary function {name}")
        noun, dtype, operands = self._common([a], where)
        if dtype == BOOL and not (noun == "scalar" and name in _ANY_TYPE):
            raise self._error(f"{name} of bool", where, f"convert it: {self._words.cast(I32)}")
        if noun == "scalar":
            if dtype == BOOL or (dtype == I32 and name not in _ANY_TYPE):
                dtype = I32 if name in _ANY_TYPE else F32
                operands = [self._scalar(operands[0], dtype, where, "the operand")]
        elif not dtype.is_float and name not in _ANY_TYPE:
            raise self._error(f"{name} of a {noun} of {dtype}", where, f"convert it: {self._words.cast(F32)}")
        return self._by_elements(name, noun, dtype, operands, where)

    def _invert(self, a: Operand, where: Where) -> Operand:
        noun, dtype, operands = self._common([a], where)
        if dtype.is_float:
            raise self._error("~ of floats", where, "~ is for ints and bools")
        if noun == "scalar" and dtype == BOOL:
            return self._opposite(operands[0], where)
        if noun == "vector":
            return self.binary("xor", operands[0], -1 if dtype.kind == "i" else 255, where)
        return self._by_elements("not", noun, dtype, operands, where)

    def _opposite(self, truth: Value, where: Where) -> Value:
        """The other truth value; a comparison of integers becomes the opposite comparison."""
        node = self._definitions.get(truth)
        if isinstance(node, tree.Elementwise):
            opposite = OPPOSITE.get(node.name)
            if opposite and (node.operands[0].kind == I32_KIND or node.name in ("eq", "ne")):
                return self._elementwise(opposite, node.operands, BOOL_KIND, where)
            if node.name == "lnot":
                return node.operands[0]
        return self._elementwise("lnot", [truth], BOOL_KIND, where)

    def binary(self, name: str, a: Operand, b: Operand, where: Where) -> Operand:
        """add sub mul div floordiv mod min max, and on ints and bools and or xor shl shr (shifts: ints)."""
        if name not in BINARY:
            raise ValueError(f"no binary operation {name}")
        if not isinstance(a, Value) and not isinstance(b, Value):
            folded = self._fold(name, where, a, b)
            if folded is not None:
                return folded
        noun, dtype, operands = self._common([a, b], where)
        sign = _SIGNS[name]
        if name in _BITWISE or name in _SHIFTS:
            if dtype.is_float:
                raise self._error(f"{sign} of {dtype}", where, f"{sign} is for ints and bools")
        elif dtype == BOOL:
            if noun == "scalar":
                dtype = I32
                operands = [self._scalar(operand, I32, where, "an operand") for operand in operands]
            else:
                raise self._error(
                    f"{sign} of {noun}s of bool", where, f"convert them: {self._words.cast(I32)}"
                )
        if name == "div" and not dtype.is_float:
            raise self._error(
                f"/ of {dtype}",
                where,
                f"write // for the quotient rounded down, or convert: "
                f"{self._words.number(F32, 'x') if noun == 'scalar' else self._words.cast(F32)}",
            )
        if name in _SHIFTS and dtype == BOOL:
            dtype = I32
            operands = [self._scalar(operand, I32, where, "an operand") for operand in operands]
        if name in ("floordiv", "mod") and not dtype.is_float and self._constant_int(operands[1]) == 0:
            raise self._error(
                "integer division by zero", where, "test the divisor, or give it a value that is not 0"
            )
        return self._by_elements(name, noun, dtype, operands, where)

    def compare(self, name: str, a: Operand, b: Operand, where: Where) -> Operand:
        """lt le gt ge eq ne: bool scalars and tiles; vectors of 1 and 0 in the vector's own type."""
        if name not in COMPARE:
            raise ValueError(f"no comparison {name}")
        if not isinstance(a, Value) and not isinstance(b, Value):
            folded = self._fold(name, where, a, b)
            if folded is not None:
                return folded
        noun, dtype, operands = self._common([a, b], where)
        if noun == "scalar" and dtype == BOOL:
            dtype = I32
            operands = [self._scalar(operand, I32, where, "an operand") for operand in operands]
        return self._by_elements(
            name, noun, dtype, operands, where, result=BOOL if noun != "vector" else dtype
        )

    def select(self, condition: Operand, a: Operand, b: Operand, where: Where) -> Operand:
        """`where(condition, a, b)` by elements (or lanes); all are evaluated."""
        condition = self._usable(condition, where)
        if not isinstance(condition, Value):
            return a if condition else b
        noun, dtype, operands = self._common([a, b], where)
        kind = condition.kind
        if isinstance(kind, VectorKind):
            if noun == "tile":
                raise self._error(
                    "a vector condition with tiles",
                    where,
                    "choose tiles by a tile of bool, or vectors by a vector",
                )
            dtype = kind.dtype
            chosen = [self._lanes(self._beside(x, dtype, "vector", where), dtype, where) for x in operands]
            return self._elementwise("select", [condition, *chosen], VectorKind(dtype), where)
        if isinstance(kind, ScalarKind):
            truth = self.truth(condition, where)
            assert isinstance(truth, Value)
            condition = truth
            if noun == "scalar":
                return self._elementwise("select", [condition, *operands], ScalarKind(dtype), where)
        elif not isinstance(kind, TileKind | ViewKind) or kind.dtype != BOOL:
            raise self._error(
                f"the condition must be bool, this is {kind_name(kind)}", where, "compare it first: x != 0"
            )
        if noun == "vector":
            raise self._error(
                "vectors with a condition that is no vector",
                where,
                "compare vectors: the result has lanes of 1 and 0",
            )
        spread = [self._spread(condition, BOOL, where), *(self._spread(x, dtype, where) for x in operands)]
        return self._elementwise("select", spread, TileKind(dtype, self._shape(spread, where)), where)

    def fma(self, a: Operand, b: Operand, c: Operand, where: Where) -> Operand:
        """a * b + c, rounded once (floats)."""
        noun, dtype, operands = self._common([a, b, c], where)
        if noun == "scalar" and not dtype.is_float:
            dtype = F32
            operands = [self._scalar(operand, F32, where, "an operand") for operand in operands]
        if not dtype.is_float:
            raise self._error(f"fma of {dtype}", where, "fma is for floats; write a * b + c")
        if noun == "tile":
            operands = [self._spread(operand, dtype, where) for operand in operands]
        return self._by_elements("fma", noun, dtype, operands, where)

    def cast(self, a: Operand, dtype: DType, where: Where) -> Operand:
        """Converted.

        Scalars: to f16 or bf16 gives an f32 rounded to their values, to a small int an i32 in its range.
        """
        operand = self._usable(a, where)
        if not isinstance(operand, Value):
            if dtype == BOOL:
                return bool(operand)
            if dtype in (F32, I32):
                if dtype == I32 and not math.isfinite(operand):
                    raise self._error(
                        f"{operand} can't be converted to {dtype}",
                        where,
                        "only finite numbers have an integer",
                    )
                number = float(operand) if dtype == F32 else int(operand)
                return self._number(number, dtype, where)
            operand = self._typed(operand, where)
        kind = operand.kind
        if isinstance(kind, VectorKind):
            raise self._error(
                f"a vector of {kind.dtype} can't be converted",
                where,
                f"convert a tile: {self._words.cast(dtype)}",
            )
        if isinstance(kind, TileKind | ViewKind):
            if kind.dtype == dtype:
                return operand
            return self._elementwise("cast", [operand], TileKind(dtype, kind.shape), where)
        if dtype == BOOL:
            return self.truth(operand, where)
        register = F32 if dtype.is_float else I32
        assert isinstance(kind, ScalarKind)
        if kind.dtype == register or not kind.dtype.is_float:
            operand = self._convert(operand, register, where) if kind.dtype != register else operand
        else:
            operand = self._elementwise("cast", [operand], ScalarKind(register), where)
        if dtype == register:
            return operand
        if kind.dtype.is_float and register == I32:  # floats saturate, as those of tiles do; ints wrap
            least = 0 if dtype.kind == "u" else -(1 << (8 * dtype.size_bytes - 1))
            greatest = least + (1 << (8 * dtype.size_bytes)) - 1
            operand = self._elementwise("max", [operand, least], ScalarKind(I32), where)
            operand = self._elementwise("min", [operand, greatest], ScalarKind(I32), where)
        return self._elementwise(f"to {dtype}", [operand], ScalarKind(register), where)

    def truth(self, a: Operand, where: Where) -> Operand:
        """A scalar as a condition (`if a`): a != 0 as a bool; tiles are refused."""
        operand = self._usable(a, where)
        if not isinstance(operand, Value):
            return bool(operand)
        kind = operand.kind
        if not isinstance(kind, ScalarKind):
            raise self._error(
                f"{kind_name(kind)} is no condition",
                where,
                "reduce it to one element, tops.any(t)[0, 0], or choose by elements: tops.where(t, a, b)"
                if isinstance(kind, TileKind | ViewKind)
                else "conditions are scalars",
            )
        if kind.dtype == BOOL:
            return operand
        if isinstance(operand, Constant):
            return bool(operand.value)
        zero = Constant(0, kind, 0.0 if kind.dtype == F32 else 0)
        return self._elementwise("ne", [operand, zero], BOOL_KIND, where)

    # how nodes come to be

    def _fold(self, name: str, where: Where, *numbers: int | float | bool) -> int | float | bool | None:
        try:
            return fold(name, *numbers)
        except (ArithmeticError, TypeError, ValueError) as reason:
            raise self._error(
                f"{', '.join(map(repr, numbers))}: {reason}",
                where,
                "this is computed when compiling: give it other values",
            ) from None

    def _by_elements(
        self,
        name: str,
        noun: str,
        dtype: DType,
        operands: Sequence[Value],
        where: Where,
        *,
        result: DType | None = None,
    ) -> Value:
        """A node whose result has the element type `result`, `dtype` when None."""
        out = result or dtype
        if noun == "vector":
            lanes = [self._lanes(operand, dtype, where) for operand in operands]
            return self._elementwise(name, lanes, VectorKind(out), where)
        if noun == "tile":
            return self._elementwise(name, operands, TileKind(out, self._shape(operands, where)), where)
        return self._elementwise(name, operands, ScalarKind(out), where)

    def _elementwise(self, name: str, operands: Sequence[Operand], kind: Kind, where: Where) -> Value:
        """The node; scalars that were computed before are shared, constants computed at once."""
        values = tuple(self._typed(operand, where) for operand in operands)
        if not isinstance(kind, ScalarKind):
            return self._give(tree.Elementwise(where, self._new(kind), name, values))
        folded = self._fold_scalar(name, values, kind)
        if folded is not None:
            return folded
        key = (name, kind, tuple(self._key(value) for value in values))
        return self._shared(key) or self._share(key, tree.Elementwise(where, self._new(kind), name, values))

    def _fold_scalar(self, name: str, values: tuple[Value, ...], kind: ScalarKind) -> Value | None:
        """Integers whose result is known; nothing is folded in floats, whose bits are the machine's."""
        if len(values) == 1:
            (a,) = values
            if isinstance(a, Constant) and name == "lnot":
                return Constant(0, kind, not a.value)
            if isinstance(a, Constant) and kind == I32_KIND and a.kind == I32_KIND and name == "neg":
                return Constant(0, kind, fold_i32("sub", 0, int(a.value)) or 0)
            return None
        if len(values) != 2 or any(value.kind != I32_KIND for value in values):
            return None
        a, b = values
        if isinstance(a, Constant) and isinstance(b, Constant):
            number = fold_i32(name, int(a.value), int(b.value))
            return (
                None if number is None else Constant(0, kind, bool(number) if kind == BOOL_KIND else number)
            )
        left, right = self._constant_int(a), self._constant_int(b)
        if right == 0 and name in ("add", "sub", "or", "xor", "shl", "shr"):
            return a
        if left == 0 and name in ("add", "or", "xor"):
            return b
        if right == 1 and name in ("mul", "floordiv"):
            return a
        if left == 1 and name == "mul":
            return b
        return None

    def _lanes(self, operand: Value, dtype: DType, where: Where) -> Value:
        """An operand as a vector: scalars in all lanes."""
        if isinstance(operand.kind, VectorKind):
            return operand
        key = ("splat", dtype, self._key(operand))
        return self._shared(key) or self._share(
            key, tree.VectorSplat(where, self._new(VectorKind(dtype)), operand)
        )

    def _spread(self, operand: Value, dtype: DType, where: Where) -> Value:
        """An operand as a tile: a scalar becomes a tile of one element, which broadcasts."""
        if isinstance(operand.kind, TileKind | ViewKind):
            return operand
        one = Constant(0, I32_KIND, 1)
        key = ("spread", dtype, self._key(operand))
        return self._shared(key) or self._share(
            key, tree.Full(where, self._new(TileKind(dtype, (1,))), operand, (one,))
        )

    def _shape(self, operands: Sequence[Value], where: Where) -> Shape:
        """The broadcast shape of the tiles among the operands."""
        shape: Shape | None = None
        for operand in operands:
            kind = operand.kind
            if not isinstance(kind, TileKind | ViewKind):
                continue
            if not 1 <= kind.rank <= 3:
                raise self._error(
                    f"a tile of {kind.rank} axes; 1 to 3 are possible",
                    where,
                    "fix an axis by a number, or join axes by a reshape",
                )
            if shape is None:
                shape = kind.shape
                continue
            both = broadcast(shape, kind.shape, self._unknown)
            if isinstance(both, str):
                raise self._error(both, where, "extents must be equal, or 1 where one side is repeated")
            shape = both
        assert shape is not None
        return shape
