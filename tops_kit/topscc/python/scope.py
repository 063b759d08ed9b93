"""What the names of a function stand for while it is translated."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CellType
from typing import Any, TypeAlias

from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.python.places import Places
from tops_kit.topscc.tree import Variable

Region: TypeAlias = tuple[int, ...]  # the branches and loops of the kernel that a place lies in


@dataclass(frozen=True, slots=True)
class Static:
    """A name for what the compiler knows: a buffer, a tuple, a type, a function."""

    value: Any
    region: Region
    where: Where


@dataclass(frozen=True, slots=True)
class Local:
    """A name for a variable of the kernel."""

    variable: Variable
    region: Region


@dataclass(frozen=True, slots=True)
class Lost:
    """A name that may stand for different things here, or for nothing."""

    where: Where
    counted: bool = False  # it is the variable of a loop


Binding: TypeAlias = Static | Local | Lost


@dataclass(slots=True)
class Scope:
    """The names of one function, or of one inlined call of it.

    `outer` is the scope around a nested function or lambda; `call` the call that was inlined; `stored` the
    names that the function assigns anywhere, which are its own.
    """

    places: Places
    names: dict[str, Binding] = field(default_factory=dict)
    outer: Scope | None = None
    call: Where | None = None
    stored: frozenset[str] = frozenset()
    module: Mapping[str, Any] = field(default_factory=dict)  # globals
    cells: Mapping[str, CellType] = field(default_factory=dict)  # variables of functions around


@dataclass(frozen=True, slots=True, eq=False)
class LocalFunction:
    """A function defined inside of a kernel, or a lambda; `defaults` belong to the last arguments."""

    name: str
    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    defaults: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """`value.name`, before it is called."""

    base: Any
    name: str
    node: ast.Attribute
