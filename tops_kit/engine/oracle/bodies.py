"""The bodies of the table as Python functions: compiled once, from nothing but our own table."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from tops_kit.engine import tiles_twin
from tops_kit.engine.tiles_twin import numbers
from tops_kit.isa.table import INSTRUCTIONS, Instruction

Body = Callable[..., Any]


@functools.cache
def bodies() -> dict[str, Body]:
    """By instruction: a function of the operands that `arguments` names, in that order."""
    return {x.name: _compiled(x) for x in INSTRUCTIONS if x.py}


def arguments(instruction: Instruction) -> tuple[str, ...]:
    """The operands that the body takes: all but scalar results."""
    written = {o.name for o in instruction.operands if o.kind == "r" and o.writes}
    return tuple(o.name for o in instruction.operands if o.name not in written)


def _compiled(instruction: Instruction) -> Body:
    source = f"lambda {', '.join(arguments(instruction))}: {instruction.py}"
    code: CodeType = compile(source, f"<table: {instruction.name}>", "eval")
    body: Body = eval(code, _namespace())  # the text is the table's: nothing else gets here
    return body


@functools.cache
def _namespace() -> dict[str, Any]:
    names: dict[str, Any] = {"__builtins__": {}, "int": int, "abs": abs, "float32": np.float32}
    names |= {name: getattr(numbers, name) for name in ("fma32", "f2i_sat", "round_f16", "round_bf16")}
    names |= {name: getattr(tiles_twin, name) for name in tiles_twin.__all__}
    return names
