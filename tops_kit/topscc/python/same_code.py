"""Whether a function was made of a source: its file may have been edited since it was imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any


def makes(lines: Sequence[str], function: FunctionType) -> bool:
    """Whether the lines of a file give a function its code.

    False as well where a tool changed the code when it was imported, as pytest does with asserts.
    """
    code = function.__code__
    try:
        made = compile("".join(lines), code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    wanted = _shape(code)
    return any(_shape(one) == wanted for one in _all(made) if one.co_firstlineno == code.co_firstlineno)


def _all(code: CodeType) -> Iterator[CodeType]:
    pending = [code]
    while pending:
        one = pending.pop()
        yield one
        pending += [inner for inner in one.co_consts if isinstance(inner, CodeType)]


def _shape(code: CodeType) -> tuple[Any, ...]:
    """What is equal in code of the same source. repr keeps 1, 1.0 and True apart."""
    constants = [_shape(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants
