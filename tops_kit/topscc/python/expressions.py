"""Expressions: operators, comparisons, conditions, tuples, texts, attributes."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tops_kit.isa.dtypes import DType
from tops_kit.topscc.builder import Operand
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import EventKind, ScalarKind, TileKind, VectorKind, ViewKind
from tops_kit.topscc.language.types import WIDE, dtype_of
from tops_kit.topscc.python.hints import module_hint
from tops_kit.topscc.python.refusals import EXPRESSIONS
from tops_kit.topscc.python.scope import LocalFunction, Method
from tops_kit.topscc.python.subscripts import Subscripts
from tops_kit.topscc.tree import Buffer, Value
from tops_kit.topscc.words import spoken

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv), ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod), ast.BitAnd: ("and", operator.and_), ast.BitOr: ("or", operator.or_),
    ast.BitXor: ("xor", operator.xor), ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("shr", operator.rshift), ast.Pow: ("pow", operator.pow),
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("lt", operator.lt), ast.LtE: ("le", operator.le), ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge), ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne),
}  # fmt: skip
_WIDEST = 1000  # characters of a formatted number
_MAX_BITS = 256  # of an int while compiling; larger ones have no use in a kernel of 32 bits
_METHODS = ("to", "reshape", "transpose", "sum", "max", "min")
_ATTRIBUTES = ("shape", "dtype", "ndim", "T")


class Expressions(Subscripts):
    """Expressions."""

    calling: ast.Call | None = None  # the call whose callee is being read

    def value(self, node: ast.expr, *, view: bool = False) -> Any:
        """What an expression stands for."""
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name():
                return self.name(node)
            case ast.Subscript():
                return self.subscript(node, view=view)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp():
                return self._logical(node)
            case ast.IfExp():
                return self._conditional(node, view=view)
            case ast.Tuple() | ast.List():
                return tuple(self.value(item) for item in self._elements(node))
            case ast.Lambda():
                return LocalFunction("<lambda>", node, self.scope, self.defaults(node))
            case ast.JoinedStr():
                return self._joined(node)
        what, hint = EXPRESSIONS.get(type(node), (f"{type(node).__name__} in a kernel", ""))
        raise self.error(what, node, hint)

    def _elements(self, node: ast.Tuple | ast.List) -> list[ast.expr]:
        for item in node.elts:
            if isinstance(item, ast.Starred):
                raise self.error("* in a tuple", item, "write each element")
        return node.elts

    def call(self, node: ast.Call) -> Any:
        """A call."""
        raise NotImplementedError

    def defaults(self, node: ast.FunctionDef | ast.Lambda) -> dict[str, Any]:
        """The default values of a function's arguments."""
        named = [*node.args.posonlyargs, *node.args.args]
        pairs = list(zip(named[len(named) - len(node.args.defaults) :], node.args.defaults, strict=True))
        pairs += [
            (argument, default)
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default is not None
        ]
        return {argument.arg: self.value(default) for argument, default in pairs}

    def number(self, node: ast.expr) -> Operand:
        """An expression as an operand."""
        return self.operand(self.value(node), node)

    def _constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, complex | bytes):
            kind = "complex numbers" if isinstance(node.value, complex) else "bytes"
            hint = "write two numbers, or two tiles: the real and the imaginary part"
            if isinstance(node.value, bytes):
                hint = "texts for print are written 'x'; data comes in as an array: x: tops.ptr(tops.u8)"
            raise self.error(f"{kind} are not possible in a kernel", node, hint)
        return node.value

    def _joined(self, node: ast.JoinedStr) -> str:
        """An f-string whose parts are all known when compiling."""
        out = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.value(part.value)
                if not self.known(value):
                    raise self.error(
                        "a text outside of print must be known when compiling, this has "
                        f"{self.describe(value)}",
                        part.value,
                        f"put it in print: print({ast.unparse(node)})",
                    )
                value = self.static(value)
                specification = self._joined(part.format_spec) if part.format_spec else ""  # type: ignore[arg-type]
                try:
                    if any(int(digits) > _WIDEST for digits in re.findall(r"\d+", specification)):
                        raise ValueError(f"a field of more than {_WIDEST} characters")
                    out.append(format(value, specification))
                except (ValueError, TypeError) as reason:
                    raise self.error(f"{value!r}: {reason}", part, "formats are Python's: {x:.3f}") from None
            else:
                assert isinstance(part, ast.Constant)
                out.append(str(part.value))
        return "".join(out)

    # operators

    def _binary(self, node: ast.BinOp) -> Any:
        a, b = self.value(node.left), self.value(node.right)
        return self.binary(node.op, (a, node.left), (b, node.right), node)

    def binary(
        self,
        op: ast.operator,
        one: tuple[Any, ast.expr],
        other: tuple[Any, ast.expr],
        node: ast.expr | ast.stmt,
    ) -> Any:
        """`one op other`, of values with the nodes that they stand in."""
        (a, left), (b, right) = one, other
        if isinstance(op, ast.MatMult):
            return self.builder.matmul(self._matrix(a, left), self._matrix(b, right), self.where(node))
        name, python = _BINARY[type(op)]
        a, b = self.plain(a, left), self.plain(b, right)
        if not isinstance(a, Value | Buffer) and not isinstance(b, Value | Buffer):
            return self._python(python, a, b, node)
        if name == "pow":
            return self._power(self.computed(a, left), b, right, self.where(node))
        return self.builder.binary(name, self.computed(a, left), self.computed(b, right), self.where(node))

    def _matrix(self, value: Any, node: ast.expr) -> Value:
        operand = self.computed(value, node)
        if not isinstance(operand, Value):
            raise self.error(f"@ multiplies matrices, this is {operand!r}", node, "write * for numbers")
        return operand

    def _python(self, function: Callable[[Any, Any], Any], a: Any, b: Any, node: ast.expr | ast.stmt) -> Any:
        """An operation on what is known, as Python does it."""
        if function is operator.mod and isinstance(a, str):
            raise self.error("% of texts", node, "write an f-string")
        text = isinstance(a, str) and isinstance(b, str) and function is operator.add
        tuples = isinstance(a, tuple) and isinstance(b, tuple) and function is operator.add
        repeated = isinstance(a, tuple) and type(b) is int and function is operator.mul and 0 <= b <= 64
        numbers = all(isinstance(x, int | float) for x in (a, b))
        if not (numbers or text or tuples or repeated):
            bad = a if not isinstance(a, int | float) else b
            raise self.error(f"{self.describe(bad)} is no number", node, self._operand_hint(bad))
        if function in (operator.pow, operator.lshift) and not self._small(function, a, b):
            raise self.error("the result has no place in 32 bits", node, "compute in f32: 2.0 ** 40")
        try:
            result = function(a, b)
        except (ArithmeticError, TypeError, ValueError) as reason:
            raise self.error(
                str(reason), node, "this is computed when compiling: give it other values"
            ) from None
        if isinstance(result, complex):
            raise self.error(
                "the result is a complex number", node, "tops.sqrt of a negative number gives NaN"
            )
        return result

    @staticmethod
    def _small(function: Callable[[Any, Any], Any], a: float, b: float) -> bool:
        """Whether a power or shift of ints keeps to a size that can be of use."""
        if not isinstance(a, int) or not isinstance(b, int) or b < 0:
            return True
        bits = b * max(1, a.bit_length()) if function is operator.pow else a.bit_length() + b
        return bits <= _MAX_BITS

    def _power(self, x: Operand, b: Any, right: ast.expr, where: Where) -> Any:
        """`x ** n` for a small whole n, 0.5 and -0.5."""
        exponent = self.static(b)
        if exponent == 0.5:
            return self.builder.unary("sqrt", x, where)
        if exponent == -0.5:
            return self.builder.unary("rsqrt", x, where)
        if isinstance(exponent, int) and 1 <= exponent <= 8:
            result = x
            for _ in range(exponent - 1):
                result = self.builder.binary("mul", result, x, where)
            return result
        raise self.error(
            "** of values of the running kernel is possible with 1 to 8, 0.5 and -0.5",
            right,
            "write tops.exp(y * tops.log(x))",
        )

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.plain(self.value(node.operand), node.operand)
        where = self.where(node)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value, node.operand)
            return not truth if isinstance(truth, bool) else self.builder.unary("not", truth, where)
        if not isinstance(value, Value | Buffer):
            if not isinstance(value, int | float):
                raise self.error(
                    f"{self.describe(value)} is no number", node.operand, self._operand_hint(value)
                )
            match node.op:
                case ast.USub():
                    return -value
                case ast.UAdd():
                    return +value
            if isinstance(value, float):
                raise self.error("~ of a float", node, "~ is for ints and bools")
            return not value if isinstance(value, bool) else ~value
        operand = self.computed(value, node.operand)
        match node.op:
            case ast.UAdd():
                return operand
            case ast.USub():
                return self.builder.unary("neg", operand, where)
        return self.builder.unary("invert", operand, where)

    # conditions

    def truth(self, value: Any, node: ast.expr) -> bool | Operand:
        """A condition: a Python bool when known."""
        value = self.static(self.plain(value, node))
        if isinstance(value, Value | Buffer):
            return self.builder.truth(self.computed(value, node), self.where(node))
        if isinstance(value, LocalFunction | Method):
            raise self.error(f"{self.describe(value)} is no condition", node, "call it")
        return bool(value)

    def _compare(self, node: ast.Compare) -> Any:
        """`a < b`, and chains `a <= b < c`, where what is in the middle is evaluated once."""
        left = self.value(node.left)
        return self._chain(node, left, node.left, list(zip(node.ops, node.comparators, strict=True)))

    def _chain(
        self, node: ast.Compare, a: Any, a_node: ast.expr, rest: list[tuple[ast.cmpop, ast.expr]]
    ) -> Any:
        (op, b_node), *more = rest
        b = self.value(b_node)
        first = self._compared(op, (a, a_node), (b, b_node), node)
        if not more:
            return first
        truth = self.truth(first, node)
        if isinstance(truth, bool):
            return self._chain(node, b, b_node, more) if truth else False
        kept = self.operand(b, b_node)
        return self.builder.logical(
            "and", truth, lambda: self.operand(self._chain(node, kept, b_node, more), node), self.where(node)
        )

    def _compared(
        self, op: ast.cmpop, one: tuple[Any, ast.expr], other: tuple[Any, ast.expr], node: ast.Compare
    ) -> Any:
        (a, a_node), (b, b_node) = one, other
        a, b = self.plain(a, a_node), self.plain(b, b_node)
        if isinstance(op, ast.Is | ast.IsNot):
            if a is not None and b is not None and not isinstance(a, DType | bool):
                raise self.error("`is` compares with None only", node, "write ==")
            return (a is b) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            inside = self._contains(a, b, node)
            return inside == isinstance(op, ast.In)
        name, python = _COMPARE[type(op)]
        if isinstance(a, Value | Buffer) or isinstance(b, Value | Buffer):
            for side, side_node in ((a, a_node), (b, b_node)):
                if side is None and name in ("eq", "ne"):
                    raise self.error(
                        "a value of the running kernel is never None",
                        side_node,
                        "only what is known when compiling can be None: annotate it tops.constexpr",
                    )
            return self.builder.compare(
                name, self.computed(a, a_node), self.computed(b, b_node), self.where(node)
            )
        try:
            return bool(python(self.static(a), self.static(b)))
        except TypeError as reason:
            raise self.error(
                str(reason), node, "this is compared when compiling: convert one of them"
            ) from None

    def _contains(self, a: Any, b: Any, node: ast.Compare) -> bool:
        if not isinstance(b, tuple | str | range) or not self.known(a) or not self.known(b):
            raise self.error(
                "`in` is possible only for tuples and values known when compiling",
                node,
                "compare with each element",
            )
        try:
            return self.static(a) in self.static(b)
        except TypeError as reason:
            raise self.error(
                str(reason), node, "Python looks this up when compiling: write a tuple on the right"
            ) from None

    def _logical(self, node: ast.BoolOp) -> Any:
        """`and`, `or`: the right side runs only when it is needed."""
        return self._rest(node, node.values)

    def _rest(self, node: ast.BoolOp, values: list[ast.expr]) -> Any:
        a = self.value(values[0])
        if len(values) == 1:
            return a
        name = "and" if isinstance(node.op, ast.And) else "or"
        known = self.static(self.plain(a, values[0]))
        if not isinstance(known, Value | Buffer):
            return known if bool(known) == (name == "or") else self._rest(node, values[1:])
        self._scalar_condition(known, values[0], name)
        return self.builder.logical(
            name,
            self.operand(known, values[0]),
            lambda: self._side(self._rest(node, values[1:]), values[1], name),
            self.where(node),
        )

    def _side(self, value: Any, node: ast.expr, name: str) -> Operand:
        self._scalar_condition(value, node, name)
        return self.truth(value, node)

    def _scalar_condition(self, value: Any, node: ast.expr, name: str) -> None:
        if (
            isinstance(value, Value)
            and isinstance(value.kind, TileKind | ViewKind | VectorKind)
            and (isinstance(value.kind, VectorKind) or value.kind.rank)
        ):
            sign = "&" if name == "and" else "|"
            raise self.error(
                f"`{name}` of {self.describe(value)}",
                node,
                f"by elements write {sign}, with both sides in ()",
            )

    def _conditional(self, node: ast.IfExp, *, view: bool) -> Any:
        """`a if condition else b`: only the chosen side runs."""
        truth = self.truth(self.value(node.test), node.test)
        if isinstance(truth, bool):
            return self.value(node.body if truth else node.orelse, view=view)
        return self.builder.conditional(
            truth, lambda: self.number(node.body), lambda: self.number(node.orelse), self.where(node)
        )

    # attributes

    def _attribute(self, node: ast.Attribute) -> Any:
        base = self.value(node.value, view=True)
        if isinstance(base, Value | Buffer):
            return self._of_value(base, node)
        if isinstance(base, LocalFunction | Method):
            raise self.error(f"{self.describe(base)} has no attributes here", node, "call it")
        try:
            found = getattr(base, node.attr)
        except AttributeError as reason:
            if isinstance(base, ModuleType):
                what, hint = module_hint(base, node.attr, str(reason))
                raise self.error(what, node, hint) from None
            hint = ""
            if isinstance(base, tuple | list):
                hint = "tuples don't change: make a new one, t + (x,), or write into a buffer, b[i] = x"
            raise self.error(f"{self.describe(base)} has no attribute {node.attr}", node, hint) from None
        except Exception as reason:
            said = " ".join(str(reason).split())
            raise self.error(
                f"{node.attr} raises {type(reason).__name__}: {said}",
                node,
                "Python reads this when compiling: compute it before, as a global or constexpr",
            ) from None
        if not isinstance(base, ModuleType) or not base.__name__.startswith(("tops_kit", "math")):
            self.captures.from_attribute(base, node.attr, found)
        return found

    def _type_after(self, node: ast.Attribute) -> str:
        """The type that `x.astype(...)` is called with, as ours is written."""
        call = self.calling
        if call is not None and call.func is node and (call.args or call.keywords):
            given = self.value(call.args[0] if call.args else call.keywords[0].value)
            found = None if isinstance(given, Value | Buffer) else dtype_of(given)
            wide = WIDE.get(getattr(given, "__name__", str(given)))
            if found is not None or wide:
                return f"tops.{spoken(found) if found is not None else wide}"
        return "tops.f32"

    def _of_value(self, base: Value | Buffer, node: ast.Attribute) -> Any:
        name = node.attr
        if isinstance(base, Buffer):
            if name == "shape":
                return base.shape
            if name == "dtype":
                return base.dtype
            if name == "ndim":
                return len(base.shape)
            if name == "slots":
                return base.slots
            base = self.whole(base, node.value)
        kind = base.kind
        where = self.where(node)
        if name in _METHODS:
            return Method(base, name, node)
        if name == "astype":
            raise self.error("values have no astype", node, f"write .to({self._type_after(node)})")
        if name == "dtype" and not isinstance(kind, EventKind):
            return kind.dtype
        if isinstance(kind, TileKind | ViewKind):
            match name:
                case "shape":
                    return tuple(self.builder.extent(base, axis, where) for axis in range(kind.rank))
                case "ndim":
                    return kind.rank
                case "T":
                    return self.builder.transpose(base, where)
        if isinstance(kind, ScalarKind) and name in ("shape", "ndim"):
            return () if name == "shape" else 0
        has = ", ".join([*_ATTRIBUTES, *(f"{method}()" for method in _METHODS)])
        raise self.error(
            f"{self.describe(base)} has no {name}", node, f"there are {has}; see tops.* for more"
        )
