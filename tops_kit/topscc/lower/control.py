"""Branches and loops: conditions as jumps, loops with their test at the end."""

from __future__ import annotations

from dataclasses import dataclass

from tops_kit.topscc import tree
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import ScalarKind
from tops_kit.topscc.lower.code import Label, Register
from tops_kit.topscc.lower.transfers import TransferLowering
from tops_kit.topscc.tree import Block, Constant, Node, Value

_JUMPS = (tree.Break, tree.Continue, tree.Return)
# comparisons of integers as (instruction when it holds, when it does not, whether its operands are exchanged)
_FUSED = {
    "lt": ("blt", "bge", False), "ge": ("bge", "blt", False),
    "gt": ("blt", "bge", True), "le": ("bge", "blt", True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Where `continue` and `break` go."""

    again: Label
    out: Label


class ControlLowering(TransferLowering):
    """Control."""

    def __init__(self, kernel: tree.Kernel, *, two_slots: bool = True) -> None:
        super().__init__(kernel, two_slots=two_slots)
        self.open_loops: list[OpenLoop] = []

    def block(self, block: Block) -> None:
        """All nodes of a block."""
        raise NotImplementedError

    # conditions

    def branch(self, condition: Value, target: Label, when: bool, where: Where) -> None:
        """Jump when the condition is `when`, else go on."""
        if isinstance(condition, Constant):
            if bool(condition.value) == when:
                self.emit("jmp", target, where=where)
            return
        node = self.analysis.definition[condition]
        if condition not in self.analysis.later or condition in self.registers:
            self.emit("brnz" if when else "brz", self.of(condition), target, where=where)
        elif isinstance(node, tree.Logical):
            self._branch_logical(node, target, when)
        elif isinstance(node, tree.Elementwise) and node.name == "lnot":
            self.branch(node.operands[0], target, not when, node.where)
        elif isinstance(node, tree.Elementwise):
            self._branch_compare(node, target, when)
        else:
            self.emit("brnz" if when else "brz", self.of(condition), target, where=where)

    def _branch_logical(self, node: tree.Logical, target: Label, when: bool) -> None:
        decided = node.name == "or"  # the value of a that decides
        if when == decided:
            self.branch(node.a, target, when, node.where)
            self.block(node.block)
            self.branch(node.b, target, when, node.where)
            return
        skip = Label()
        self.branch(node.a, skip, decided, node.where)
        self.block(node.block)
        self.branch(node.b, target, when, node.where)
        self.code.place(skip)

    def _branch_compare(self, node: tree.Elementwise, target: Label, when: bool) -> None:
        a, b = node.operands
        kind = a.kind
        integers = isinstance(kind, ScalarKind) and not kind.dtype.is_float
        if integers and node.name in _FUSED:
            holds, fails, exchanged = _FUSED[node.name]
            left, right = (self.of(b), self.of(a)) if exchanged else (self.of(a), self.of(b))
            self.emit(holds if when else fails, left, right, target, where=node.where)
            return
        zero = isinstance(b, Constant) and b.value == 0
        if integers and node.name in ("eq", "ne") and zero:
            when = when == (node.name == "ne")
            self.emit("brnz" if when else "brz", self.of(a), target, where=node.where)
            return
        truth = self.temporary("r")
        self.scalar_elementwise(node, truth)
        self.emit("brnz" if when else "brz", truth, target, where=node.where)

    def logical(self, node: tree.Logical, d: Register) -> None:
        """The value of `a and b`, `a or b`."""
        end = Label()
        self.emit("imov", d, self.of(node.a), where=node.where)
        self.emit("brz" if node.name == "and" else "brnz", d, end, where=node.where)
        self.block(node.block)
        self.emit("imov", d, self.of(node.b), where=node.where)
        self.code.place(end)

    # statements

    def if_(self, node: tree.If) -> None:
        """One of two blocks."""
        then, otherwise = node.then, node.otherwise
        if len(then) == 1 and isinstance(then[0], _JUMPS) and (label := self._goal(then[0])) is not None:
            self.branch(node.condition, label, True, node.where)
            self.block(otherwise)
            return
        if not then and otherwise:
            end = Label()
            self.branch(node.condition, end, True, node.where)
            self.block(otherwise)
            self.code.place(end)
            return
        other = Label()
        self.branch(node.condition, other, False, node.where)
        self.block(then)
        if otherwise:
            end = Label()
            if not isinstance(then[-1], _JUMPS):
                self.emit("jmp", end, where=node.where)
            self.code.place(other)
            self.block(otherwise)
            self.code.place(end)
        else:
            self.code.place(other)

    def _goal(self, node: Node) -> Label | None:
        if isinstance(node, tree.Break):
            return self.open_loops[-1].out
        if isinstance(node, tree.Continue):
            return self.open_loops[-1].again
        return self.returns[-1] if self.returns else self.end

    def jump(self, node: Node) -> None:
        """break, continue, return."""
        label = self._goal(node)
        assert label is not None
        self.emit("jmp", label, where=node.where)

    def loop(self, node: tree.Loop) -> None:
        """A loop whose condition is computed before each round."""
        body, condition = Label(), Label()
        loop = OpenLoop(Label(), Label())
        endless = isinstance(node.condition, Constant)
        repeated = endless or self._only_compares(node)
        head = Label()
        if not repeated:
            self.emit("jmp", head, where=node.where)
        elif not endless:
            self.branch(node.condition, loop.out, False, node.where)
        self.code.place(body)
        first = len(self.code)
        self.open_loops.append(loop)
        self.block(node.body)
        self.open_loops.pop()
        self.code.place(loop.again)
        self.block(node.step)
        self.code.place(condition)
        self.code.place(head)
        self.block(node.head)
        self.branch(node.condition, body, True, node.where)
        self.code.settle()
        self.code.loops.append((first, len(self.code) - 1))
        self.code.place(loop.out)

    def _only_compares(self, node: tree.Loop) -> bool:
        """Whether the head is nothing but a comparison, which may then stand before the loop as well."""
        for inner in node.head:
            if inner in self.analysis.dead:
                continue
            if isinstance(inner, tree.Read) and not self.analysis.changes_before_last_use(inner):
                self.read(inner)
            elif not (isinstance(inner, tree.Elementwise) and inner.result in self.analysis.later):
                return False
        return True

    def read(self, node: tree.Read) -> None:
        """What a variable holds."""
        raise NotImplementedError

    def range(self, node: tree.Range) -> None:
        """A counting loop."""
        counter = self.variable(node.counter)
        self.note_assigned(node.counter)
        where = node.where
        start, stop, step = self.of(node.start), self.of(node.stop), self.of(node.step)
        if start is not counter:
            self.emit("imov", counter, start, where=where)
        loop, body = OpenLoop(Label(), Label()), Label()
        if not self._certainly_runs(node):
            ends = (stop, counter) if node.down else (counter, stop)
            self.emit("bge", *ends, loop.out, where=where)
        self.code.place(body)
        first = len(self.code)
        self.open_loops.append(loop)
        self.block(node.body)
        self.open_loops.pop()
        self.code.place(loop.again)
        self.emit("iadd", counter, counter, step, where=where)
        ends = (stop, counter) if node.down else (counter, stop)
        self.emit("blt", *ends, body, where=where)
        self.code.loops.append((first, len(self.code) - 1))
        self.code.place(loop.out)

    def _certainly_runs(self, node: tree.Range) -> bool:
        if isinstance(node.start, Constant) and isinstance(node.stop, Constant):
            return node.start.value > node.stop.value if node.down else node.start.value < node.stop.value
        return False

    def note_assigned(self, variable: tree.Variable) -> None:
        """The variable has a value from here on."""
        raise NotImplementedError

    def inline(self, node: tree.Inline) -> None:
        """The body of a called function."""
        end = Label()
        self.returns.append(end)
        loops, self.open_loops = self.open_loops, []
        body = node.body
        if body and isinstance(body[-1], tree.Return):
            body = body[:-1]
        self.block(body)
        self.open_loops = loops
        self.returns.pop()
        self.code.place(end)
