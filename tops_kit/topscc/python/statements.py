"""Statements."""

from __future__ import annotations

import ast
from typing import Any

from tops_kit.isa.dtypes import BOOL, F32, I32, DType
from tops_kit.isa.table import UNARY_FUNCTIONS
from tops_kit.topscc.diagnostics import KernelError
from tops_kit.topscc.kinds import TileKind, ViewKind
from tops_kit.topscc.language.types import constexpr, function
from tops_kit.topscc.language.words import word_of
from tops_kit.topscc.python.loops import Loops
from tops_kit.topscc.python.refusals import STATEMENTS
from tops_kit.topscc.python.scope import Binding, Local, LocalFunction, Lost, Method
from tops_kit.topscc.tree import Buffer, Value

# words that only give a value
PURE = {
    *UNARY_FUNCTIONS, "minimum", "maximum", "where", "fma", "cast", "cdiv", "zeros", "full", "iota",
    "arange", "sum", "max", "min", "argmax", "argmin", "any", "all", "rowsum", "rowmax", "rowmin", "cumsum",
    "gather", "reshape", "transpose", "dot", "vload", "vsplat", "viota", "lanes",
}  # fmt: skip
_PYTHON_TYPES: dict[Any, DType] = {int: I32, float: F32, bool: BOOL}


