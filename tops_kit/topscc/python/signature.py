"""The parameters of a kernel, read from its signature."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tops_kit.isa.dtypes import BOOL, F32, I32, DType
from tops_kit.topscc.diagnostics import KernelError, Where
from tops_kit.topscc.language.types import PointerType, constexpr, dtype_complaint, dtype_of, ptr
from tops_kit.topscc.python.places import Places
from tops_kit.topscc.python.source import FunctionSource

MISSING: Any = object()
_PYTHON_TYPES: dict[Any, DType] = {int: I32, float: F32, bool: BOOL}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter. `type`: PointerType, DType (a scalar), constexpr, or None: as the argument is."""

    name: str
    type: PointerType | DType | type[constexpr] | None
    default: Any  # MISSING where there is none
    where: Where
    keyword_only: bool = False

    @property
    def is_constexpr(self) -> bool:
        """Whether its value is part of the compiled kernel."""
        return self.type is constexpr


def read_signature(source: FunctionSource) -> tuple[Parameter, ...]:
    """The parameters in order. Raises KernelError at one that a kernel can't have."""
    node, function = source.node, source.function
    places = Places(source.file, source.name)
    if isinstance(node, ast.Lambda):
        raise KernelError("a lambda can't be a kernel", places.of(node, None), "write def")
    for extra in (node.args.vararg, node.args.kwarg):
        if extra is not None:
            raise KernelError(
                "a kernel can't take any number of arguments", places.of(extra, None), "name each"
            )
    positional = [*node.args.posonlyargs, *node.args.args]
    given = function.__defaults__ or ()
    defaults: dict[str, Any] = dict(
        zip([argument.arg for argument in positional[len(positional) - len(given) :]], given, strict=True)
    )
    defaults |= function.__kwdefaults__ or {}
    out = []
    for argument in (*positional, *node.args.kwonlyargs):
        where = places.of(argument, None)
        kind = _kind(argument, function, where)
        default = defaults.get(argument.arg, MISSING)
        if default is not MISSING and isinstance(kind, PointerType):
            raise KernelError(f"{argument.arg} is an array and can't have a default", where)
        out.append(Parameter(argument.arg, kind, default, where, argument in node.args.kwonlyargs))
    return tuple(out)


def _kind(argument: ast.arg, function: FunctionType, where: Where) -> Any:
    """The type of a parameter from its annotation, evaluated by Python or still a text."""
    if argument.annotation is None:
        return None
    annotation = function.__annotations__.get(argument.arg)
    if isinstance(annotation, str):
        annotation = _from_text(annotation, function, where)
    if annotation is constexpr or annotation is None:
        return constexpr if annotation is constexpr else None
    if annotation is ptr:
        return PointerType()
    if isinstance(annotation, PointerType | DType):
        return annotation
    if isinstance(annotation, type) and annotation in _PYTHON_TYPES:
        return _PYTHON_TYPES[annotation]
    if not isinstance(annotation, str):
        found = dtype_of(annotation)
        if found is not None:
            return found
    what, hint = dtype_complaint(annotation)
    raise KernelError(
        f"{argument.arg}: {what}",
        where,
        f"{hint}; arrays are tops.ptr(tops.f32), numbers tops.i32 or tops.f32, what is known when compiling "
        "tops.constexpr",
    )


def _from_text(text: str, function: FunctionType, where: Where) -> Any:
    """The annotation that stands in a text, as `from __future__ import annotations` leaves them.

    Only names, attributes, and calls of `ptr` are read: nothing else is run.
    """
    closure = function.__closure__ or ()
    cells = dict(zip(function.__code__.co_freevars, closure, strict=True))
    names: dict[str, Any] = {name: cell.cell_contents for name, cell in cells.items() if _filled(cell)}
    try:
        return _read(ast.parse(text, mode="eval").body, function.__globals__, names)
    except (SyntaxError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as reason:
        raise KernelError(
            f"the type {text} can't be read: {reason}",
            where,
            "write tops.ptr(tops.f32), tops.i32, tops.constexpr, with names of the module: types that are "
            "texts (also by `from __future__ import annotations`) see no others",
        ) from None


def _filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _read(node: ast.expr, module: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            if node.id in names:
                return names[node.id]
            if node.id in module:
                return module[node.id]
            if node.id in ("int", "float", "bool"):
                return {"int": int, "float": float, "bool": bool}[node.id]
            raise LookupError(f"{node.id} is not defined")
        case ast.Attribute():
            return getattr(_read(node.value, module, names), node.attr)
        case ast.Call() if _read(node.func, module, names) is ptr:
            keywords = {str(k.arg): _read(k.value, module, names) for k in node.keywords}
            return ptr(*[_read(item, module, names) for item in node.args], **keywords)
    raise LookupError(f"{ast.unparse(node)} is no type")
