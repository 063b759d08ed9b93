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
            raise self._error(f"a vector of {vector.kind.dtype} into {kind_name(kind)}", where)
        position = self._integer(index, where, "the index")
        self._emit(tree.VectorStore(where, view, position, vector))

    def _lanes_of(self, view: Value, where: Where) -> TileKind | ViewKind:
        view = self._tile(view, where, "what vectors are in")
        assert isinstance(view.kind, TileKind | ViewKind)
        if view.kind.dtype == BOOL:
            raise self._error("vectors of bool", where, "vectors are of numbers; use u8")
        return view.kind

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
