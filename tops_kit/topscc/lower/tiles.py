"""Tiles: results go straight to where they are wanted, or into a home of their own."""

from __future__ import annotations

from tops_kit.isa.dtypes import DType
from tops_kit.topscc import tree
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import ScalarKind, TileKind, ViewKind, same_extent
from tops_kit.topscc.lower.code import Register
from tops_kit.topscc.lower.homes import Home
from tops_kit.topscc.lower.views import ViewLowering
from tops_kit.topscc.tree import Computed, Constant, Value, Variable

_FILLED = (tree.Full, tree.Iota)  # results that keep the extents of their register


class TileLowering(ViewLowering):
    """Tiles."""

    def tile(self, node: Computed) -> None:
        """A tile value into its own home."""
        if isinstance(node, tree.Full) and self._constant_tile(node):
            return
        home = self.value_home(node, node.result)
        self.before_write(home, node)
        self.produce(node, home.register, home)
        self.registers[node.result] = home.register

    def _constant_tile(self, node: tree.Full) -> bool:
        """A tile of one element that never changes is filled once, at the entry."""
        kind = node.result.kind
        assert isinstance(kind, TileKind)
        if kind.shape != (1,) or not isinstance(node.value, Constant) or node.result in self.sent:
            return False
        key = ("full", kind.dtype.name, repr(node.value.value))
        found = self.hoisted_views.get(key)
        if found is None:
            home = self.constant_home(kind, node.where)
            found = self.hoisted_views[key] = home.register
            self.before_body("tfill", found, self.of(node.value), where=node.where)
        self.registers[node.result] = found
        return True

    def assign_tile(self, node: tree.Assign) -> None:
        """A tile into a variable's home, without a copy where that is safe."""
        home = self.variable_home(node.variable)
        source = self.analysis.definition.get(node.value)
        if self.analysis.later.get(node.value) is node:
            assert source is not None
            if self._may_go_into(source, home.register):
                self.before_write(home, node)
                self.produce(source, home.register, home)
                return
        value = self.of(node.value)
        self.before_write(home, node)
        if value is not home.register:
            self.emit("tcopy", home.register, value, where=node.where)

    def write(self, node: tree.Write) -> None:
        """A tile or scalar into a view of L1."""
        view = self.of(node.view)
        if isinstance(node.value.kind, ScalarKind):
            self.emit("tfill", view, self.of(node.value), where=node.where)
            return
        source = self.analysis.definition.get(node.value)
        if (
            self.analysis.later.get(node.value) is node
            and source is not None
            and self._fills(source, node.view)
        ):
            self.produce(source, view, None)
            return
        self.emit("tcopy", view, self.of(node.value), where=node.where)

    def _fills(self, source: Computed, view: Value) -> bool:
        """Whether a result certainly has the view's extents, so that it needs no broadcast on the way."""
        kind, target = source.result.kind, view.kind
        assert isinstance(kind, TileKind)
        assert isinstance(target, ViewKind)
        if len(kind.shape) != len(target.shape) or isinstance(source, _FILLED):
            return False
        return all(
            same_extent(a, b) or (a != 1 and b != 1) for a, b in zip(kind.shape, target.shape, strict=True)
        )

    def _may_go_into(self, source: Computed, register: Register) -> bool:
        """Whether a result may be made in a register: not when its extents change while it is read."""
        if not any(self.of(used) is register for used in tree.uses(source) if isinstance(used, Value)):
            return True
        return isinstance(source, tree.Elementwise) and all(
            self._same_shape(source.result, operand)
            for operand in source.operands
            if self.of(operand) is register
        )

    def _same_shape(self, result: Value, operand: Value) -> bool:
        a, b = result.kind, operand.kind
        if not isinstance(a, TileKind) or not isinstance(b, TileKind | ViewKind) or a.rank != b.rank:
            return False
        return all(same_extent(x, y) for x, y in zip(a.shape, b.shape, strict=True))

    # results

    def produce(self, node: Computed, d: Register, home: Home | None) -> None:
        """A tile result into `d`: the register of `home`, or a view of L1."""
        match node:
            case tree.Elementwise():
                self._elementwise(node, d)
            case tree.Reduce():
                self.emit(f"tr{node.name}", d, self.of(node.a), node.axis, where=node.where)
            case tree.Cumsum():
                self.emit("tcumsum", d, self.of(node.a), node.axis, where=node.where)
            case tree.Gather():
                self.emit("tgather", d, self.of(node.a), self.of(node.index), node.axis, where=node.where)
            case tree.Matmul():
                self.emit("matmul", d, self.of(node.a), self.of(node.b), where=node.where)
            case tree.CopyTile():
                self.emit("tcopy", d, self.of(node.a), where=node.where)
            case tree.Full():
                value = self.of(node.value)
                self._set_extents(home, node.extents, node.where)
                self.emit("tfill", d, value, where=node.where)
            case tree.Iota():
                start, step = self.of(node.start), self.of(node.step)
                self._set_extents(home, node.extents, node.where)
                self.emit("tiota", d, start, step, node.axis, where=node.where)
            case tree.Load():
                assert home is not None
                self.load_into(node, home)
            case _:
                raise TypeError(f"{type(node).__name__} makes no tile")

    def load_into(self, node: tree.Load, home: Home) -> None:
        """A load into a home."""
        raise NotImplementedError

    def _set_extents(self, home: Home | None, extents: tuple[Value, ...], where: Where) -> None:
        if home is not None:
            self.extents(home, tuple(self.of(extent) for extent in extents), where)

    def _elementwise(self, node: tree.Elementwise, d: Register) -> None:
        operands = [self.of(operand) for operand in node.operands]
        name = {"cast": "tcopy"}.get(node.name, f"t{node.name}")
        if len(operands) == 2:
            left, right = (isinstance(operand.kind, ScalarKind) for operand in node.operands)
            name += "_rs" if left else "_s" if right else ""
        dying = tuple(
            register
            for register, operand in zip(operands, node.operands, strict=True)
            if register in self.home_of and self._same_shape(node.result, operand)
        )
        self.emit(name, d, *operands, where=node.where, in_place=dying)

    # in place

    def mma(self, node: tree.Mma) -> None:
        """target += a @ b."""
        a, b = self.of(node.a), self.of(node.b)
        target = self._target(node.target, node)
        self.emit("mma", target, a, b, where=node.where)

    def scatter(self, node: tree.Scatter) -> None:
        """target[index] = values."""
        index, values = self.of(node.index), self.of(node.values)
        target = self._target(node.target, node)
        self.emit(
            "tscatter_add" if node.add else "tscatter", target, index, values, node.axis, where=node.where
        )

    def _target(self, target: Value | Variable, node: tree.Node) -> Register:
        if isinstance(target, Variable) and isinstance(target.kind, TileKind):
            home = self.variable_home(target)
            self.before_write(home, node)
            return home.register
        return self.variable(target) if isinstance(target, Variable) else self.of(target)

    def vector_reduce(self, node: tree.Reduce, d: Register, dtype: DType) -> None:
        """The lanes of a vector into a scalar."""
        self.emit(f"vr{node.name}", d, self.of(node.a), dtype.code, where=node.where)
