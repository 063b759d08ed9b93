"""Operations by elements."""

from __future__ import annotations

from typing import Any

from tops_kit.isa.table import UNARY_FUNCTIONS
from tops_kit.topscc.python.calls import Call, Meaning
from tops_kit.topscc.tree import Value


def _unary(name: str) -> Meaning:
    return lambda call: call.calls.builder.unary(name, call.operand("x"), call.where)


def _binary(name: str) -> Meaning:
    def meaning(call: Call) -> Any:
        return call.calls.builder.binary(name, call.operand("a"), call.operand("b"), call.where)

    return meaning


def _where(call: Call) -> Any:
    condition, a, b = (call.operand(name) for name in ("condition", "a", "b"))
    return call.calls.builder.select(condition, a, b, call.where)


def _fma(call: Call) -> Any:
    a, b, c = (call.operand(name) for name in "abc")
    return call.calls.builder.fma(a, b, c, call.where)


def _cast(call: Call) -> Any:
    return call.calls.builder.cast(call.operand("x"), call.dtype(), call.where)


def _cdiv(call: Call) -> Any:
    a, b = call.operand("a"), call.operand("b")
    if not isinstance(a, Value) and not isinstance(b, Value):
        if b == 0:
            raise call.calls.error("division by zero", call.at("b"), "give a divisor that is not 0")
        return -(-a // b)
    builder = call.calls.builder
    above = builder.binary("add", a, builder.binary("sub", b, 1, call.where), call.where)
    return builder.binary("floordiv", above, b, call.where)


MEANINGS: dict[str, Meaning] = {
    **{name: _unary(name) for name in UNARY_FUNCTIONS if name != "neg"},
    "minimum": _binary("min"),
    "maximum": _binary("max"),
    "where": _where,
    "fma": _fma,
    "cast": _cast,
    "cdiv": _cdiv,
}
