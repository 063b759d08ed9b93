"""From a Python function to a kernel's tree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tops_kit.isa.dtypes import DType
from tops_kit.topscc.builder import Builder
from tops_kit.topscc.diagnostics import KernelError, Where
from tops_kit.topscc.kinds import ViewKind
from tops_kit.topscc.python.assigned import stored_names
from tops_kit.topscc.python.captures import Captures
from tops_kit.topscc.python.core import Frame
from tops_kit.topscc.python.places import Places
from tops_kit.topscc.python.scope import Local, Scope, Static
from tops_kit.topscc.python.signature import Parameter
from tops_kit.topscc.python.source import FunctionSource, source_of
from tops_kit.topscc.python.statements import Translator
from tops_kit.topscc.python.words import MEANINGS
from tops_kit.topscc.target import S60, Target
from tops_kit.topscc.tree import Kernel, Value


@dataclass(frozen=True, slots=True)
class ArrayType:
    """What a kernel is compiled for where it takes an array."""

    dtype: DType
    ndim: int


def build(
    source: FunctionSource,
    parameters: tuple[Parameter, ...],
    given: Mapping[str, Any],
    target: Target = S60,
    find_source: Callable[[FunctionType], FunctionSource] = source_of,
) -> tuple[Kernel, Captures]:
    """The tree of a kernel, and what it took from the Python around.

    `given` has for each parameter an ArrayType, a DType (a scalar), or the value of a constexpr;
    `find_source` gives the source of a function that is called. Raises KernelError.
    """
    node, function = source.node, source.function
    assert isinstance(node, ast.FunctionDef)
    places = Places(source.file, source.name)
    where = places.head(node, node.args.args[-1] if node.args.args else node.body[0], None)
    constexprs = {
        parameter.name: _written(given[parameter.name]) for parameter in parameters if parameter.is_constexpr
    }
    builder = Builder(source.name, where, target=target, constexprs=constexprs)
    closure = function.__closure__ or ()
    scope = Scope(
        places,
        stored=stored_names(node.body) | {parameter.name for parameter in parameters},
        module=function.__globals__,
        cells=dict(zip(function.__code__.co_freevars, closure, strict=True)),
    )
    captures = Captures()
    frame = Frame(source.name, function.__code__, ())
    translator = Translator(builder, scope, captures, frame, meanings=MEANINGS)
    translator.find_source = find_source
    stored = stored_names(node.body)
    for parameter in parameters:
        view = _parameter(builder, scope, parameter, given[parameter.name], parameter.name in stored)
        if view is not None and isinstance(view.kind, ViewKind):
            translator.axes.update(view.kind.shape)
    try:
        translator.block(node.body)
    except RecursionError:
        raise too_deep(translator.deepest or where) from None
    return builder.finish(where), captures


def too_deep(where: Where) -> Exception:
    """What becomes of a RecursionError: the kernel's fault, unless its caller used up the stack."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    if depth > sys.getrecursionlimit() // 2:
        return RecursionError("the launch of a kernel that has to be compiled needs more of Python's stack")
    return KernelError(
        "expressions, branches or calls are nested too deep here",
        where,
        "give a part of it a name on a line of its own",
    )


def _parameter(
    builder: Builder, scope: Scope, parameter: Parameter, value: Any, stored: bool
) -> Value | None:
    """Give a parameter what it stands for; the view of an array."""
    name, where = parameter.name, parameter.where
    if isinstance(value, ArrayType) and not parameter.is_constexpr:
        view = builder.pointer(name, value.dtype, value.ndim, where)
        # a kernel that gives the name to other views needs a variable for it
        scope.names[name] = (
            Local(builder.declare(name, view, where), ()) if stored else Static(view, (), where)
        )
        return view
    if isinstance(value, DType) and not parameter.is_constexpr:
        scope.names[name] = Local(builder.scalar(name, value, where), ())
    elif stored and isinstance(value, int | float):
        scope.names[name] = Local(builder.declare(name, value, where), ())
    else:
        scope.names[name] = Static(value, (), where)
    return None


def _written(value: Any) -> int | float | bool | str:
    """A constexpr as it stands in the program's record."""
    return value if isinstance(value, int | float | str) else str(value)
