"""Calls: words of the language, Python's own functions, methods, types."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, TypeAlias

from tops_kit.isa.dtypes import BOOL, F32, I32, DType
from tops_kit.topscc.builder import Operand
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import EventKind, ScalarKind, TileKind, VectorKind, ViewKind
from tops_kit.topscc.language.types import WIDE, dtype_complaint, dtype_of
from tops_kit.topscc.language.words import word_of
from tops_kit.topscc.python.functions import Functions
from tops_kit.topscc.python.hints import FORMS, foreign_hint, keyword_hint
from tops_kit.topscc.python.scope import Local, LocalFunction, Method
from tops_kit.topscc.tree import Buffer, Value, Variable

# Python's functions that compute with what is known when compiling
_STATIC = {abs, bool, divmod, float, int, len, max, min, pow, range, round, str, sum, tuple, any, all, sorted}
_SEQUENCES: dict[Any, Callable[..., Any]] = {
    enumerate: enumerate, zip: zip, reversed: reversed, sorted: sorted, tuple: tuple, list: tuple
}  # fmt: skip
_CASTS: dict[Any, DType] = {int: I32, float: F32, bool: BOOL}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a word: its arguments by the names of the word's signature."""

    calls: Calls
    name: str
    node: ast.Call
    where: Where
    values: dict[str, Any]
    nodes: dict[str, ast.expr]
    modes: dict[str, str]  # how the language's signature wants each argument read

    def given(self, name: str) -> bool:
        """Whether an argument is given, and not None."""
        return self.values.get(name) is not None

    def at(self, name: str) -> ast.expr:
        """The node of an argument, for errors; of the call where it is left out."""
        return self.nodes.get(name, self.node)

    def place(self, name: str) -> Where:
        """The place of an argument, for errors of its value."""
        return self.calls.where(self.at(name))

    def operand(self, name: str) -> Operand:
        """An argument as an operand."""
        if self.modes[name] in ("View", "Target"):
            return self.calls.operand(self.values[name], self.at(name))
        return self.calls.computed(self.values[name], self.at(name))

    def optional(self, name: str) -> Operand | None:
        """An argument as an operand, None when it is left out."""
        return self.operand(name) if self.given(name) else None

    def tile(self, name: str) -> Value:
        """An argument that must be a value of the kernel: a tile, a view, a vector."""
        operand = self.operand(name)
        if not isinstance(operand, Value):
            raise self.calls.error(
                f"{self.name} needs a tile, this is {operand!r}",
                self.at(name),
                "tops.full(dtype, shape, value) makes a tile of a number",
            )
        return operand

    def target(self, name: str) -> Variable | Value:
        """An argument that is changed in place: a variable with a tile, or a view."""
        value = self.values[name]
        return value if isinstance(value, Variable) else self.tile(name)

    def event(self, name: str) -> Value | None:
        """An argument that is an event, None when it is left out."""
        if not self.given(name):
            return None
        value = self.values[name]
        if not isinstance(value, Value) or not isinstance(value.kind, EventKind):
            raise self.calls.error(
                f"{name} must be an event, this is {self.calls.describe(value)}",
                self.at(name),
                "events come from tops.load_async, store_async, copy_async, memset_async",
            )
        return value

    def static(self, name: str) -> Any:
        """An argument that must be known when compiling."""
        return self.calls.static_of(self.values[name], f"{name} of {self.name}", self.at(name))

    def flag(self, name: str) -> bool:
        """A True or False."""
        value = self.static(name)
        if not isinstance(value, bool | int):
            raise self.calls.error(
                f"{name} is True or False, this is {value!r}", self.at(name), "write True or False"
            )
        return bool(value)

    def integer(self, name: str) -> int:
        """An int that must be known when compiling."""
        return self.calls.integer(self.values[name], f"{name} of {self.name}", self.at(name))

    def axis(self, name: str = "axis") -> int | None:
        """An axis, None when it is left out."""
        if not self.given(name):
            return None
        value = self.values[name]
        if isinstance(value, Value) and isinstance(value.kind, TileKind | ViewKind) and value.kind.rank:
            other = {"max": "maximum", "min": "minimum"}.get(self.name)
            raise self.calls.error(
                f"{self.name} reduces one tile along an axis, this is a second tile",
                self.at(name),
                f"by elements write tops.{other}(a, b)" if other else "",
            )
        return self.integer(name)

    def dtype(self, name: str = "dtype") -> DType:
        """An element type."""
        value = self.values[name]
        if isinstance(value, tuple | int) and not isinstance(value, bool):
            signature = ", ".join(inspect.signature(self.calls.word_function(self.name)).parameters)
            raise self.calls.error(
                f"the element type comes first, this is {self.calls.describe(value)}",
                self.at(name),
                f"write tops.{self.name}({signature})",
            )
        return self.calls.dtype(value, self.at(name))

    def shape(self, name: str = "shape") -> list[Operand]:
        """A shape: an extent or a tuple of them."""
        value = self.values[name]
        items = value if isinstance(value, tuple) else (value,)
        at = self.at(name)
        nodes = at.elts if isinstance(at, ast.Tuple | ast.List) else [at] * len(items)
        return [
            self.calls.computed(self.calls.static(item), node)
            for item, node in zip(items, nodes, strict=True)
        ]

    def channel(self) -> int | None:
        """A DTE channel; 255 is the block's."""
        if not self.given("channel"):
            return None
        return 255 if self.static("channel") == "block" else self.integer("channel")


