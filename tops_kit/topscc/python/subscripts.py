"""Subscripts: slots of buffers, elements and parts of tiles and memory, items of tuples."""

from __future__ import annotations

import ast
from typing import Any

from tops_kit.topscc.builder import Item, Operand, Slice
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import ScalarKind, TileKind, ViewKind
from tops_kit.topscc.python.core import Loop
from tops_kit.topscc.python.names import Names
from tops_kit.topscc.python.scope import Local
from tops_kit.topscc.tree import Buffer, Value

_NEW_AXIS = object()


class Subscripts(Names):
    """Subscripts."""

    def subscript(self, node: ast.Subscript, *, view: bool) -> Any:
        """`base[items]`, read: a part stays a view; an element is read, unless `view`."""
        base = self.static(self.value(node.value, view=True))
        if isinstance(base, tuple | str | range):
            return self._item_of(base, node)
        memory, items = self.part(node, base)
        if not view and self._reads_element(memory, items):
            return self.builder.element(memory, [item for item in items if not isinstance(item, Slice)],
                                        self.where(node))  # fmt: skip
        return self._index(memory, items, node)

    def _reads_element(self, memory: Value, items: list[Any]) -> bool:
        kind = memory.kind
        if not isinstance(kind, TileKind | ViewKind) or len(items) != kind.rank:
            return False
        if isinstance(kind, ViewKind) and (kind.space == "L3" or kind.outside):
            return False
        return not any(isinstance(item, Slice) or item is _NEW_AXIS for item in items)

    def _index(self, memory: Value, items: list[Any], node: ast.Subscript) -> Value:
        where = self.where(node)
        if not items:
            return memory
        if any(item is _NEW_AXIS for item in items):
            return self._new_axes(memory, items, node)
        return self.builder.index(memory, items, where, outside=node in self.reaching)

    def _new_axes(self, memory: Value, items: list[Any], node: ast.Subscript) -> Value:
        """`t[:, None]`, `x[i:j, None]`: new axes of extent 1."""
        where = self.where(node)
        old = [item for item in items if item is not _NEW_AXIS]
        whole = all(isinstance(item, Slice) and item == Slice() for item in old)
        part = memory if whole else self.builder.index(memory, old, where)
        kind = part.kind
        assert isinstance(kind, TileKind | ViewKind)
        extents = iter([self.builder.extent(part, axis, where) for axis in range(kind.rank)])
        kept = [item for item in items if item is _NEW_AXIS or isinstance(item, Slice)]
        shape: list[Operand] = [1 if item is _NEW_AXIS else next(extents) for item in kept]
        return self.builder.reshape(part, [*shape, *extents], where)

    # the base and the items

    def part(self, node: ast.Subscript, base: Any) -> tuple[Value, list[Any]]:
        """What is subscripted as a value of the builder, and the items that remain after a buffer's slot."""
        nodes = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(base, Buffer):
            loop = self.pipeline_of(base)
            if loop is not None:
                self._counts(loop, base, nodes[0])
                base, nodes = loop.views[base], nodes[1:]
            elif base.slots > 1:
                base, nodes = self._slot(base, nodes[0]), nodes[1:]
            else:
                base = self.builder.slot(base, 0, self.where(node.value))
        if not isinstance(base, Value):
            raise self.error(
                f"{self.describe(base)} can't be subscripted", node.value, self._operand_hint(base)
            )
        if not isinstance(base.kind, TileKind | ViewKind):
            raise self.error(
                f"{self.describe(base)} has no elements",
                node.value,
                "lanes can't be reached: store the vector, then read L1"
                if str(base.kind)[0] == "v"
                else "tiles, buffers and arrays have: leave out the [...]",
            )
        items = [self._item(item) for item in nodes]
        return base, self._without_ellipsis(items, base.kind.rank, nodes)

    def _slot(self, buffer: Buffer, node: ast.expr) -> Value:
        if isinstance(node, ast.Slice | ast.Starred) or (
            isinstance(node, ast.Constant) and node.value in (..., None)
        ):
            raise self.error(
                f"the first subscript of {buffer.name} is the slot (it has {buffer.slots})",
                node,
                f"write {buffer.name}[slot, ...]",
            )
        return self.builder.slot(buffer, self.operand(self.value(node), node), self.where(node))

    def _counts(self, loop: Loop, buffer: Buffer, node: ast.expr) -> None:
        """Inside of its pipeline a buffer is subscripted by the loop variable."""
        bound = self.bound(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(bound, Local) or bound.variable is not loop.counter:
            name = loop.counter.name if loop.counter else "i"
            raise self.error(
                f"inside of its pipeline the first subscript of {buffer.name} is the loop variable",
                node,
                f"write {buffer.name}[{name}], which is the slot that this round works on",
            )

    def _item(self, node: ast.expr) -> Any:
        match node:
            case ast.Slice():
                ends = [
                    None if end is None else self._bound_of(end)
                    for end in (node.lower, node.upper, node.step)
                ]
                return Slice(*ends)
            case ast.Constant(value=v) if v is ...:
                return ...
            case ast.Starred():
                raise self.error("* in a subscript", node, "write each item")
        value = self.value(node)
        if value is None:
            return _NEW_AXIS
        if isinstance(value, slice):
            raise self.error("a slice object in a subscript", node, "write start:stop")
        return self._position(value, node)

    def _bound_of(self, node: ast.expr) -> Operand | None:
        value = self.value(node)
        return None if value is None else self._position(value, node)

    def _position(self, value: Any, node: ast.expr) -> Operand:
        if isinstance(value, Value) and isinstance(value.kind, TileKind | ViewKind) and value.kind.rank:
            raise self.error(
                "a subscript must be a scalar, this is a tile",
                node,
                "take elements by a tile of indices with tops.gather(t, index, axis)",
            )
        operand = self.computed(value, node)
        kind = operand.kind if isinstance(operand, Value) else None
        if isinstance(kind, ScalarKind) and kind.dtype.is_float:
            return self.builder.integer(operand, self.where(node), "a subscript")
        return operand

    def _without_ellipsis(self, items: list[Any], rank: int, nodes: list[ast.expr]) -> list[Any]:
        if items.count(...) > 1:
            raise self.error(
                "two ... in a subscript", nodes[items.index(...)], "write : for each axis of one of them"
            )
        fixed = sum(item is not ... and item is not _NEW_AXIS for item in items)
        if fixed > rank:
            what = "axis" if rank == 1 else "axes"
            hint = "each axis has one; None and ... are no axes"
            if rank == 1:
                hint = "write one, x[i] or x[a:b]; arrays of several axes are tops.ptr(dtype, axes)"
            raise self.error(f"{fixed} subscripts for {rank} {what}", nodes[-1], hint)
        if ... not in items:
            return items
        at = items.index(...)
        return [*items[:at], *[Slice()] * (rank - fixed), *items[at + 1 :]]

    def _item_of(self, base: tuple[Any, ...] | str | range, node: ast.Subscript) -> Any:
        """An item of a tuple: its place must be known when compiling."""
        if isinstance(node.slice, ast.Slice):
            ends = [
                None if end is None else self.integer(self.value(end), "a tuple's slice", end)
                for end in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return base[slice(*ends)]
        index = self.integer(self.value(node.slice), "the subscript of a tuple", node.slice)
        if not -len(base) <= index < len(base):
            last = len(base) - 1
            hint = f"items are 0 to {last}, or -1 for the last" if last >= 0 else "it is empty"
            raise self.error(f"a tuple of {len(base)} has no item {index}", node, hint)
        return base[index]

    # assigning

    def assign_part(self, target: ast.expr, value: Any, where: Where) -> None:
        """`x[items] = value`: an element, or a part of L1."""
        if not isinstance(target, ast.Subscript):
            raise self.error("this can't be assigned", target, "assign names, and parts: b[...] = v")
        base = self.value(target.value, view=True)
        self.changes_no_tuple(target, base)
        memory, items = self.part(target, base)
        self.write_part(target, memory, items, self.operand(value, target), where)

    def changes_no_tuple(self, target: ast.Subscript, base: Any) -> None:
        """Items of tuples, texts and ranges can't be assigned to."""
        if isinstance(self.static(base), tuple | str | range):
            what = "texts" if isinstance(base, str) else "tuples"
            raise self.error(
                f"{what} can't be assigned to",
                target,
                "make a new one: t = t[:i] + (x,) + t[i + 1:], or write into a buffer: b[i] = x",
            )

    def write_part(
        self, target: ast.Subscript, memory: Value, items: list[Any], value: Operand, where: Where
    ) -> None:
        """Write an element, or a part."""
        if any(item is _NEW_AXIS for item in items):
            raise self.error(
                "None in a subscript that is assigned",
                target,
                "leave it out: b[i] = v fits tiles of fewer axes",
            )
        kind = memory.kind
        if isinstance(kind, ViewKind) and kind.space == "L3":
            raise self.error(
                "arrays in L3 can't be assigned to: the DTE stores",
                target,
                f"tops.store({ast.unparse(target)}, ...)",
            )
        if self._reads_element(memory, items):
            self.builder.set_element(memory, items, value, where)
        else:
            self.builder.write(self._index(memory, items, target), value, where)

    def read_part(self, target: ast.Subscript, memory: Value, items: list[Item]) -> Operand:
        """What `x[items]` holds, for `x[items] += ...`, with its subscripts evaluated once."""
        if self._reads_element(memory, items):
            return self.builder.element(memory, items, self.where(target))  # type: ignore[arg-type]
        return self._index(memory, items, target)
