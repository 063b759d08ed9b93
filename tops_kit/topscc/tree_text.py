"""A kernel's tree as text: statements as one would write them, each with its line in the source."""

from __future__ import annotations

from collections.abc import Iterator

from tops_kit.topscc import tree
from tops_kit.topscc.kinds import EventKind
from tops_kit.topscc.lower.analysis import PURE, Analysis
from tops_kit.topscc.tree import Block, Computed, Constant, Fix, Kernel, Node, Part, Value, Variable

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|",
    "xor": "^", "shl": "<<", "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=",
}  # fmt: skip
_MARGIN = 6  # columns for line numbers


def tree_text(kernel: Kernel) -> str:
    """The whole kernel, one statement a line."""
    return "\n".join(_Printer(kernel).lines()) + "\n"


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.analysis = Analysis(kernel).run()
        self.inside: set[Value] = set()  # values written where they are used
        self.names: dict[Variable, str] = {}
        self._find_inside()

    def lines(self) -> Iterator[str]:
        """All lines."""
        kernel = self.kernel
        yield f"kernel {kernel.name} for {kernel.target.name}"
        for parameter in kernel.parameters:
            kind = (
                f"ptr({parameter.dtype}, {parameter.ndim})"
                if isinstance(parameter.holds, Value)
                else parameter.dtype
            )
            yield f"  {parameter.name}: {kind}"
        for name, value in kernel.constexprs.items():
            yield f"  {name} = {value!r}"
        for buffer in kernel.buffers:
            slots = f", slots={buffer.slots}" if buffer.slots > 1 else ""
            yield f"  {buffer.name} = {buffer.space.lower()}({buffer.dtype}, {buffer.shape}{slots})"
        yield from self.block(kernel.body, 1)

    def _find_inside(self) -> None:
        analysis = self.analysis
        for block, final, _ in analysis.all_blocks:
            alive = [node for node in block if node not in analysis.dead]
            place = {id(node): number for number, node in enumerate(alive)}
            for number, node in enumerate(alive):
                if not isinstance(node, PURE):
                    continue
                users = analysis.users.get(node.result, [])
                if isinstance(node, tree.Read):
                    if not analysis.changes_before_last_use(node):
                        self.inside.add(node.result)
                    continue
                if isinstance(node, tree.Special):
                    self.inside.add(node.result)
                    continue
                end = place.get(id(users[0])) if len(users) == 1 else None
                if len(users) == 1 and node.result is final:
                    end = len(alive)
                if end is not None and all(
                    isinstance(other, (*PURE, tree.Load)) for other in alive[number + 1 : end]
                ):
                    self.inside.add(node.result)

    # statements

    def block(self, block: Block, depth: int) -> Iterator[str]:
        """The lines of a block."""
        empty = True
        for node in block:
            if node in self.analysis.dead or (isinstance(node, Computed) and node.result in self.inside):
                continue
            empty = False
            yield from self.statement(node, depth)
        if empty:
            yield f"{'':{_MARGIN}}| {'  ' * depth}pass"

    def line(self, node: Node, depth: int, text: str) -> str:
        """A statement beside the number of its line."""
        return f"{node.where.line:{_MARGIN - 1}} | {'  ' * depth}{text}"

    def statement(self, node: Node, depth: int) -> Iterator[str]:
        """The lines of one node."""
        match node:
            case tree.If():
                yield self.line(node, depth, f"if {self.value(node.condition)}:")
                yield from self.block(node.then, depth + 1)
                if node.otherwise:
                    yield f"{'':{_MARGIN}}| {'  ' * depth}else:"
                    yield from self.block(node.otherwise, depth + 1)
            case tree.Loop():
                yield from self.loop(node, depth)
            case tree.Range():
                bounds = ", ".join(self.value(value) for value in (node.start, node.stop, node.step))
                yield self.line(node, depth, f"for {self.variable(node.counter)} in range({bounds}):")
                yield from self.block(node.body, depth + 1)
            case tree.Inline():
                yield self.line(node, depth, f"inline {node.function}:")
                yield from self.block(node.body, depth + 1)
            case tree.Logical():
                name = f"%{node.result.number}"
                yield self.line(node, depth, f"{name} = {self.value(node.a)}")
                test = name if node.name == "and" else f"not {name}"
                yield self.line(node, depth, f"if {test}:")
                yield from self.block(node.block, depth + 1)
                yield self.line(node, depth + 1, f"{name} = {self.value(node.b)}")
            case Computed():
                used = node.result in self.analysis.users
                name = f"%{node.result.number}: {node.result.kind} = " if used else ""
                yield self.line(node, depth, name + self.result(node))
            case _:
                yield self.line(node, depth, self.simple(node))

    def loop(self, node: tree.Loop, depth: int) -> Iterator[str]:
        """A loop: short where its condition is one expression."""
        alone = all(
            inner in self.analysis.dead or (isinstance(inner, Computed) and inner.result in self.inside)
            for inner in node.head
        )
        if alone:
            yield self.line(node, depth, f"while {self.value(node.condition)}:")
        else:
            yield self.line(node, depth, "while:")
            yield from self.block(node.head, depth + 2)
            yield self.line(node, depth + 1, f"{self.value(node.condition)}:")
        yield from self.block(node.body, depth + 1)
        if node.step:
            yield f"{'':{_MARGIN}}| {'  ' * depth}step:"
            yield from self.block(node.step, depth + 1)

    def simple(self, node: Node) -> str:
        """A statement without blocks and result."""
        match node:
            case tree.Assign():
                kind = f": {node.variable.kind}" if node.first else ""
                return f"{self.variable(node.variable)}{kind} = {self.value(node.value)}"
            case tree.SetElement():
                return f"{self.value(node.base)}[{self.list(node.indices)}] = {self.value(node.value)}"
            case tree.Write():
                return f"{self.value(node.view)}[...] = {self.value(node.value)}"
            case tree.Mma():
                return f"{self.target(node.target)} += {self.value(node.a)} @ {self.value(node.b)}"
            case tree.Scatter():
                sign = "+=" if node.add else "="
                index = f"{self.target(node.target)}[{self.value(node.index)}, axis={node.axis}]"
                return f"{index} {sign} {self.value(node.values)}"
            case tree.Store():
                clip = ", clip" if node.clip else ""
                return f"store({self.value(node.destination)}, {self.value(node.source)}{clip})"
            case tree.Barrier():
                return "grid_barrier()" if node.grid else "barrier()"
            case tree.Assert():
                return f"assert {self.value(node.condition)}, {node.message!r}"
            case tree.Print():
                values = "".join(f", {self.value(value)}" for value in node.values)
                return f"print({node.format!r}{values})"
        name = type(node).__name__
        if isinstance(node, tree.Break | tree.Continue | tree.Return):
            return name.lower()
        return f"{name.lower()}({', '.join(self.target(used) for used in tree.uses(node))})"

    # expressions

    def value(self, value: Value) -> str:
        """A value: its expression where that belongs here, else its number."""
        if isinstance(value, Constant):
            return "no_event" if isinstance(value.kind, EventKind) else repr(value.value)
        parameter = self.analysis.parameters.get(value)
        if parameter is not None:
            return parameter.name
        if value in self.inside:
            return self.result(self.analysis.definition[value])
        return f"%{value.number}"

    def target(self, target: Value | Variable) -> str:
        """What is changed in place."""
        return self.variable(target) if isinstance(target, Variable) else self.value(target)

    def list(self, values: tuple[Value, ...]) -> str:
        """Values with commas between them."""
        return ", ".join(self.value(value) for value in values)

    def variable(self, variable: Variable) -> str:
        """A variable's name; with a number where two have the same."""
        found = self.names.get(variable)
        if found is None:
            found = variable.name or "_"
            if found in self.names.values() or not variable.name:
                found = f"{found}.{variable.number}"
            self.names[variable] = found
        return found

    def result(self, node: Computed) -> str:
        """The expression of a node."""
        match node:
            case tree.Read():
                return self.variable(node.variable)
            case tree.Special():
                return f"{node.name}()"
            case tree.Elementwise():
                return self.elementwise(node)
            case tree.Slot():
                return f"{node.buffer.name}[{self.value(node.slot)}]"
            case tree.Index():
                items = ", ".join(self.item(item) for item in node.items)
                return f"{self.value(node.base)}[{items}]" + (".outside" if node.outside else "")
            case tree.ExtentOf():
                return f"{self.value(node.base)}.shape[{node.axis}]"
            case tree.Element():
                return f"{self.value(node.base)}[{self.list(node.indices)}]"
            case tree.Matmul():
                return f"({self.value(node.a)} @ {self.value(node.b)})"
            case tree.Reduce():
                axis = "" if node.axis < 0 else f", axis={node.axis}"
                return f"{node.name}({self.value(node.a)}{axis})"
            case tree.Full() | tree.Iota():
                name = type(node).__name__.lower()
                values = [node.value] if isinstance(node, tree.Full) else [node.start, node.step]
                along = f", axis={node.axis}" if isinstance(node, tree.Iota) else ""
                return f"{name}(({self.list(node.extents)}), {self.list(tuple(values))}{along})"
            case tree.Permute():
                return f"{self.value(node.base)}.transpose{node.order}"
            case tree.Reshape():
                return f"{self.value(node.base)}.reshape({self.list(node.extents)})"
            case tree.Atomic():
                expected = f", {self.value(node.expected)}" if node.expected is not None else ""
                return f"atomic_{node.name}({self.value(node.target)}{expected}, {self.value(node.value)})"
        name = type(node).__name__.lower()
        details = [self.value(used) for used in tree.uses(node) if isinstance(used, Value)]
        for word in ("axis", "clip", "waits", "channel"):
            detail = getattr(node, word, None)
            if detail is not None and detail is not False:
                details.append(f"{word}={detail}")
        return f"{name}({', '.join(details)})"

    def elementwise(self, node: tree.Elementwise) -> str:
        """An operation by elements."""
        operands = [self.value(operand) for operand in node.operands]
        if node.name in _INFIX and len(operands) == 2:
            return f"({operands[0]} {_INFIX[node.name]} {operands[1]})"
        if node.name in ("cast", "lnot"):
            kind = node.result.kind
            dtype = getattr(kind, "dtype", None)
            return f"(not {operands[0]})" if node.name == "lnot" else f"{dtype}({operands[0]})"
        return f"{node.name.replace('to ', '')}({', '.join(operands)})"

    def item(self, item: Fix | Part | None) -> str:
        """A subscript."""
        if item is None:
            return ":"
        if isinstance(item, Fix):
            return self.value(item.index)
        start, stop = ("" if end is None else self.value(end) for end in (item.start, item.stop))
        return f"{start}:{stop}" + (f":{self.value(item.step)}" if item.step is not None else "")
