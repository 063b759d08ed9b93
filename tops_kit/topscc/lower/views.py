"""Views: those that never change are made once, at the entry."""

from __future__ import annotations

import math

from tops_kit.topscc import tree
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import TileKind, ViewKind
from tops_kit.topscc.lower.code import Register
from tops_kit.topscc.lower.homes import Home
from tops_kit.topscc.lower.scalars import ScalarLowering
from tops_kit.topscc.tree import Constant, Fix, Part, Value


class ViewLowering(ScalarLowering):
    """Views."""

    def of(self, value: Value) -> Register:
        """The register of a value; arrays get theirs when they are first used."""
        parameter = self.analysis.parameters.get(value)
        if parameter is not None and value not in self.registers:
            register = self.keep("t")
            self.hoisted.add(register)
            number = [p for p in self.kernel.parameters if isinstance(p.holds, Value)].index(parameter)
            self.before_body("tptr", register, number, where=parameter.where)
            self.registers[value] = register
        return super().of(value)

    def hoist(self, key: object, name: str, *operands: Register | int, where: Where) -> Register:
        """A view made at the entry, once for equal ones."""
        key = (name, key)
        found = self.hoisted_views.get(key)
        if found is None:
            found = self.hoisted_views[key] = self.keep("t")
            self.hoisted.add(found)
            self.before_body(name, found, *operands, where=where)
        return found

    def slot(self, node: tree.Slot, d: Register | None) -> Register:
        """A view of a slot."""
        number = node.buffer.number
        if isinstance(node.slot, Constant) and d is None:
            slot = self.of(node.slot)
            return self.hoist((number, node.slot.value), "tbuf", number, slot, 0, where=node.where)
        d = d or self.temporary("t")
        self.emit("tbuf", d, number, self.of(node.slot), 0, where=node.where)
        return d

    def index(self, node: tree.Index, d: Register | None) -> Register:
        """Part of a view, axis by axis."""
        base = self.of(node.base)
        if all(item is None for item in node.items):
            return base if d is None else self._view_of(base, d, node)
        hoists = d is None and base in self.hoisted and self._certain(node)
        key = ("index", base, tuple(self._item_key(item) for item in node.items))
        if hoists and key in self.hoisted_views:
            return self.hoisted_views[key]
        emit = self.before_body if hoists else self.emit
        if hoists:
            d = self.hoisted_views[key] = self.keep("t")
            self.hoisted.add(d)
        d = d or self.temporary("t")
        current, axis, where = base, 0, node.where
        kind = node.base.kind
        assert isinstance(kind, TileKind | ViewKind)
        for item, extent in zip(node.items, kind.shape, strict=True):
            if isinstance(item, Fix):
                emit("tindex", d, current, axis, self.of(item.index), where=where)
                current = d
                continue
            if isinstance(item, Part):
                if item.start is not None or item.stop is not None:
                    start = self.zero if item.start is None else self.of(item.start)
                    if item.stop is not None:
                        stop = self.of(item.stop)
                    elif isinstance(extent, int):
                        stop = self.constant(extent)
                    else:
                        stop = self.temporary("r")
                        emit("tdim", stop, current, axis, where=where)
                    emit("tover" if node.outside else "tslice", d, current, axis, start, stop, where=where)
                    current = d
                if item.step is not None:
                    emit("tstep", d, current, axis, self.of(item.step), where=where)
                    current = d
            axis += 1
        return self._see(d, node.base)

    def _certain(self, node: tree.Index) -> bool:
        """Whether a part is the same in every run, and inside: constants that the builder has compared."""
        kind = node.base.kind
        assert isinstance(kind, TileKind | ViewKind)
        known = all(isinstance(value, Constant) for value in node.item_values if value is not None)
        return known and not node.outside and all(isinstance(extent, int) for extent in kind.shape)

    def _item_key(self, item: Fix | Part | None) -> object:
        if isinstance(item, Fix):
            return item.index.value if isinstance(item.index, Constant) else item.index
        if isinstance(item, Part):
            ends = (item.start, item.stop, item.step)
            return tuple(end.value if isinstance(end, Constant) else end for end in ends)
        return None

    def permute(self, node: tree.Permute, d: Register | None) -> Register:
        """Axes in another order."""
        base = self.of(node.base)
        order = sum(axis << (3 * position) for position, axis in enumerate(node.order))
        if d is None and base in self.hoisted:
            return self.hoist((base, order), "tperm", base, order, where=node.where)
        d = d or self.temporary("t")
        self.emit("tperm", d, base, order, where=node.where)
        return self._see(d, node.base)

    def reshape(self, node: tree.Reshape, d: Register | None) -> Register:
        """Other extents."""
        base = self.of(node.base)
        extents = [self.of(extent) for extent in node.extents]
        unused = [self.zero] * (3 - len(extents))
        operands: list[Register | int] = [base, len(extents), *extents, *unused]
        source = self.analysis.definition.get(node.base)
        if d is None and base in self.hoisted and isinstance(source, tree.Slot):
            values = [extent.value for extent in node.extents if isinstance(extent, Constant)]
            if len(values) == len(extents) and math.prod(values) == math.prod(source.buffer.shape):
                return self.hoist((base, tuple(values)), "tshape", *operands, where=node.where)
        d = d or self.temporary("t")
        self.emit("tshape", d, *operands, where=node.where)
        return self._see(d, node.base)

    def _view_of(self, base: Register, d: Register, node: tree.Node) -> Register:
        self.emit("tcopyview", d, base, where=node.where)
        return d

    def _see(self, d: Register, base: Value) -> Register:
        """A view of a tile needs the tile's memory as long as it is used."""
        register = self.of(base)
        home = self.home_of.get(register)
        homes: tuple[Home, ...] = (home,) if home is not None else self.parts.get(register, ())
        if homes:
            self.parts[d] = homes
        return d

    def extent_of(self, node: tree.ExtentOf, d: Register) -> None:
        """The extent of an axis."""
        self.emit("tdim", d, self.of(node.base), node.axis, where=node.where)

    # elements

    def element(self, node: tree.Element, d: Register) -> None:
        """Read one element."""
        base, indices = self._element_of(node)
        self.emit("lds", d, base, *indices, where=node.where)

    def set_element(self, node: tree.SetElement) -> None:
        """Write one element."""
        base, indices = self._element_of(node)
        self.emit("sts", base, *indices, self.of(node.value), where=node.where)

    def _element_of(self, node: tree.Element | tree.SetElement) -> tuple[Register, list[Register]]:
        base, indices = node.base, node.indices
        source = self.analysis.definition.get(base)
        if self.analysis.later.get(base) is node and isinstance(source, tree.Index):
            base = source.base
            indices = tuple(item.index for item in source.items if isinstance(item, Fix))
        registers = [self.of(index) for index in indices]
        return self.of(base), registers + [self.zero] * (3 - len(registers))
