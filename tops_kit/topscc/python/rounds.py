"""What loops have in common: their body is a region, and what it changes is known before it is translated."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tops_kit.topscc.builder import Operand
from tops_kit.topscc.kinds import TileKind
from tops_kit.topscc.python.assigned import names_in_calls, stored_names
from tops_kit.topscc.python.calls import Calls
from tops_kit.topscc.python.core import Loop
from tops_kit.topscc.python.scope import Local, LocalFunction, Scope, Static
from tops_kit.topscc.tree import Variable

_WHOLE = "count in ints, and compute floats from them: i * 0.5"


class Rounds(Calls):
    """Bodies of loops."""

    def changes(self, body: Iterable[ast.AST]) -> set[Variable]:
        """The variables that statements may assign or change in place, rather too many than too few."""
        body = list(body)
        out = self.variables(stored_names([node for node in body if isinstance(node, ast.stmt)]))
        out |= self.result_variables()
        return out | self._touched(body, self.scope, set())

    def _touched(self, body: list[ast.AST], scope: Scope, seen: set[int]) -> set[Variable]:
        """Tiles that are handed to calls, which may change them in place, also in functions of the kernel."""
        out: set[Variable] = set()
        for name in names_in_calls(body):
            bound = self._bound_in(scope, name)
            if isinstance(bound, Local) and isinstance(bound.variable.kind, TileKind):
                out.add(bound.variable)
            value = bound.value if isinstance(bound, Static) else None
            if isinstance(value, LocalFunction) and id(value) not in seen:
                seen.add(id(value))
                out |= self._touched([value.node], value.scope, seen)
        return out

    def _bound_in(self, scope: Scope, name: str) -> Any:
        outer, self.scope = self.scope, scope
        try:
            return self.bound(name)
        finally:
            self.scope = outer

    @contextmanager
    def loop_body(self, *, unrolled: bool) -> Iterator[Loop]:
        """The body of a loop that runs on the device."""
        with self.inner_region():
            loop = Loop(unrolled, self.region)
            self.frame.loops.append(loop)
            try:
                yield loop
            finally:
                self.frame.loops.pop()

    def bounds(self, call: ast.Call, what: str) -> tuple[Operand, Operand, Operand]:
        items = self.positional(call)
        if not 1 <= len(items) <= 3:
            raise self.error(
                f"{what} takes (stop), (start, stop) or (start, stop, step)", call, "give 1 to 3 numbers"
            )
        values = [self.computed(self.value(item), item) for item in items]
        for position, (value, item) in enumerate(zip(values, items, strict=True)):
            if isinstance(value, float):
                raise self.error(f"a bound of {what} must be an int, this is {value!r}", item, _WHOLE)
            name = ("start", "stop", "step")[position + (len(items) == 1)]
            values[position] = self.builder.integer(value, self.where(item), f"the {name} of a {what}")
        start, stop = (0, values[0]) if len(values) == 1 else values[:2]
        return start, stop, values[2] if len(values) == 3 else 1

    def counter_name(self, node: ast.For, what: str) -> str:
        if not isinstance(node.target, ast.Name):
            raise self.error(
                f"{what} counts in one variable",
                node.target,
                "write: for i in ..., and compute the others inside",
            )
        return node.target.id