Meaning: TypeAlias = Callable[[Call], Any]


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


class Calls(Functions):
    """Calls."""

    def __init__(self, *arguments: Any, meanings: dict[str, tuple[Callable[..., Any], Meaning]]) -> None:
        super().__init__(*arguments)
        self._meanings = meanings

    def word_function(self, name: str) -> Callable[..., Any]:
        """The function of the language that stands for a word."""
        return self._meanings[name][0]

    def call(self, node: ast.Call) -> Any:
        """A call."""
        around, self.calling = self.calling, node
        try:
            callee = self.value(node.func, view=True)
        finally:
            self.calling = around
        word = word_of(callee)
        if word is not None:
            return self.call_word(word, node)
        if isinstance(callee, LocalFunction | FunctionType):
            return self.call_function(callee, node)
        if isinstance(callee, Method):
            return self._method(callee, node)
        if isinstance(callee, DType):
            return self._cast(callee, node)
        if callee is print or callee is breakpoint:
            return self.call_word(callee.__name__, node)
        return self._python_call(callee, node)

    # words

    def call_word(self, name: str, node: ast.Call) -> Any:
        """A call of a word of the language."""
        if name not in self._meanings:
            raise self.error(f"tops.{name} has no meaning here", node, _LOOPS_ONLY.get(name, ""))
        function, meaning = self._meanings[name]
        signature = _signature(function)
        keywords = {}
        self.positional(node)
        for keyword in node.keywords:
            assert keyword.arg is not None
            keywords[keyword.arg] = keyword.value
        try:
            bound = signature.bind(*node.args, **keywords)
        except TypeError as reason:
            shown = ", ".join(parameter for parameter in signature.parameters)
            hint = keyword_hint(keywords) or f"it takes ({FORMS.get(name, shown)})"
            raise self.error(f"tops.{name}: {reason}", node, hint) from None
        self._may_reach_outside(bound.arguments)
        values: dict[str, Any] = {}
        nodes: dict[str, ast.expr] = {}
        modes = {parameter.name: str(parameter.annotation) for parameter in signature.parameters.values()}
        for parameter in signature.parameters.values():
            item = bound.arguments.get(parameter.name)
            if isinstance(item, tuple) and modes[parameter.name] == "Printed":
                values[parameter.name] = item
            elif isinstance(item, tuple):  # *events
                values[parameter.name] = [(self.value(each), each) for each in item]
            elif isinstance(item, ast.expr):
                nodes[parameter.name] = item
                values[parameter.name] = self._argument(item, modes[parameter.name])
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                values[parameter.name] = []
            else:
                values[parameter.name] = parameter.default
        return meaning(Call(self, name, node, self.where(node), values, nodes, modes))

    def _may_reach_outside(self, arguments: dict[str, Any]) -> None:
        """What a transfer loads with `pad`, or stores to with `clip`: there, x[-2:6] begins before x."""
        pad, clip = arguments.get("pad"), arguments.get("clip")
        sources = [arguments[name] for name in ("second", "source", "first") if name in arguments]
        if isinstance(pad, ast.expr) and sources:
            self.reaching.add(sources[0])
        if isinstance(clip, ast.expr) and self.static(self.value(clip)) and "destination" in arguments:
            self.reaching.add(arguments["destination"])

    def _argument(self, node: ast.expr, mode: str) -> Any:
        """An argument, read as its parameter in the language's signature wants it."""
        if mode == "Target" and isinstance(node, ast.Name):
            bound = self.bound(node.id)
            if isinstance(bound, Local) and isinstance(bound.variable.kind, TileKind):
                return bound.variable
        return self.value(node, view=mode in ("View", "Target"))

    # methods and types

    def _method(self, method: Method, node: ast.Call) -> Any:
        where = self.where(node)
        items = self.positional(node)
        base = self.operand(method.base, method.node.value)
        assert isinstance(base, Value)
        names: tuple[str, ...] = {"to": ("dtype",), "sum": ("axis",), "max": ("axis",), "min": ("axis",)}.get(
            method.name, ()
        )
        named = {str(keyword.arg): keyword.value for keyword in node.keywords}
        for name, item in zip(names, items, strict=False):
            named.setdefault(name, item)
        wrong = [name for name in named if name not in names]
        if wrong or (names and len(items) > len(names)):
            hint = keyword_hint(named)
            raise self.error(f".{method.name}() takes ({', '.join(names) or '*extents'})", node, hint)
        if method.name == "to":
            if "dtype" not in named:
                raise self.error(".to() needs an element type", node, "write .to(tops.f32)")
            return self.builder.cast(base, self.dtype(self.value(named["dtype"]), named["dtype"]), where)
        if method.name in ("reshape", "transpose"):
            extents = self._extents(items)
            if method.name == "reshape":
                return self.builder.reshape(base, extents, where)
            if not extents:
                return self.builder.transpose(base, where)
            return self.builder.permute(
                base, [self.integer(extent, "an axis", node) for extent in extents], where
            )
        axis = self.value(named["axis"]) if "axis" in named else None
        return self.builder.reduce(
            method.name, base, None if axis is None else self.integer(axis, "axis", named["axis"]), where
        )

    def _extents(self, items: list[ast.expr]) -> list[Operand]:
        """`(2, 3)` or `((2, 3))` as extents."""
        values = [self.value(item) for item in items]
        if len(values) == 1 and isinstance(values[0], tuple):
            return [self.computed(self.static(value), items[0]) for value in values[0]]
        return [self.computed(self.static(value), item) for value, item in zip(values, items, strict=True)]

    def _cast(self, dtype: DType, node: ast.Call) -> Any:
        """`tops.f32(x)`."""
        items = self.positional(node)
        if len(items) != 1 or node.keywords:
            raise self.error(f"tops.{dtype.name}(x) takes one value", node, f"write tops.{dtype.name}(x)")
        return self.builder.cast(self.computed(self.value(items[0]), items[0]), dtype, self.where(node))

    # Python's own functions

    def _python_call(self, function: Any, node: ast.Call) -> Any:
        if not callable(function):
            raise self.error(
                f"{self.describe(function)} can't be called",
                node,
                "call functions, and the operations of tops",
            )
        if getattr(function, "__kernel__", False):
            raise self.error(
                f"{getattr(function, 'name', 'it')} is a kernel: a kernel can't be called from another",
                node,
                "move what both need into a plain function",
            )
        items = self.positional(node)
        if isinstance(function, type) and function not in (*_STATIC, *_SEQUENCES) and dtype_of(function):
            return self._cast(self.dtype(function, node), node)
        if isinstance(function, type) and function.__name__ in WIDE and function not in _CASTS:
            what, hint = dtype_complaint(function)
            raise self.error(what, node, hint)
        values = [self.value(item) for item in items]
        if isinstance(function, type | type(len)) and (function in _STATIC or function in _SEQUENCES):
            return self._builtin(function, values, node)
        if getattr(function, "__module__", "") == "math":
            return self._of_math(function, values, node)
        what, hint = foreign_hint(function)
        raise self.error(what, node, hint)

    def _builtin(self, function: Any, values: list[Any], node: ast.Call) -> Any:
        if function in (min, max):
            return self._extreme(function, values, node)
        if function is len and len(values) == 1 and isinstance(values[0], Value | Buffer):
            value = self.operand(values[0], node.args[0])
            assert isinstance(value, Value)
            return self.builder.extent(value, 0, self.where(node))
        if function is len and len(values) == 1 and isinstance(values[0], tuple):
            return len(values[0])
        if function is sum and len(values) == 1 and isinstance(values[0], tuple):
            return self._sum(values[0], node)
        if function in _SEQUENCES and not node.keywords:
            return tuple(self._run(_SEQUENCES[function], values, node))
        if not all(self.known(value) for value in values):
            return self._runtime_builtin(function, values, node)
        keywords = {str(k.arg): self.static_of(self.value(k.value), str(k.arg), k) for k in node.keywords}
        return self._run(function, [self.static(value) for value in values], node, keywords)

    def _runtime_builtin(self, function: Any, values: list[Any], node: ast.Call) -> Any:
        where = self.where(node)
        if function is abs and len(values) == 1:
            return self.builder.unary("abs", self.computed(values[0], node.args[0]), where)
        if function in _CASTS and len(values) == 1:
            operand = self.computed(values[0], node.args[0])
            if isinstance(operand, Value) and isinstance(operand.kind, TileKind | VectorKind):
                raise self.error(
                    f"{function.__name__}() of {self.describe(operand)}",
                    node,
                    f"write .to(tops.{_CASTS[function].name})",
                )
            return self.builder.cast(operand, _CASTS[function], where)
        name = function.__name__
        if function is range:
            raise self.error(
                "range of values of the running kernel stands in a for loop only",
                node,
                "write: for i in range(...)",
            )
        hint = _RUNTIME_HINTS.get(name)
        raise self.error(
            f"{name}() of values of the running kernel",
            node,
            f"write {hint}" if hint else "Python computes it of what is known when compiling",
        )

    def _sum(self, items: tuple[Any, ...], node: ast.Call) -> Any:
        """The sum of a tuple."""
        total: Any = 0
        for item in items:
            total = self.binary(ast.Add(), (total, node), (item, node), node)
        return total

    def _extreme(self, function: Any, values: list[Any], node: ast.Call) -> Any:
        """min and max of scalars."""
        if node.keywords:
            raise self.error(
                f"{function.__name__}() with keywords", node.keywords[0], "write min(a, b), max(a, b)"
            )
        nodes = list(node.args)
        if len(values) == 1 and isinstance(values[0], tuple):
            values, nodes = list(values[0]), nodes * len(values[0])
        values = [self.plain(self.static(value), at) for value, at in zip(values, nodes, strict=True)]
        if len(values) < 2 or not all(isinstance(value, Value | Buffer | int | float) for value in values):
            hint = f"write tops.{function.__name__}(x, axis)"
            raise self.error(f"{function.__name__}() takes two or more numbers", node, hint)
        result = values[0]
        for value, at in zip(values[1:], nodes[1:], strict=True):
            if isinstance(result, Value) or isinstance(value, Value):
                self._only_scalars(function.__name__, (result, value), node)
                result = self.builder.binary(
                    function.__name__,
                    self.computed(result, nodes[0]),
                    self.computed(value, at),
                    self.where(node),
                )
            else:
                result = function(result, value)
        return result

    def _only_scalars(self, name: str, sides: tuple[Any, ...], node: ast.Call) -> None:
        for side in sides:
            kind = side.kind if isinstance(side, Value) else None
            element = isinstance(kind, ViewKind) and kind.rank == 0
            if kind is not None and not isinstance(kind, ScalarKind) and not element:
                raise self.error(
                    f"{name}() of {self.describe(side)}", node, f"by elements write tops.{name}imum(a, b)"
                )

    def _of_math(self, function: Any, values: list[Any], node: ast.Call) -> Any:
        """Functions of the math module, of numbers that are known."""
        name = function.__name__
        if node.keywords or not all(self.known(value) for value in values):
            what, hint = foreign_hint(function)
            raise self.error(f"{what} with values of the running kernel", node, hint)
        result = self._run(function, [self.static(value) for value in values], node)
        if not isinstance(result, int | float):
            raise self.error(f"math.{name} gives no number", node, "kernels have numbers, and tuples of them")
        return result

    def _run(
        self, function: Any, values: list[Any], node: ast.Call, keywords: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of Python on what is known."""
        try:
            return function(*values, **(keywords or {}))
        except (ArithmeticError, TypeError, ValueError) as reason:
            raise self.error(
                f"{function.__name__}: {reason}",
                node,
                "this is computed when compiling: give it other values",
            ) from None


_RUNTIME_HINTS = {
    "sum": "tops.sum(x, axis)", "any": "tops.any(x, axis)", "all": "tops.all(x, axis)",
    "round": "tops.floor(x + 0.5)", "pow": "x ** n", "divmod": "a // b and a % b",
}  # fmt: skip
_LOOPS_ONLY = {
    "pipeline": "write for i in tops.pipeline(...):",
    "range": "write for i in tops.range(n):",
    "static_range": "write for i in tops.static_range(n):",
}
