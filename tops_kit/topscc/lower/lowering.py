"""From the tree to instructions: what each node becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tops_kit.topscc import tree
from tops_kit.topscc.kinds import ScalarKind, TileKind, VectorKind
from tops_kit.topscc.lower.code import Register
from tops_kit.topscc.lower.control import ControlLowering
from tops_kit.topscc.lower.state import register_kind
from tops_kit.topscc.tree import Block, Computed, Node, Variable

_PRINT_KINDS = {"i32": 0, "f32": 1, "bool": 2}
_VIEWS = (tree.Slot, tree.Index, tree.Permute, tree.Reshape)


class Lowering(ControlLowering):
    """Lowers one kernel."""

    def run(self) -> None:
        """All of the kernel's body, and its end."""
        for parameter in self.kernel.parameters:
            if isinstance(parameter.holds, Variable):
                self.variable(parameter.holds)
                self.note_assigned(parameter.holds)
        body = self.kernel.body
        if body and isinstance(body[-1], tree.Return):
            body = body[:-1]
        self.block(body)
        self.code.place(self.end)
        self.settle_stores(None, self.kernel.where)
        self.emit("end", where=self.kernel.where)

    def block(self, block: Block) -> None:
        """All nodes of a block, but for those that are dead or computed where they are used."""
        dead, later = self.analysis.dead, self.analysis.later
        for node in block:
            if node in dead:
                continue
            if isinstance(node, Computed):
                if node.result not in later:
                    self.compute(node)
            else:
                self._STATEMENTS[type(node)](self, node)

    # results

    def compute(self, node: Computed) -> None:
        """Lower a node with a result."""
        special = self._RESULTS.get(type(node))
        if special is not None:
            special(self, node)
        elif isinstance(node.result.kind, TileKind):
            self.tile(node)
        else:
            if isinstance(node, _VIEWS):
                self.registers[node.result] = self.view(node, None)
                return
            d = self.temporary(register_kind(node.result.kind))
            self.into(node, d)
            self.registers[node.result] = d

    def view(self, node: Computed, d: Register | None) -> Register:
        """A view, into `d` when one is given."""
        match node:
            case tree.Slot():
                return self.slot(node, d)
            case tree.Index():
                return self.index(node, d)
            case tree.Permute():
                return self.permute(node, d)
            case tree.Reshape():
                return self.reshape(node, d)
        raise TypeError(f"{type(node).__name__} makes no view")

    def into(self, node: Computed, d: Register) -> None:
        """A scalar, vector, event or view result into `d`."""
        where = node.where
        match node:
            case tree.Elementwise():
                if isinstance(node.result.kind, ScalarKind):
                    self.scalar_elementwise(node, d)
                else:
                    self.vector_elementwise(node, d)
            case tree.Slot() | tree.Index() | tree.Permute() | tree.Reshape():
                self.view(node, d)
            case tree.Element():
                self.element(node, d)
            case tree.ExtentOf():
                self.extent_of(node, d)
            case tree.Logical():
                self.logical(node, d)
            case tree.Reduce():
                assert isinstance(node.a.kind, VectorKind)
                self.vector_reduce(node, d, node.a.kind.dtype)
            case tree.Transfer():
                self.transfer(node, d)
            case tree.Memset():
                self.memset(node, d)
            case tree.Atomic():
                self.settle_stores(node, where)
                operands = [self.of(node.target)]
                operands += [self.of(node.expected)] if node.expected is not None else []
                self.emit(f"atomic_{node.name}", d, *operands, self.of(node.value), where=where)
            case tree.Clock():
                self.emit("clock", d, where=where)
            case tree.VectorLoad():
                self.emit("vld", d, self.of(node.view), self.of(node.index), where=where)
            case tree.VectorSplat() | tree.VectorIota():
                kind = node.result.kind
                assert isinstance(kind, VectorKind)
                values = [self.of(node.value)] if isinstance(node, tree.VectorSplat) else []
                name = "vsplat" if values else "viota"
                self.emit(name, d, *values, kind.dtype.code, where=where)
            case _:
                raise TypeError(f"{type(node).__name__} has no such result")

    def read(self, node: tree.Read) -> None:
        """What a variable holds: its register, or a copy when it changes before that was used."""
        register = self.variable(node.variable)
        if not self.analysis.changes_before_last_use(node):
            self.registers[node.result] = register
            return
        kind = node.result.kind
        if isinstance(kind, TileKind):
            home = self.value_home(node, node.result)
            self.before_write(home, node)
            self.emit("tcopy", home.register, register, where=node.where)
            self.registers[node.result] = home.register
            return
        d = self.temporary(register.kind)
        self.move(register.kind, d, register, node)
        self.registers[node.result] = d

    # statements

    def assign(self, node: tree.Assign) -> None:
        """A variable's new value, computed into its register where it can be."""
        if isinstance(node.variable.kind, TileKind):
            self.assign_tile(node)
        else:
            d = self.variable(node.variable)
            source = self.analysis.definition.get(node.value)
            if self.analysis.later.get(node.value) is node and source is not None:
                self.into(source, d)
                self.registers[node.value] = d  # others may need it too
            else:
                value = self.of(node.value)
                if value is not d:
                    self.move(d.kind, d, value, node)
        self.note_assigned(node.variable)

    def note_assigned(self, variable: Variable) -> None:
        """The variable can be seen from here to the end of the function it belongs to."""
        if variable not in self.first_assigned:
            self.first_assigned[variable] = len(self.code)
            if self.returns:
                self.scope_end[variable] = self.returns[-1]

    def vector_store(self, node: tree.VectorStore) -> None:
        """128 bytes to a view."""
        view, index, vector = self.of(node.view), self.of(node.index), self.of(node.vector)
        self.emit("vst", view, index, vector, where=node.where)

    def wait(self, node: tree.Wait) -> None:
        """Wait for an event."""
        self.emit("wait", self.of(node.event), where=node.where)

    def wait_all(self, node: tree.WaitAll) -> None:
        """Wait for all transfers."""
        self.emit("waitall", where=node.where)

    def atomic_tile(self, node: tree.AtomicTile) -> None:
        """Add a tile atomically."""
        self.settle_stores(node, node.where)
        self.emit("tatomic_add", self.of(node.target), self.of(node.tile), where=node.where)

    def barrier(self, node: tree.Barrier) -> None:
        """A barrier; what the compiler stores is complete before it."""
        self.settle_stores(node, node.where)
        self.emit("gridbarrier" if node.grid else "barrier", where=node.where)

    def assert_(self, node: tree.Assert) -> None:
        """An assertion."""
        self.emit("assert", self.of(node.condition), self.string(node.message), where=node.where)

    def print_(self, node: tree.Print) -> None:
        """A line of output."""
        for value in node.values:
            register = self.of(value)
            if isinstance(value.kind, ScalarKind):
                kind = _PRINT_KINDS[value.kind.dtype.name]
                self.emit("printarg", register, kind, where=node.where)
            else:
                self.emit("printtile", register, where=node.where)
        self.emit("print", self.string(node.format), where=node.where)

    def breakpoint_(self, node: tree.Breakpoint) -> None:
        """A stop under a debugger."""
        self.emit("brk", where=node.where)

    _RESULTS: ClassVar[dict[type[Node], Callable[..., None]]] = {
        tree.Read: read,
        tree.Special: ControlLowering.special,
    }
    _STATEMENTS: ClassVar[dict[type[Node], Callable[..., None]]] = {
        tree.Assign: assign,
        tree.If: ControlLowering.if_,
        tree.Loop: ControlLowering.loop,
        tree.Range: ControlLowering.range,
        tree.Inline: ControlLowering.inline,
        tree.Break: ControlLowering.jump,
        tree.Continue: ControlLowering.jump,
        tree.Return: ControlLowering.jump,
        tree.Write: ControlLowering.write,
        tree.SetElement: ControlLowering.set_element,
        tree.Mma: ControlLowering.mma,
        tree.Scatter: ControlLowering.scatter,
        tree.Store: ControlLowering.store,
        tree.VectorStore: vector_store,
        tree.Wait: wait,
        tree.WaitAll: wait_all,
        tree.AtomicTile: atomic_tile,
        tree.Barrier: barrier,
        tree.Assert: assert_,
        tree.Print: print_,
        tree.Breakpoint: breakpoint_,
    }
