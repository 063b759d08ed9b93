"""Operations on whole tiles: filling, reducing, gathering, multiplying matrices."""

from __future__ import annotations

from collections.abc import Sequence

from tops_kit.isa.dtypes import BOOL, F32, I32, DType, accumulator
from tops_kit.topscc import tree
from tops_kit.topscc.building.arithmetic import ArithmeticBuilder
from tops_kit.topscc.building.shapes import axes_hint, broadcast, differ, shape_hint
from tops_kit.topscc.building.values import Operand, kind_name
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import (
    MAX_TILE_AXES,
    AtMost,
    Extent,
    ScalarKind,
    Shape,
    TileKind,
    VectorKind,
    ViewKind,
    shape_text,
)
from tops_kit.topscc.tree import Value, Variable

_REDUCE_TYPES = {"argmax": I32, "argmin": I32, "any": BOOL, "all": BOOL}
_MMA_TYPES = ("f32", "f16", "bf16", "i8", "u8", "i16", "i32")


class TileBuilder(ArithmeticBuilder):
    """Tiles."""

    def full(
        self, dtype: DType, shape: Sequence[Operand], value: Operand, where: Where, *, at: Where | None = None
    ) -> Value:
        """A tile of one value, which stands `at`. Extents may be scalars that have a bound (`min(n, 64)`)."""
        extents, kept = self._extents(shape, where)
        number = self._filling(value, dtype, at or where)
        return self._give(tree.Full(where, self._new(TileKind(dtype, kept)), number, extents))

    def iota(
        self,
        dtype: DType,
        shape: Sequence[Operand],
        axis: int,
        where: Where,
        *,
        start: Operand = 0,
        step: Operand = 1,
    ) -> Value:
        """start + step * index along an axis."""
        extents, kept = self._extents(shape, where)
        if dtype == BOOL:
            raise self._error("iota of bool", where, "compare an iota of i32")
        axis = self._axis(axis, len(kept), where)
        first, stride = (self._filling(number, dtype, where) for number in (start, step))
        return self._give(tree.Iota(where, self._new(TileKind(dtype, kept)), first, stride, axis, extents))

    def _filling(self, value: Operand, dtype: DType, where: Where) -> Value:
        """A scalar that fills a tile of `dtype`."""
        number = self._into(value, dtype, where)
        if not isinstance(number.kind, ScalarKind):
            raise self._error(
                f"a tile is filled with a scalar, this is {kind_name(number.kind)}",
                where,
                "take one element, t[0, 0], or a number",
            )
        return number

    def _extents(self, shape: Sequence[Operand], where: Where) -> tuple[tuple[Value, ...], Shape]:
        """The extents of a new tile, which must have bounds."""
        if not 1 <= len(shape) <= MAX_TILE_AXES:
            raise self._error(
                f"a tile of {len(shape)} axes; 1 to {MAX_TILE_AXES} are possible",
                where,
                shape_hint(len(shape)),
            )
        values = tuple(self._integer(extent, where, "an extent") for extent in shape)
        kept = tuple(self._extent_of(value) for value in values)
        for axis, extent in enumerate(kept):
            self._bounded(extent, axis, where)
            if not isinstance(shape[axis], Value) and int(shape[axis]) < 0:  # type: ignore[arg-type]
                raise self._error(f"extent {axis} is {shape[axis]}", where, "extents are at least 0")
        return values, kept

    def _bounded(self, extent: Extent, axis: int, where: Where) -> None:
        if isinstance(extent, AtMost) and extent.bound is None:
            raise self._error(
                f"extent {axis} of a tile has no bound that is known when compiling",
                where,
                "give it a bound from constexprs: tops.minimum(n, BLOCK)",
            )

    def _axis(self, axis: int, rank: int, where: Where) -> int:
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise self._error(
                f"axis {axis} of a tile of {rank} ax{'i' if rank == 1 else 'e'}s", where,
                axes_hint(rank),
            )  # fmt: skip
        return axis % rank

    def copy_tile(self, a: Value, where: Where) -> Value:
        """The present content of a view of L1 as a tile."""
        a = self._tile(a, where, "what is copied")
        assert isinstance(a.kind, TileKind | ViewKind)
        return self._give(tree.CopyTile(where, self._new(TileKind(a.kind.dtype, a.kind.shape)), a))

    def reduce(self, name: str, a: Value, axis: int | None, where: Where) -> Value:
        """sum max min argmax argmin any all along an axis, which stays with extent 1.

        Axis None: all axes, one after another from the last (not for argmax and argmin of several axes). Of a
        vector: sum max min, axis None, gives a scalar.
        """
        usable = self._usable(a, where)
        if isinstance(usable, Value) and isinstance(usable.kind, VectorKind):
            if name not in ("sum", "max", "min") or axis is not None:
                raise self._error(
                    f"{name} of a vector", where, "vectors have sum, max and min, without an axis"
                )
            register = F32 if usable.kind.dtype.is_float else I32
            return self._give(tree.Reduce(where, self._new(ScalarKind(register)), name, usable, -1))
        a = self._tile(usable, where, f"the operand of {name}")
        kind = a.kind
        assert isinstance(kind, TileKind | ViewKind)
        if kind.dtype == BOOL and name in ("max", "min", "argmax", "argmin"):
            raise self._error(f"{name} of bool", where, "use any or all, or convert it")
        if axis is None:
            if kind.rank > 1 and name in ("argmax", "argmin"):
                raise self._error(
                    f"{name} of several axes at once", where, "reshape to one axis, or give axis="
                )
            for number in reversed(range(kind.rank)):
                # any and all of the bools of one step are any and all of everything
                a = self.reduce(name, a, number, where)
            return a
        axis = self._axis(axis, kind.rank, where)
        dtype = accumulator(kind.dtype) if name == "sum" else _REDUCE_TYPES.get(name, kind.dtype)
        if kind.shape[axis] == 0 and name not in ("sum", "any", "all"):
            raise self._error(
                f"{name} of no elements", where, "test that there is one: an extent of 0 has none"
            )
        shape: Shape = (*kind.shape[:axis], 1, *kind.shape[axis + 1 :])
        return self._give(tree.Reduce(where, self._new(TileKind(dtype, shape)), name, a, axis))

    def cumsum(self, a: Value, axis: int, where: Where) -> Value:
        """Running sum along an axis."""
        a = self._tile(a, where, "the operand of cumsum")
        kind = a.kind
        assert isinstance(kind, TileKind | ViewKind)
        if kind.dtype == BOOL:
            raise self._error("cumsum of bool", where, f"convert it: {self._words.cast(I32)}")
        axis = self._axis(axis, kind.rank, where)
        return self._give(tree.Cumsum(where, self._new(TileKind(kind.dtype, kind.shape)), a, axis))

    def gather(self, a: Value, index: Value, axis: int, where: Where) -> Value:
        """result[i] = a[index[i]] along an axis; the other axes of `index` (i32) are as a's or 1."""
        a = self._tile(a, where, "what is gathered from")
        index = self._tile(index, where, "the index")
        axis, shape = self._gathered(a, index, axis, where)
        assert isinstance(a.kind, TileKind | ViewKind)
        return self._give(tree.Gather(where, self._new(TileKind(a.kind.dtype, shape)), a, index, axis))

    def _gathered(self, a: Value, index: Value, axis: int, where: Where) -> tuple[int, Shape]:
        """Along the axis as the index, else a and the index broadcast."""
        assert isinstance(a.kind, TileKind | ViewKind)
        assert isinstance(index.kind, TileKind | ViewKind)
        if not index.kind.dtype.is_int:
            raise self._error(
                f"an index of {index.kind.dtype}", where, f"indices are integers: {self._words.cast(I32)}"
            )
        rank = max(a.kind.rank, index.kind.rank)
        axis = self._axis(axis, rank, where)
        source: Shape = (1,) * (rank - a.kind.rank) + a.kind.shape
        chosen: Shape = (1,) * (rank - index.kind.rank) + index.kind.shape
        rest = broadcast(
            (*source[:axis], 1, *source[axis + 1 :]), (*chosen[:axis], 1, *chosen[axis + 1 :]), self._unknown
        )
        if isinstance(rest, str):
            raise self._error(
                rest, where, "index and values have the same extents as the tile, but for the axis"
            )
        return axis, (*rest[:axis], chosen[axis], *rest[axis + 1 :])

    def scatter(
        self,
        target: Variable | Value,
        index: Value,
        values: Value,
        axis: int,
        where: Where,
        *,
        add: bool = False,
    ) -> None:
        """target[index[i]] = values[i] along an axis (`add`: +=), in place: a tile variable or view of L1."""
        kind = self._target(target, where, "scatter")
        index = self._tile(index, where, "the index")
        values = self._tile(values, where, "what is scattered")
        assert isinstance(index.kind, TileKind | ViewKind)
        assert isinstance(values.kind, TileKind | ViewKind)
        if values.kind.dtype != kind.dtype:
            raise self._error(
                f"values of {values.kind.dtype} into {kind.dtype}",
                where,
                f"convert: {self._words.cast(kind.dtype)}",
            )
        if add and kind.dtype == BOOL:
            raise self._error("adding to bool", where, f"convert both: {self._words.cast(I32)}")
        if not index.kind.dtype.is_int:
            raise self._error(
                f"an index of {index.kind.dtype}", where, f"indices are integers: {self._words.cast(I32)}"
            )
        axis = self._axis(axis, max(values.kind.rank, index.kind.rank), where)
        self._changed(target, where)
        self._emit(tree.Scatter(where, target, index, values, axis, add))

    def matmul(self, a: Value, b: Value, where: Where) -> Value:
        """a @ b of matrices: f32, f16 and bf16 give f32, ints give i32. Either may be transposed.

        With three axes, the first counts matrices.
        """
        dtype, shape = self._product(a, b, where)
        return self._give(tree.Matmul(where, self._new(TileKind(dtype, shape)), a, b))

    def mma(self, target: Variable | Value, a: Value, b: Value, where: Where) -> None:
        """target += a @ b; a tile variable or a view of L1, in place."""
        kind = self._target(target, where, "mma")
        dtype, shape = self._product(a, b, where)
        if kind.dtype != dtype:
            raise self._error(
                f"products of {dtype} into {kind.dtype}", where, f"the accumulator must be of {dtype}"
            )
        if len(shape) != kind.rank or any(differ(d, s) for d, s in zip(kind.shape, shape, strict=True)):
            raise self._error(
                f"the product {shape_text(shape)} does not fit {shape_text(kind.shape)}", where,
                f"the accumulator must be {shape_text(shape)}",
            )  # fmt: skip
        self._changed(target, where)
        self._emit(tree.Mma(where, target, a, b))

    def _product(self, a: Value, b: Value, where: Where) -> tuple[DType, Shape]:
        """Element type and shape of a @ b."""
        a = self._tile(a, where, "the left matrix")
        b = self._tile(b, where, "the right matrix")
        left, right = a.kind, b.kind
        assert isinstance(left, TileKind | ViewKind)
        assert isinstance(right, TileKind | ViewKind)
        if left.dtype != right.dtype:
            raise self._error(
                f"matrices of {left.dtype} and {right.dtype} don't go together",
                where,
                f"convert one: {self._words.cast(left.dtype)}",
            )
        if left.dtype.name not in _MMA_TYPES:
            raise self._error(
                f"matrices of {left.dtype} can't be multiplied",
                where,
                "convert both to one of " + ", ".join(_MMA_TYPES),
            )
        if left.rank != right.rank or left.rank < 2:
            raise self._error(
                f"{shape_text(left.shape)} @ {shape_text(right.shape)}: both need 2 axes, or both 3",
                where,
                "a row is t[None, :], a column t[:, None]; of two rows: tops.sum(a * b)",
            )
        if differ(left.shape[-1], right.shape[-2]):
            raise self._error(
                f"{shape_text(left.shape)} @ {shape_text(right.shape)}: {left.shape[-1]} columns, "
                f"{right.shape[-2]} rows",
                where,
                "transpose one: b.T"
                if not differ(left.shape[-1], right.shape[-1])
                else "the second has as many rows as the first has columns",
            )
        batch: Shape = ()
        if left.rank == 3:
            together = broadcast(left.shape[:1], right.shape[:1], self._unknown)
            if isinstance(together, str):
                raise self._error(together, where, "the first axes are equal, or 1")
            batch = together
        return accumulator(left.dtype), (*batch, left.shape[-2], right.shape[-1])

    def _target(self, target: Variable | Value, where: Where, what: str) -> TileKind | ViewKind:
        """What is changed in place: a tile variable that has a value, or a view of L1."""
        if isinstance(target, Variable):
            holding = self._state.get(target)
            if holding is None:
                raise self._error(
                    f"{target.name} may have no value here",
                    where,
                    "give it a tile before, on every way to this line",
                )
            kind = holding.kind
        else:
            kind = target.kind
            if isinstance(kind, TileKind):
                raise self._error(
                    f"{what} changes its target in place; this is a value",
                    where,
                    "keep it in a variable first",
                )
        if not isinstance(kind, TileKind | ViewKind):
            raise self._error(
                f"{what} into {kind_name(kind)}", where, "the target is a tile variable or a view of L1"
            )
        if isinstance(kind, ViewKind) and (kind.space != "L1" or kind.outside):
            raise self._error(f"{what} into {kind_name(kind)}", where, "the target must lie in L1")
        return kind

    def _changed(self, target: Variable | Value, where: Where) -> None:
        """A tile variable is changed in place: who read it before must not see it."""
        raise NotImplementedError
