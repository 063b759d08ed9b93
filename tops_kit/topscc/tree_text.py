"""A kernel's tree as text: a line for each node, blocks indented, the source line beside.

%5 = exp %4                            # k.py:9
store %3, %5
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from tops_kit.topscc import tree
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import ViewKind, shape_text

_INDENT = "  "
_BESIDE = 64  # column of the places
_SKIPPED = ("where", "result", "name")  # shown elsewhere


def tree_text(kernel: tree.Kernel) -> str:
    """The whole kernel."""
    lines = [_head(kernel)]
    for buffer in kernel.buffers:
        slots = f", {buffer.slots} slots" if buffer.slots > 1 else ""
        lines.append(f"{_INDENT}{buffer.space} {buffer.name}: {buffer.dtype} {buffer.shape}{slots}")
    lines += _block(kernel.body, 1)
    return "\n".join(lines) + "\n"


def _head(kernel: tree.Kernel) -> str:
    parameters = []
    for parameter in kernel.parameters:
        holds = parameter.holds
        if isinstance(holds, tree.Variable):
            parameters.append(f"{parameter.name}: {parameter.dtype}")
        else:
            parameters.append(f"%{holds.number} {parameter.name}: ptr({parameter.dtype}, {parameter.ndim})")
    constexprs = "".join(f" {name}={value!r}" for name, value in kernel.constexprs.items())
    return f"kernel {kernel.name}({', '.join(parameters)}) on {kernel.target.name}{constexprs}"


def _block(block: tree.Block, depth: int) -> Iterator[str]:
    for node in block:
        yield from _node(node, depth)


def _line(text: str, depth: int, where: Where) -> str:
    left = _INDENT * depth + text
    name = where.source.path.replace("\\", "/").rpartition("/")[2]
    return f"{left:<{_BESIDE}}  # {name}:{where.line}"


def _node(node: tree.Node, depth: int) -> Iterator[str]:
    match node:
        case tree.If():
            yield _line(f"if {_value(node.condition)}:", depth, node.where)
            yield from _block(node.then, depth + 1)
            if node.otherwise:
                yield f"{_INDENT * depth}else:"
                yield from _block(node.otherwise, depth + 1)
        case tree.Loop():
            yield _line("loop:", depth, node.where)
            yield from _block(node.head, depth + 1)
            yield f"{_INDENT * (depth + 1)}while {_value(node.condition)}:"
            yield from _block(node.body, depth + 2)
            if node.step:
                yield f"{_INDENT * (depth + 1)}step:"
                yield from _block(node.step, depth + 2)
        case tree.Range():
            bounds = ", ".join(_value(bound) for bound in (node.start, node.stop, node.step))
            yield _line(f"for {_value(node.counter)} in range({bounds}):", depth, node.where)
            yield from _block(node.body, depth + 1)
        case tree.Inline():
            yield _line(f"inline {node.function}:", depth, node.where)
            yield from _block(node.body, depth + 1)
        case tree.Logical():
            yield _line(f"{_result(node)}{_value(node.a)} {node.name}:", depth, node.where)
            yield from _block(node.block, depth + 1)
            yield f"{_INDENT * (depth + 1)}{_value(node.b)}"
        case tree.Assign():
            mark = "var " if node.first else ""
            yield _line(f"{mark}{_value(node.variable)} = {_value(node.value)}", depth, node.where)
        case tree.Read():
            yield _line(f"{_result(node)}{_value(node.variable)}", depth, node.where)
        case _:
            yield _line(f"{_result(node)}{_operation(node)}", depth, node.where)


def _result(node: tree.Node) -> str:
    if not isinstance(node, tree.Computed):
        return ""
    return f"%{node.result.number}: {_kind(node.result)} = "


def _kind(value: tree.Value) -> str:
    kind = value.kind
    if isinstance(kind, ViewKind):
        return f"{kind.dtype} {shape_text(kind.shape)} in {kind.space}"
    return str(kind)


def _operation(node: tree.Node) -> str:
    """The name of a node's operation, then its operands, then its other fields."""
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(node).__name__).lower()
    name = getattr(node, "name", "")
    first = name if isinstance(node, tree.Elementwise) else f"{spelled} {name}" if name else spelled
    parts = []
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in _SKIPPED:
            continue
        if value is None or value is False:
            continue
        shown = _field(value)
        plain = field.name in node.USES or isinstance(value, tree.Buffer | tuple)
        parts.append(shown if plain else f"{field.name}={shown}")
    return f"{first} {', '.join(part for part in parts if part)}".rstrip()


def _field(value: Any) -> str:
    match value:
        case tree.Value() | tree.Variable():
            return _value(value)
        case tree.Buffer():
            return value.name
        case tree.Fix():
            return _value(value.index)
        case tree.Part():
            ends = [_value(end) if end is not None else "" for end in (value.start, value.stop, value.step)]
            return ":".join(ends if ends[2] else ends[:2])
        case tuple():
            items = ", ".join(":" if item is None else _field(item) for item in value)
            bare = all(isinstance(item, tree.Value) for item in value)
            return items if bare else f"[{items}]"
    return repr(value)


def _value(value: tree.Value | tree.Variable) -> str:
    if isinstance(value, tree.Variable):
        return value.name or f"counter{value.number}"
    if isinstance(value, tree.Constant):
        return repr(value.value)
    return f"%{value.number}"
