"""Other threads, the launch, the outside: atomics, barriers, ids, print."""

from __future__ import annotations

from collections.abc import Sequence

from tops_kit.isa.dtypes import F32, I32, DType
from tops_kit.isa.table import SPECIAL
from tops_kit.topscc import tree
from tops_kit.topscc.building.shapes import transfer_problem
from tops_kit.topscc.building.state import I32_KIND
from tops_kit.topscc.building.transfers import TransferBuilder
from tops_kit.topscc.building.values import Operand, kind_name
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import ScalarKind, TileKind, ViewKind
from tops_kit.topscc.tree import Value

ATOMICS = ("add", "min", "max", "and", "or", "xor", "exchange", "cas")
_FLOAT_ATOMICS = ("add", "min", "max", "exchange")


class ThreadBuilder(TransferBuilder):
    """What reaches beyond the thread."""

    def atomic(
        self,
        name: str,
        target: Value,
        value: Operand,
        where: Where,
        *,
        expected: Operand | None = None,
        at: Where | None = None,
    ) -> Value:
        """add min max and or xor exchange cas on one element (a view without axes) of L1, L2 or L3.

        i32, or f32 (add, min, max, exchange); gives the old value. `cas` writes `value` where the element is
        `expected`. The value stands `at`.
        """
        if name not in ATOMICS or (name == "cas") != (expected is not None):
            raise ValueError(
                f"no atomic operation {name} with{'' if expected is not None else 'out'} expected"
            )
        kind = target.kind if isinstance(target, Value) else None
        if not isinstance(kind, ViewKind):
            what = kind_name(target.kind) if isinstance(target, Value) else repr(target)
            raise self._error(f"an atomic operation on {what}", where, "give one element of an array: x[i]")
        if kind.rank or kind.outside:
            raise self._error(
                f"an atomic operation needs one element, this has {kind.rank} axes",
                where,
                f"fix every axis: {self._element_at(target)}"
                + ("; or add a tile to a part: tops.atomic_add(c[0:n], t)" if name == "add" else ""),
            )
        if kind.dtype not in (I32, F32) or (kind.dtype == F32 and name not in _FLOAT_ATOMICS):
            can = "i32" if name not in _FLOAT_ATOMICS else "i32 and f32"
            raise self._error(f"atomic {name} on {kind.dtype}", where, f"atomic {name} is for {can}")
        number = self._scalar(
            self._into(value, kind.dtype, at or where), kind.dtype, at or where, "the value"
        )
        old = None if expected is None else self._scalar(expected, kind.dtype, where, "what is expected")
        return self._give(tree.Atomic(where, self._new(ScalarKind(kind.dtype)), name, target, number, old))

    def _element_at(self, target: Value) -> str:
        """One element of what a view is of, as it is written: x[i, j]."""
        node = self._definitions.get(target)
        whole = node.base if isinstance(node, tree.Index) else target
        name = next((p.name for p in self._parameters if p.holds is whole), "x")
        assert isinstance(whole.kind, TileKind | ViewKind)
        return f"{name}[{', '.join('ijklm'[: whole.kind.rank])}]"

    def atomic_add_tile(self, target: Value, tile: Value, where: Where) -> None:
        """Add a tile, element by element, atomically, to a view of L2 or L3."""
        tile = self._tile(tile, where, "what is added")
        kind = target.kind
        if not isinstance(kind, ViewKind) or kind.space == "L1" or kind.outside:
            raise self._error(
                f"an atomic addition into {kind_name(kind)}", where, "the target must lie in L2 or L3"
            )
        assert isinstance(tile.kind, TileKind | ViewKind)
        if tile.kind.dtype != kind.dtype or kind.dtype not in (I32, F32):
            raise self._error(
                f"an atomic addition of {tile.kind.dtype} into {kind.dtype}",
                where,
                "both must be i32, or both f32",
            )
        problem = transfer_problem(kind.shape, tile.kind.shape)
        if problem:
            raise self._error(problem, where, "both sides have the same extents, or 1 in the tile")
        self._emit(tree.AtomicTile(where, target, tile))

    def barrier(self, where: Where) -> None:
        """Wait for all threads of the block."""
        self._emit(tree.Barrier(where, False))

    def grid_barrier(self, where: Where) -> None:
        """Wait for all threads of a cooperative grid."""
        self._emit(tree.Barrier(where, True))

    def special(self, name: str, where: Where) -> Value:
        """A number of the launch: a name of `isa.table.SPECIAL`, such as thread_id."""
        if name not in SPECIAL:
            raise ValueError(f"no number of the launch is called {name}")
        key = ("special", name)
        return self._shared(key) or self._share(key, tree.Special(where, self._new(I32_KIND), name))

    def clock(self, where: Where) -> Value:
        """Cycles of this thread since its start."""
        return self._give(tree.Clock(where, self._new(I32_KIND)))

    def print_(self, parts: Sequence[str | Operand | tuple[Operand, str]], where: Where) -> None:
        """One line of output: texts as they are, scalars and tiles (or views of L1) as values.

        A pair is a value and its format specification, as in Python's `{value:.3f}`.
        """
        text: list[str] = []
        values: list[Value] = []
        for given in parts:
            if isinstance(given, str):
                text.append(given.replace("{", "{{").replace("}", "}}"))
                continue
            part, specification = given if isinstance(given, tuple) else (given, "")
            if isinstance(part, Value):
                usable = self._usable(part, where)
                assert isinstance(usable, Value)
                if not isinstance(usable.kind, ScalarKind | TileKind | ViewKind):
                    raise self._error(
                        f"{kind_name(usable.kind)} can't be printed", where, "store it, print the tile"
                    )
                if specification:
                    self._suits(usable.kind.dtype, specification, where)
                text.append(f"{{:{specification}}}" if specification else "{}")
                values.append(usable)
            else:
                text.append(self._formatted(part, specification, where))
        self._emit(tree.Print(where, "".join(text), tuple(values)))

    def _suits(self, dtype: DType, specification: str, where: Where) -> None:
        """A format must go with the elements' type: the machine would write them plainly."""
        try:
            format(1.0 if dtype.is_float else dtype.kind == "b" or 1, specification)
        except ValueError as reason:
            raise self._error(
                f"the format {specification!r} of {dtype}: {reason}", where, "formats are Python's: {x:.3f}"
            ) from None

    def _formatted(self, number: int | float | bool, specification: str, where: Where) -> str:
        try:
            return format(number, specification)
        except ValueError as reason:
            raise self._error(f"{number!r}: {reason}", where, "formats are Python's: {x:.3f}") from None

    def breakpoint_(self, where: Where) -> None:
        """Stop here under a debugger."""
        self._emit(tree.Breakpoint(where))
