"""Finding the source of a Python function, and the piece of it that is the function."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import TypeAlias

from tops_kit.errors import UserError
from tops_kit.isa.program import SourceFile

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
Definition: TypeAlias = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function as it was written. `file` holds the lines of the function alone."""

    name: str
    file: SourceFile
    node: Definition
    function: FunctionType


def source_of(function: FunctionType) -> FunctionSource:
    """The source of a function, from its file, its notebook cell, or whatever `linecache` knows.

    Raises UserError where there is none, or where the file holds something else by now.
    """
    code = function.__code__
    name = function.__name__
    if code.co_flags & _ASYNC:
        raise UserError(f"{name}: {code.co_filename}:{code.co_firstlineno}: an async function: write def")
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    first = code.co_firstlineno
    if not lines:
        raise UserError(
            f"{name}: no source at {code.co_filename}: kernels are compiled from their source; "
            "define it in a file or a notebook's cell"
        )
    found = _in_block(lines, first, function) or _in_file(lines, first, function)
    if found is None:
        raise UserError(
            f"{name}: {code.co_filename}:{first} does not hold it (any more): import the file again"
        )
    node, last = found
    text = "".join(lines[first - 1 : last])
    return FunctionSource(name, SourceFile(code.co_filename, text, first), node, function)


def _in_block(lines: list[str], first: int, function: FunctionType) -> tuple[Definition, int] | None:
    """The function, when the lines that belong together from its first on can be parsed alone: quick."""
    try:
        block = inspect.getblock(lines[first - 1 :])
        indented = block[0][:1].isspace()
        # an indented function parses below a line of its own; empty lines put it where it is in the file
        above = "if 1:\n" * indented
        tree = ast.parse("\n" * (first - 1 - indented) + above + "".join(block))
    except (SyntaxError, IndexError):
        return None
    # what begins with a definition is that: no need to look at all of it
    start = tree.body[0].body[0] if indented and isinstance(tree.body[0], ast.If) else tree.body[0]
    if isinstance(start, ast.FunctionDef) and _is(start, first, function):
        return start, start.end_lineno or first
    return _pick(tree, first, function)


def _in_file(lines: list[str], first: int, function: FunctionType) -> tuple[Definition, int] | None:
    try:
        return _pick(ast.parse("".join(lines)), first, function)
    except SyntaxError:
        return None


def _pick(tree: ast.Module, first: int, function: FunctionType) -> tuple[Definition, int] | None:
    """The definition that starts at a line, with its last line."""
    candidates = list(_candidates(tree, first, function))
    if len(candidates) > 1:
        raise UserError(
            f"{function.__code__.co_filename}:{first}: several functions begin on this line: "
            "give the one that a kernel uses a line of its own"
        )
    if not candidates:
        return None
    node = candidates[0]
    return node, node.end_lineno or first


def _candidates(tree: ast.Module, first: int, function: FunctionType) -> Iterator[Definition]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda | ast.FunctionDef) and _is(node, first, function):
            yield node


def _is(node: Definition, first: int, function: FunctionType) -> bool:
    """Whether a definition may be the function's: its place, name and parameters are."""
    code = function.__code__
    if isinstance(node, ast.Lambda):
        matches = function.__name__ == "<lambda>" and node.lineno == first
    else:
        starts = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        matches = node.name == code.co_name and starts == first
    wanted = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return matches and tuple(argument.arg for argument in _arguments(node)) == wanted


def _arguments(node: Definition) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
