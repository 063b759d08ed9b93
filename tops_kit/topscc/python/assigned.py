"""Which names statements assign, and which they hand to calls: known before they are translated.

What is found is kept with the nodes: loops in loops, and functions that are called often, ask again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_NONE: frozenset[str] = frozenset()


def stored_names(body: Iterable[ast.stmt] | ast.expr) -> frozenset[str]:
    """The names that statements assign, not those of functions inside of them. Expressions assign none."""
    if isinstance(body, ast.expr):
        return _NONE
    return _NONE.union(*map(_stored, body))


def names_in_calls(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that are called, or given to calls as they are, also in functions inside of the nodes."""
    return _NONE.union(*map(_called, nodes))


def _stored(node: ast.stmt) -> frozenset[str]:
    found: frozenset[str] | None = getattr(node, "_stored", None)
    if found is None:
        found = frozenset(_stores(node))
        node._stored = found  # type: ignore[attr-defined]
    return found


def _stores(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Assign():
            for target in node.targets:
                yield from _targets(target)
        case ast.AugAssign() | ast.AnnAssign():
            yield from _targets(node.target)
        case ast.For():
            yield from _targets(node.target)
            yield from stored_names(node.body)
            yield from stored_names(node.orelse)
        case ast.While() | ast.If():
            yield from stored_names(node.body)
            yield from stored_names(node.orelse)
        case ast.FunctionDef() | ast.ClassDef():
            yield node.name


def _targets(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name():
            yield target.id
        case ast.Tuple() | ast.List():
            for part in target.elts:
                yield from _targets(part)
        case ast.Starred():
            yield from _targets(target.value)


def _called(node: ast.AST) -> frozenset[str]:
    found: frozenset[str] | None = getattr(node, "_called", None)
    if found is None:
        found = _NONE.union(*map(_called, ast.iter_child_nodes(node)))
        if isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords), node.func]
            found |= {name.id for name in given if isinstance(name, ast.Name)}
        if isinstance(node, ast.stmt | ast.Lambda):
            node._called = found  # type: ignore[union-attr]
    return found
