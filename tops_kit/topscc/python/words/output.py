"""Printing, checks while compiling, breakpoints."""

from __future__ import annotations

import ast
import re
from typing import Any, TypeAlias

from tops_kit.topscc.builder import Operand
from tops_kit.topscc.python.calls import Call, Meaning
from tops_kit.topscc.tree import Buffer, Value

_WIDEST = 1000  # of a printed number; more would be a slip, and fills the memory

Part: TypeAlias = str | Operand | tuple[Operand, str]


def _print(call: Call) -> Any:
    separator = call.static("sep") if call.values["sep"] is not None else " "
    if not isinstance(separator, str):
        raise call.calls.error("sep must be a text", call.at("sep"), 'write sep=" "')
    out: list[Part] = []
    for number, node in enumerate(call.values["parts"]):
        if number:
            out.append(separator)
        out += _parts(call, node)
    call.calls.builder.print_(out, call.where)


def _parts(call: Call, node: ast.expr) -> list[Part]:
    """An argument of print: a text, a value, or an f-string with both."""
    calls = call.calls
    if isinstance(node, ast.JoinedStr):
        return [part for piece in node.values for part in _parts(call, piece)]
    if isinstance(node, ast.FormattedValue):
        value = calls.value(node.value)
        if calls.known(value):
            alone = ast.copy_location(ast.JoinedStr([node]), node)
            return [calls.value(alone)]
        if isinstance(value, tuple):
            raise calls.error("a tuple in an f-string", node, "print its elements")
        specification = calls.value(node.format_spec) if node.format_spec is not None else ""
        if any(int(digits) > _WIDEST for digits in re.findall(r"\d+", specification)):
            raise calls.error(f"a field of more than {_WIDEST} characters", node, "write a smaller width")
        return [(calls.computed(value, node.value), specification)]
    value = calls.value(node)
    if isinstance(value, Value | Buffer):
        return [calls.computed(value, node)]
    if isinstance(value, tuple):
        out: list[Part] = ["("]
        for number, item in enumerate(value):
            out += [", "] * bool(number)
            out.append(calls.operand(item, node) if isinstance(item, Value | Buffer) else str(item))
        return [*out, ")"]
    return [str(value)]


def _static_assert(call: Call) -> Any:
    if not call.calls.truth(call.static("condition"), call.at("condition")):
        raise call.calls.error(str(call.static("message") or "the static_assert does not hold"), call.node)


MEANINGS: dict[str, Meaning] = {
    "print": _print,
    "static_assert": _static_assert,
    "breakpoint": lambda call: call.calls.builder.breakpoint_(call.where),
}