class Translator(Loops):
    """Translates the body of a kernel into calls of a builder."""

    def block(self, body: list[ast.stmt]) -> None:
        """Statements in order, up to what can't be reached."""
        for node in body:
            if self.jump or not self.builder.reachable:
                return
            try:
                self.statement(node)
            except RecursionError:
                if self.deepest is None:
                    self.deepest = self.where(self._first_line(node))
                raise

    def statement(self, node: ast.stmt) -> None:
        """One statement."""
        match node:
            case ast.Assign():
                self._assign(node)
            case ast.AugAssign():
                self._change(node)
            case ast.AnnAssign():
                self._annotated(node)
            case ast.Expr():
                if not isinstance(node.value, ast.Constant):  # a docstring
                    self._alone(node.value)
            case ast.If():
                self._if(node)
            case ast.For():
                self.for_loop(node)
            case ast.While():
                self.while_loop(node)
            case ast.Break() | ast.Continue():
                self.leave(node)
            case ast.Return():
                self.return_value(node)
            case ast.Pass():
                pass
            case ast.Assert():
                self._assert(node)
            case ast.FunctionDef():
                self._define(node)
            case _:
                what, hint = STATEMENTS.get(type(node), (f"{type(node).__name__} in a kernel", ""))
                raise self.error(what, self._first_line(node), hint)

    def _alone(self, node: ast.expr) -> None:
        """An expression on a line of its own: one that only gives a value does nothing there."""
        result = self.value(node)
        if not isinstance(result, Value):
            return
        hint = "give it a name: t = ..."
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare):
            raise self.error("the result is not used: this line does nothing", node, hint)
        if not isinstance(node, ast.Call):
            return
        callee = self.value(node.func, view=True)
        word = word_of(callee)
        if word == "dot" and len(node.args) + len(node.keywords) > 2:
            acc = ast.unparse(node.args[2]) if len(node.args) > 2 else "acc"
            hint = (
                f"write {acc} = tops.dot(a, b, {acc}), or tops.mma({acc}, a, b), which changes {acc} in place"
            )
        if word in PURE or isinstance(callee, Method):
            name = f"tops.{word}" if word else f".{callee.name}"
            raise self.error(f"the result of {name} is not used: it changes nothing itself", node, hint)

    def _first_line(self, node: ast.stmt) -> Any:
        """A compound statement's first line is enough to show."""
        body = getattr(node, "body", None)
        if not body:
            return node
        where = self.where(node)
        text = where.line_text()
        return type(where)(
            where.source,
            where.line,
            where.column,
            where.line,
            len(text.rstrip()),
            where.parent,
            where.function,
        )

    # assignments

    def _assign(self, node: ast.Assign) -> None:
        where = self.where(node)
        target = node.targets[0]
        if (
            len(node.targets) == 1
            and isinstance(target, ast.Name)
            and self._adds_in_place(target, node.value)
        ):
            return
        value = self._named(target, node.value)
        view = isinstance(value, Value) and isinstance(value.kind, ViewKind)
        if view and any(isinstance(target, ast.Subscript) for target in node.targets):
            value = self.computed(value, node.value)
        for target in node.targets:
            self.assign(target, value, where)

    def _named(self, target: ast.expr, node: ast.expr) -> Any:
        """A value that knows the name it gets: buffers are called by it."""
        self.naming = target.id if isinstance(target, ast.Name) else ""
        try:
            return self.value(node)
        finally:
            self.naming = ""

    def _adds_in_place(self, target: ast.Name, node: ast.expr) -> bool:
        """`acc = tops.dot(a, b, acc)` is `tops.mma(acc, a, b)`; whether it was done so."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            return False
        third = node.args[2] if len(node.args) == 3 else None
        for keyword in node.keywords:
            third = keyword.value if keyword.arg == "acc" else third
        if not isinstance(third, ast.Name) or third.id != target.id or len(node.args) < 2:
            return False
        return word_of(self.value(node.func, view=True)) == "dot" and self._mma(target, node.args[:2], node)

    def _mma(self, target: ast.Name, sides: list[ast.expr], node: ast.expr | ast.stmt) -> bool:
        """target += a @ b in place, where target is a tile; whether it was done."""
        bound = self.scope.names.get(target.id)
        if not isinstance(bound, Local) or not isinstance(bound.variable.kind, TileKind):
            return False
        a, b = (self.operand(self.value(side), side) for side in sides)
        if not isinstance(a, Value) or not isinstance(b, Value):
            raise self.error("a matrix product of numbers", node, "write a * b")
        self.builder.mma(bound.variable, a, b, self.where(node))
        return True

    def _change(self, node: ast.AugAssign) -> None:
        """`target op= value`."""
        where = self.where(node)
        target = node.target
        if isinstance(target, ast.Subscript):
            base = self.value(target.value, view=True)
            self.changes_no_tuple(target, base)
            memory, items = self.part(target, base)
            old = self.read_part(target, memory, items)
            new = self.binary(node.op, (old, target), (self.value(node.value), node.value), node)
            self.write_part(target, memory, items, self.operand(new, target), where)
            return
        if not isinstance(target, ast.Name):
            raise self.error("attributes can't be assigned in a kernel", target, "use a variable")
        if isinstance(node.op, ast.Add) and self._adds_product(target, node):
            return
        read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        old = self.name(read)
        memory = self.whole(old, target) if isinstance(old, Buffer) else old
        new = self.binary(node.op, (memory, target), (self.value(node.value), node.value), node)
        if isinstance(memory, Value) and isinstance(memory.kind, ViewKind):
            # as numpy does it: the memory changes, not the name
            self.builder.write(memory, self.operand(new, target), where)
        else:
            self.assign_name(target, new, where)

    def _adds_product(self, target: ast.Name, node: ast.AugAssign) -> bool:
        """`acc += a @ b` and `acc += tops.dot(a, b)` add in place; whether it was done so."""
        value = node.value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult):
            return self._mma(target, [value.left, value.right], value)
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name | ast.Attribute):
            return False
        two = len(value.args) == 2 and not value.keywords
        if two and word_of(self.value(value.func, view=True)) == "dot":
            return self._mma(target, list(value.args), value)
        return False

    def _annotated(self, node: ast.AnnAssign) -> None:
        """`x: tops.f32 = 0`, `N: tops.constexpr = 4`."""
        if node.value is None:
            return
        where = self.where(node)
        annotation = node.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            parsed = ast.parse(annotation.value, mode="eval").body
            annotation = ast.copy_location(parsed, annotation)
            ast.fix_missing_locations(annotation)
        try:
            kind = self.value(annotation)
        except KernelError:
            raise self.error(
                f"the type {ast.unparse(annotation)} is not known here",
                node.annotation,
                "leave it out: variables have the type of what they are given; or tops.f32, tops.constexpr",
            ) from None
        value = self._named(node.target, node.value)
        if kind is constexpr:
            if not isinstance(node.target, ast.Name):
                raise self.error(
                    "only names can be constexpr", node.target, "write: NAME: tops.constexpr = value"
                )
            known = self.static_of(value, node.target.id, node.value)
            self.bind_static(node.target.id, known, where)
            return
        dtype = _PYTHON_TYPES.get(kind) if isinstance(kind, type) else kind
        if not isinstance(dtype, DType):
            raise self.error(
                f"{self.describe(kind)} is no type of a variable",
                node.annotation,
                "leave it out, or tops.f32",
            )
        self.assign(node.target, self.builder.cast(self.operand(value, node.value), dtype, where), where)

    # control

    def _if(self, node: ast.If) -> None:
        truth = self.truth(self.value(node.test), node.test)
        if isinstance(truth, bool):
            self.block(node.body if truth else node.orelse)
            return
        where = self.head(node, node.test)
        names = self.scope.names
        before = dict(names)
        self.builder.begin_if(truth, where)
        with self.inner_region():
            self.block(node.body)
        if node.orelse:
            self.builder.begin_else(where)
            lost = self._restore(names, before)
            with self.inner_region():
                self.block(node.orelse)
            names.update(lost)
        self.builder.end_if(where)

    @staticmethod
    def _restore(names: dict[str, Binding], before: dict[str, Binding]) -> dict[str, Binding]:
        """Names as they were, for a second branch; gives those that the first one left ambiguous."""
        lost: dict[str, Binding] = {name: bound for name, bound in names.items() if isinstance(bound, Lost)}
        for name in list(lost):
            if name in before:
                names[name] = before[name]
            else:
                del names[name]
        return lost

    def _assert(self, node: ast.Assert) -> None:
        condition = self.truth(self.value(node.test), node.test)
        message = ast.unparse(node.test)
        if node.msg is not None:
            self._known_text(node.msg)
            text = self.value(node.msg)
            if not isinstance(text, str):
                raise self.error(
                    "the message of an assert must be a text that is known when compiling",
                    node.msg,
                    "print values before",
                )
            message = text
        self.builder.assert_(condition, message, self.where(node))

    def _known_text(self, node: ast.expr) -> None:
        """The message of an assert: an f-string can't have values of the running kernel."""
        for part in node.values if isinstance(node, ast.JoinedStr) else ():
            if isinstance(part, ast.FormattedValue) and not self.known(self.value(part.value)):
                raise self.error(
                    "the message of an assert must be a text that is known when compiling",
                    part.value,
                    f"write a plain text, and print before: if not (...): print({ast.unparse(part.value)})",
                )

    def _define(self, node: ast.FunctionDef) -> None:
        """A function inside of the kernel, inlined where it is called."""
        for decorator in node.decorator_list:
            if self.value(decorator) is not function:
                raise self.error("decorators inside of a kernel", decorator, "leave it out")
        where = self.where(node)
        defined = LocalFunction(node.name, node, self.scope, self.defaults(node))
        self.bind_static(node.name, defined, where)
