"""Finding the source of a Python function, and the piece of it that is the function."""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import os
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TypeAlias

from tops_kit.errors import UserError
from tops_kit.isa.program import SourceFile
from tops_kit.topscc.python.same_code import makes

# what Python says of text that is no program (any more), or too deep a one
_UNREADABLE = (SyntaxError, ValueError, tokenize.TokenError, RecursionError, MemoryError)
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
Definition: TypeAlias = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function as it was written. `file` holds the lines of the function alone."""

    name: str
    file: SourceFile
    node: Definition
    function: FunctionType


def source_lines(function: FunctionType) -> list[str]:
    """The lines of a function's file, notebook cell, or what `linecache` knows; none where nothing is."""
    path = function.__code__.co_filename
    if os.path.lexists(path) and not Path(path).is_file():
        return []  # opening a pipe would wait for its writer
    linecache.checkcache(path)
    return linecache.getlines(path, function.__globals__)


def source_of(function: FunctionType, read: Sequence[str] = (), read_s: float = math.inf) -> FunctionSource:
    """The source of a function: from `read`, the lines of its file when it was imported, else as it is now.

    `read_s`: when that was, as time.time() says. Raises UserError where there is no source, or where the file
    holds something else by now.
    """
    code = function.__code__
    name = function.__name__
    first = code.co_firstlineno
    place = f"{code.co_filename}:{first}"
    if code.co_flags & _ASYNC:
        raise UserError(f"{name}: {place}: an async function: write def")
    now = source_lines(function)
    known = read or now
    if _written_s(code.co_filename) > read_s:
        # the file was edited: by its code it is seen which of the two the function comes from
        known = next((lines for lines in (read, now) if lines and makes(lines, function)), read)
        if not known and now:
            raise UserError(f"{name}: {place} was changed after it was imported: import the file again")
    if not known:
        raise UserError(
            f"{name}: no source at {code.co_filename}: kernels are compiled from their source; "
            "define it in a file or a notebook's cell"
        )
    found = _find(known, function) or (_find(now, function) if now else None)
    if found is None:
        raise UserError(f"{name}: {place} does not hold it (any more): import the file again")
    text = "".join(found.lines[first - 1 : found.last])
    return FunctionSource(name, SourceFile(code.co_filename, text, first), found.node, function)


@dataclass(frozen=True, slots=True)
class _Found:
    """A definition in the lines of a file, and its last line."""

    node: Definition
    last: int
    lines: Sequence[str]


def _find(lines: Sequence[str], function: FunctionType) -> _Found | None:
    first = function.__code__.co_firstlineno
    found = _in_block(lines, first, function) or _in_file(lines, first, function)
    return found and _Found(*found, lines)


def _written_s(path: str) -> float:
    """When a file was last written; 0 where it is no file."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0


def _in_block(lines: Sequence[str], first: int, function: FunctionType) -> tuple[Definition, int] | None:
    """The function, when the lines that belong together from its first on can be parsed alone: quick."""
    return _in_lines(_indented_block(lines, first), first, function) or _in_lines(
        _token_block(lines, first), first, function
    )


def _token_block(lines: Sequence[str], first: int) -> Sequence[str]:
    try:
        return inspect.getblock(lines[first - 1 :])
    except (*_UNREADABLE, IndexError):
        return ()


def _indented_block(lines: Sequence[str], first: int) -> Sequence[str]:
    """From a definition's first line to before the next statement that is indented no deeper, by how lines
    begin: ten times as quick as their tokens. Where that cuts a text or an expression, the block can't be
    parsed.
    """
    head = lines[first - 1]
    margin = head[: len(head) - len(head.lstrip())]
    inside = False
    for number, line in enumerate(lines[first - 1 :], first - 1):
        text = line.removeprefix(margin) if line.startswith(margin) else line.lstrip()
        if not text[:1].strip() or text[0] in "#)]}":
            continue
        if inside:
            return lines[first - 1 : number]
        inside = text.startswith("def ")
    return lines[first - 1 :] if inside else ()


def _in_lines(block: Sequence[str], first: int, function: FunctionType) -> tuple[Definition, int] | None:
    if not block:
        return None
    try:
        indented = block[0][:1].isspace()
        # an indented function parses below a line of its own; empty lines put it where it is in the file
        above = "if 1:\n" * indented
        tree = ast.parse("\n" * (first - 1 - indented) + above + "".join(block))
    except (*_UNREADABLE, IndexError):
        return None
    # what begins with a definition is that: no need to look at all of it
    start = tree.body[0].body[0] if indented and isinstance(tree.body[0], ast.If) else tree.body[0]
    if isinstance(start, ast.FunctionDef) and _is(start, first, function):
        return start, start.end_lineno or first
    return _pick(tree, first, function)


def _in_file(lines: Sequence[str], first: int, function: FunctionType) -> tuple[Definition, int] | None:
    try:
        return _pick(ast.parse("".join(lines)), first, function)
    except _UNREADABLE:
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
