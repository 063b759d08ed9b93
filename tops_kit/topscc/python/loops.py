"""Loops: on the device, unrolled, and pipelines whose loads run ahead."""

from __future__ import annotations

import ast
from typing import Any

from tops_kit.topscc.language.words import word_of
from tops_kit.topscc.python.assigned import stored_names
from tops_kit.topscc.python.core import Loop
from tops_kit.topscc.python.pipelines import Pipelines

MAX_UNROLLED = 4096  # rounds; more would be slip of the pen, and a program too long for the machine


class Loops(Pipelines):
    """Loops."""

    # statements

    def while_loop(self, node: ast.While) -> None:
        """`while condition:`"""
        if node.orelse:
            raise self.error("else of a loop is not possible", node.orelse[0], "use a flag")
        where = self.head(node, node.test)
        self.builder.begin_loop(where, assigns=self.changes([node.test, *node.body]))
        with self.loop_body(unrolled=False):
            condition = self.truth(self.value(node.test), node.test)
            self.builder.loop_condition(condition, where)
            self.block(node.body)
        self.builder.end_loop(where)

    def for_loop(self, node: ast.For) -> None:
        """`for target in ...:`"""
        if node.orelse:
            raise self.error("else of a loop is not possible", node.orelse[0], "use a flag")
        if isinstance(node.iter, ast.Call) and not isinstance(node.iter.func, ast.Call):
            callee = self.value(node.iter.func, view=True)
            word = word_of(callee)
            if callee is range or word == "range":
                self._range(node, node.iter)
                return
            if word == "pipeline":
                self.pipeline(node, node.iter)
                return
            if word == "static_range":
                bounds = [
                    self.integer(self.value(item), "a bound of static_range", item)
                    for item in self.positional(node.iter)
                ]
                if not 1 <= len(bounds) <= 3 or node.iter.keywords or bounds[2:] == [0]:
                    raise self.error(
                        "static_range takes (stop), (start, stop) or (start, stop, step)",
                        node.iter,
                        "a step is not 0; keywords are not possible",
                    )
                self._unroll(node, range(*bounds))
                return
        items = self.static(self.value(node.iter, view=True))
        if not isinstance(items, tuple | range | str):
            raise self.error(
                f"a loop over {self.describe(items)} is not possible",
                node.iter,
                "loop over indices: for i in range(n):",
            )
        self._unroll(node, items)

    def leave(self, node: ast.Break | ast.Continue) -> None:
        """`break`, `continue`."""
        name = "break" if isinstance(node, ast.Break) else "continue"
        if not self.frame.loops:
            raise self.error(f"{name} outside of a loop", node, "put it in a for or while, or write return")
        loop = self.frame.loops[-1]
        where = self.where(node)
        if not loop.unrolled:
            if name == "break":
                self.wait_for(loop, where)
                self.builder.break_(where)
            else:
                self.builder.continue_(where)
        elif self.region == loop.region:
            self.jump = name
        else:
            raise self.error(
                f"{name} in an unrolled loop under a condition of the running kernel",
                node,
                "loop with range, or put the rest of the round under the opposite condition",
            )

    # unrolled

    def _unroll(self, node: ast.For, items: tuple[Any, ...] | range | str) -> None:
        if len(items) > MAX_UNROLLED:
            raise self.error(
                f"{len(items)} rounds can't be unrolled", node.iter, "loop on the device: for i in range(n):"
            )
        loop = Loop(True, self.region)
        self.frame.loops.append(loop)
        try:
            for item in items:
                self.count_round(node.iter)
                self._name_item(node.target, item)
                self.block(node.body)
                if self.jump == "break":
                    self.jump = ""
                    break
                if self.jump == "return" or not self.builder.reachable:
                    break
                self.jump = ""
        finally:
            self.frame.loops.pop()

    def _name_item(self, target: ast.expr, item: Any) -> None:
        """The loop variable of an unrolled loop is known when compiling."""
        if isinstance(target, ast.Name):
            self.bind_static(target.id, item, self.where(target))
            return
        if not isinstance(target, ast.Tuple | ast.List) or not isinstance(item, tuple):
            raise self.error(
                f"{self.describe(item)} can't be unpacked",
                target,
                "one name for each of the loop: for x in ...",
            )
        if len(target.elts) != len(item):
            raise self.error(
                f"{len(target.elts)} names for {len(item)} values",
                target,
                "write as many names as each element has values",
            )
        for part, inner in zip(target.elts, item, strict=True):
            self._name_item(part, inner)

    # on the device

    def _range(self, node: ast.For, call: ast.Call) -> None:
        """`for i in range(...)`."""
        if call.keywords:
            raise self.error("range takes no keywords", call.keywords[0], "write range(start, stop, step)")
        name = self.counter_name(node, "range")
        start, stop, step = self.bounds(call, "range")
        where = self.head(node, node.iter)
        # a body that assigns its loop variable gets a variable of its own each round, as in Python
        assigned = name in stored_names(node.body)
        changed = self.changes(node.body)
        hidden = f"{name}'" if assigned else name
        counter = self.builder.begin_range(hidden, start, stop, step, where, assigns=changed)
        with self.loop_body(unrolled=False):
            if assigned:
                at = self.where(node.target)
                counter = self.builder.declare(name, self.builder.read(counter, at), at)
            self.bind_counter(name, counter, self.region, where)
            self.block(node.body)
        self.builder.end_range(where)
