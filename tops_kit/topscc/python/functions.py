"""Functions called by a kernel: their body is translated in place of the call."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tops_kit.errors import UserError
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import TileKind, ViewKind
from tops_kit.topscc.language.types import constexpr
from tops_kit.topscc.python.assigned import stored_names
from tops_kit.topscc.python.core import CALL_WEIGHT, Frame
from tops_kit.topscc.python.expressions import Expressions
from tops_kit.topscc.python.places import Places
from tops_kit.topscc.python.scope import Local, LocalFunction, Scope, Static
from tops_kit.topscc.python.source import Definition
from tops_kit.topscc.tree import Value, Variable


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call: its value, and the node it stands in (None: a default)."""

    value: Any
    node: ast.expr | None


@dataclass(frozen=True, slots=True)
class Callee:
    """A function to inline."""

    name: str
    node: Definition
    scope: Scope
    identity: object
    defaults: Mapping[str, Any]


class Functions(Expressions):
    """Inlining."""

    def call_function(self, function: FunctionType | LocalFunction, node: ast.Call) -> Any:
        """A call of a Python function, or of one defined in the kernel."""
        where = self.where(node)
        callee = self._callee(function, where)
        arguments = self._bind(
            callee, [Argument(self.value(item), item) for item in self.positional(node)], node
        )
        return self._inline(callee, arguments, where)

    def call_with(self, function: LocalFunction | FunctionType, values: list[Any], at: ast.expr) -> Any:
        """A call by the translator itself: the source of a pipeline's round."""
        where = self.where(at)
        callee = self._callee(function, where)
        arguments = self._bind(callee, [Argument(value, None) for value in values], at)
        return self._inline(callee, arguments, where)

    def positional(self, node: ast.Call) -> list[ast.expr]:
        """The positional arguments of a call; `*` and `**` are refused."""
        for item in node.args:
            if isinstance(item, ast.Starred):
                raise self.error("* in a call is not possible", item, "write each argument")
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.error("** in a call is not possible", keyword, "write each argument")
        return node.args

    def _callee(self, function: FunctionType | LocalFunction, where: Where) -> Callee:
        if isinstance(function, LocalFunction):
            inner = Scope(function.scope.places, outer=function.scope, call=function.scope.call)
            if function.scope is not self.scope or not isinstance(function.node, ast.Lambda):
                inner.call = where
            return Callee(function.name, function.node, inner, function.node, function.defaults)
        code = function.__code__
        source = self.sources.get(code)
        if source is None:
            try:
                source = self.sources[code] = self.find_source(function)
            except UserError as reason:
                raise self.error(str(reason), where) from None
        self.captures.from_function(function)
        closure = function.__closure__ or ()
        scope = Scope(
            Places(source.file, source.name),
            call=where,
            module=function.__globals__,
            cells=dict(zip(code.co_freevars, closure, strict=True)),
        )
        given = function.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount]
        defaults = dict(zip(names[len(names) - len(given) :], given, strict=True))
        defaults |= function.__kwdefaults__ or {}
        return Callee(source.name, source.node, scope, code, defaults)

    # arguments

    def _bind(self, callee: Callee, given: list[Argument], node: ast.expr) -> dict[str, Argument]:
        """The arguments by name, with the rules of Python."""
        spec = callee.node.args
        if spec.vararg or spec.kwarg:
            raise self.error(f"{callee.name} takes any number of arguments", node, "name each argument")
        names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
        if len(given) > len(names):
            raise self.error(
                f"{callee.name} takes {len(names)} argument{'s' * (len(names) != 1)}, {len(given)} are given",
                node,
                _takes(callee),
            )
        out = dict(zip(names, given, strict=False))
        keyword_names = {argument.arg for argument in (*spec.args, *spec.kwonlyargs)}
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            assert keyword.arg is not None
            if keyword.arg not in keyword_names:
                raise self.error(f"{callee.name} has no argument {keyword.arg}", keyword, _takes(callee))
            if keyword.arg in out:
                raise self.error(f"{keyword.arg} is given twice", keyword, "give it by position or by name")
            out[keyword.arg] = Argument(self.value(keyword.value), keyword.value)
        for name in (*names, *(argument.arg for argument in spec.kwonlyargs)):
            if name not in out:
                if name not in callee.defaults:
                    raise self.error(f"{callee.name} needs an argument {name}", node, _takes(callee))
                out[name] = Argument(callee.defaults[name], None)
        return out

    def _enter(self, scope: Scope, callee: Callee, arguments: dict[str, Argument], where: Where) -> None:
        """Give the parameters what they stand for.

        A tile variable of the caller stays that variable, so that the function can change it in place
        (`tops.mma(acc, ...)`), unless the function assigns the name: then it is the function's own.
        """
        annotated = {
            argument.arg: argument.annotation
            for argument in (
                *callee.node.args.posonlyargs, *callee.node.args.args, *callee.node.args.kwonlyargs
            )
        }  # fmt: skip
        for name, argument in arguments.items():
            value = argument.value
            annotation = annotated[name]
            if annotation is not None and not self.known(value) and self._is_constexpr(annotation, scope):
                raise self.error(
                    f"{name} of {callee.name} must be known when compiling, this is {self.describe(value)}",
                    where,
                    "leave out the annotation tops.constexpr, or give what is known",
                )
            bound = self._alias(argument)
            if name not in scope.stored and bound is not None:
                scope.names[name] = Local(bound, self.region)
            elif name in scope.stored and isinstance(value, Value | int | float):
                scope.names[name] = Local(self.builder.declare(name, value, where), self.region)
            else:
                scope.names[name] = Static(value, self.region, where)

    def _alias(self, argument: Argument) -> Variable | None:
        """The caller's variable behind an argument that is a name for a tile, a view or a counter."""
        if not isinstance(argument.node, ast.Name):
            return None
        bound = self.bound(argument.node.id)
        if not isinstance(bound, Local):
            return None
        counts = any(loop.counter is bound.variable for frame in self.frames for loop in frame.loops)
        return bound.variable if counts or isinstance(bound.variable.kind, TileKind | ViewKind) else None

    def _is_constexpr(self, annotation: ast.expr, scope: Scope) -> bool:
        text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
        return str(text).rpartition(".")[2] == constexpr.__name__ and bool(scope)

    # the body

    def _inline(self, callee: Callee, arguments: dict[str, Argument], where: Where) -> Any:
        self._no_recursion(callee, where)
        self.count_round(where, weight=CALL_WEIGHT)
        # a lambda of the kernel is part of the line that uses it: no call is shown for it
        shown = callee.scope.call is where
        body = callee.node.body
        callee.scope.stored = stored_names(body)
        frame = Frame(callee.name, callee.identity, self.region)
        if shown:
            self.builder.begin_inline(callee.name, where)
        self._enter(callee.scope, callee, arguments, where)
        outer_scope, outer_jump = self.scope, self.jump
        self.frames.append(frame)
        self.scope, self.jump = callee.scope, ""
        try:
            if isinstance(body, list):
                self.block(body)
                self._all_ways_return(frame, where)
            else:
                frame.result = self.value(body)
        finally:
            self.frames.pop()
            self.scope, self.jump = outer_scope, outer_jump
        if shown:
            self.builder.end_inline(where)
        return self._read_results(frame.results[0], where) if frame.returned else frame.result

    def _no_recursion(self, callee: Callee, where: Where) -> None:
        names = [frame.name for frame in self.frames]
        for depth, frame in enumerate(self.frames):
            if frame.identity is callee.identity:
                cycle = " -> ".join([*names[depth:], callee.name])
                raise self.error(
                    f"recursion is not possible: {cycle}",
                    where,
                    "functions are inlined; write a loop",
                )

    # results

    def return_value(self, node: ast.Return) -> None:
        """`return` in an inlined function, or in the kernel."""
        frame = self.frame
        value = None if node.value is None else self.value(node.value)
        where = self.where(node)
        if len(self.frames) == 1 and value is not None:
            raise self.error("a kernel returns nothing", node, "store results: tops.store(y[...], t)")
        for loop in frame.loops:
            self.wait_for(loop, where)
        certain = self.region == frame.region
        if certain and not frame.returned:
            frame.result = value
            self.jump = "return"
            return
        if len(self.frames) > 1:
            self._keep(frame, value, node, where)
        if certain:
            self.jump = "return"
        else:
            frame.returned = True
            self.builder.return_(where)

    def wait_for(self, loop: Any, where: Where) -> None:
        """A pipeline is left early: loads that run ahead must end before their slots are used again."""
        for event in loop.events:
            self.builder.wait(self.builder.read(event, where), where)

    def _keep(self, frame: Frame, value: Any, node: ast.Return, where: Where) -> None:
        """Put a returned value where every return of the function puts it."""
        if not frame.results:
            frame.results.append(self._declare_result(f"{frame.name}.result", value, where))
        else:
            self._assign_result(frame, frame.results[0], value, node, where)

    def _declare_result(self, name: str, value: Any, where: Where) -> Any:
        if isinstance(value, tuple):
            return tuple(
                self._declare_result(f"{name}{number}", item, where) for number, item in enumerate(value)
            )
        if isinstance(value, Value | int | float):
            return self.builder.declare(name, value, where)
        return Static(value, self.region, where)

    def _assign_result(self, frame: Frame, place: Any, value: Any, node: ast.Return, where: Where) -> None:
        if isinstance(place, tuple) and isinstance(value, tuple) and len(place) == len(value):
            for inner, item in zip(place, value, strict=True):
                self._assign_result(frame, inner, item, node, where)
        elif isinstance(place, Variable) and isinstance(value, Value | int | float):
            self.builder.assign(place, value, where)
        elif not isinstance(place, Static) or place.value is not value:
            raise self.error(
                f"the returns of {frame.name} give different things: {self.describe(value)} here",
                node,
                "return as many values of the same kinds everywhere",
            )

    def _read_results(self, place: Any, where: Where) -> Any:
        if isinstance(place, tuple):
            return tuple(self._read_results(item, where) for item in place)
        return self.builder.read(place, where) if isinstance(place, Variable) else place.value

    def result_variables(self) -> set[Variable]:
        """The variables of the present function's returns."""
        out: set[Variable] = set()
        pending = list(self.frame.results)
        while pending:
            place = pending.pop()
            if isinstance(place, tuple):
                pending.extend(place)
            elif isinstance(place, Variable):
                out.add(place)
        return out

    def _all_ways_return(self, frame: Frame, where: Where) -> None:
        if not frame.returned or self.jump == "return" or not self.builder.reachable:
            return
        if any(not isinstance(place, Static) or place.value is not None for place in frame.results):
            raise self.error(
                f"{frame.name} may end without returning a value",
                where,
                "return one on every way, also at its end",
            )


def _takes(callee: Callee) -> str:
    """The arguments of a function, for a hint; in brackets what has a default."""
    spec = callee.node.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    shown = ", ".join(f"[{name}]" if name in callee.defaults else name for name in names)
    return f"it takes ({shown})"
