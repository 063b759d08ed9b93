"""Explicit 128-byte vector registers."""

from __future__ import annotations

from tops_kit.isa.dtypes import BOOL, DType
from tops_kit.topscc import tree
from tops_kit.topscc.building.threads import ThreadBuilder
from tops_kit.topscc.building.values import Operand, kind_name
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import TileKind, VectorKind, ViewKind
from tops_kit.topscc.tree import Value


class VectorBuilder(ThreadBuilder):
    """Vectors; arithmetic on them is `unary`, `binary`, `compare`, `select`, `fma`, `reduce`."""

    def vector_load(self, view: Value, index: Operand, where: Where) -> Value:
        """128 bytes of a dense view of L1 (or a tile) from element `index`, counted over all axes."""
        kind = self._lanes_of(view, where)
        position = self._integer(index, where, "the index")
        return self._give(tree.VectorLoad(where, self._new(VectorKind(kind.dtype)), view, position))

    def vector_store(self, view: Value, index: Operand, vector: Value, where: Where) -> None:
        """128 bytes to a dense view of L1."""
        kind = self._lanes_of(view, where)
        if isinstance(kind, TileKind):
            raise self._error("a tile is a value; vectors can't be stored into it", where, "use an L1 buffer")
        if not isinstance(vector, Value) or not isinstance(vector.kind, VectorKind):
            what = kind_name(vector.kind) if isinstance(vector, Value) else repr(vector)
            raise self._error(f"{what} is no vector", where, "put it in all lanes: tops.vsplat")
        if vector.kind.dtype != kind.dtype:
            raise self._error(
                f"a vector of {vector.kind.dtype} into {kind_name(kind)}",
                where,
                f"make the vector of {kind.dtype}",
            )
        position = self._integer(index, where, "the index")
        self._emit(tree.VectorStore(where, view, position, vector))

    def _lanes_of(self, view: Value, where: Where) -> TileKind | ViewKind:
        view = self._tile(view, where, "what vectors are in")
        assert isinstance(view.kind, TileKind | ViewKind)
        if view.kind.dtype == BOOL:
            raise self._error("vectors of bool", where, "vectors are of numbers; use u8")
        if self._strided(view):
            raise self._error(
                f"{kind_name(view.kind)} that is not dense: its elements don't lie one behind another",
                where,
                "take whole rows of a buffer, or copy it into one: c[:] = ...",
            )
        return view.kind

    def _strided(self, view: Value) -> bool:
        """Whether the elements of a view certainly don't lie one behind another."""
        strides = self._strides(view)
        kind = view.kind
        assert isinstance(kind, TileKind | ViewKind)
        dense = 1
        for extent, stride in zip(reversed(kind.shape), reversed(strides), strict=True):
            if not isinstance(extent, int) or stride is None or 0 in kind.shape:
                return False
            if extent != 1 and stride != dense:
                return True
            dense *= extent
        return False

    def _strides(self, view: Value) -> list[int | None]:
        """The strides of a view in elements; None where they are not known."""
        kind = view.kind
        assert isinstance(kind, TileKind | ViewKind)
        node = self._definitions.get(self._assigned(view))
        match node:
            case tree.Index():
                strides = []
                for item, whole in zip(node.items, self._strides(node.base), strict=True):
                    step: int | None = 1
                    if isinstance(item, tree.Part) and item.step is not None:
                        step = self._constant_int(item.step)
                    if not isinstance(item, tree.Fix):
                        strides.append(None if whole is None or step is None else whole * step)
                return strides
            case tree.Permute():
                strides = self._strides(node.base)
                return [strides[axis] for axis in node.order]
            case tree.Reshape() | tree.Read() if isinstance(kind, ViewKind):
                return [None] * kind.rank
        out: list[int | None] = []
        stride: int | None = 1
        for extent in reversed(kind.shape):
            out.insert(0, stride)
            stride = stride * extent if stride is not None and isinstance(extent, int) else None
        return out

    def vector_splat(self, value: Operand, dtype: DType, where: Where) -> Value:
        """One value in all lanes."""
        if dtype == BOOL:
            raise self._error("vectors of bool", where, "vectors are of numbers; use u8")
        return self._lanes(self._filling(value, dtype, where), dtype, where)

    def vector_iota(self, dtype: DType, where: Where) -> Value:
        """0, 1, 2, ... in the lanes."""
        if dtype == BOOL:
            raise self._error("vectors of bool", where, "vectors are of numbers; use u8")
        key = ("viota", dtype)
        return self._shared(key) or self._share(key, tree.VectorIota(where, self._new(VectorKind(dtype))))
