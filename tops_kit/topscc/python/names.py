"""Names: what they stand for, and giving them something to stand for."""

from __future__ import annotations

import ast
import builtins
import difflib
from collections.abc import Iterable
from typing import Any

from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import AtMost, Kind, ScalarKind, TileKind, ViewKind, bound_of
from tops_kit.topscc.python.core import Core
from tops_kit.topscc.python.places import Placed
from tops_kit.topscc.python.scope import Binding, Local, Lost, Region, Scope, Static
from tops_kit.topscc.tree import Buffer, Value, Variable

_MISSING = object()
_WHERE_NAMES_ARE = "give it a value before this line, or define or import it in the module"


class Names(Core):
    """Reading and assigning names."""

    # reading

    def bound(self, name: str) -> Binding | None:
        """What a name stands for in the kernel's functions; None for names of the Python around."""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            if name in scope.stored:
                return None
            scope = scope.outer
        return None

    def name(self, node: ast.Name) -> Any:
        """What a name stands for, read now."""
        bound = self.bound(node.id)
        match bound:
            case Local():
                if bound.variable in self.counters and not self.builder.has_value(bound.variable):
                    raise self._counted(node, bound.variable.where)
                return self.builder.read(bound.variable, self.where(node))
            case Static():
                return bound.value
            case Lost() if bound.counted:
                raise self._counted(node, bound.where)
            case Lost():
                raise self.error(
                    f"{node.id} may stand for different things here, or for none",
                    node,
                    "give each its own name, or assign it outside of the branch or loop",
                    ((f"{node.id} is assigned here", bound.where),),
                )
        return self.outside(node.id, node)

    def _counted(self, node: ast.Name, where: Where) -> Exception:
        name = node.id
        return self.error(
            f"{name} counts the rounds of a loop, and has no value after it",
            node,
            f"keep what you need of it in the loop under another name, given a value before: last = {name}",
            ((f"{name} counts here", where),),
        )

    def outside(self, name: str, node: ast.expr) -> Any:
        """A name of the Python around the kernel: of functions around, of the module, or Python's own."""
        scope = self.scope
        while name not in scope.stored and scope.outer is not None:
            scope = scope.outer
        if name in scope.stored:
            raise self.error(f"{name} has no value here", node, "it is only assigned further down")
        cell = scope.cells.get(name)
        if cell is not None:
            try:
                value = cell.cell_contents
            except ValueError:
                raise self.error(
                    f"{name} has no value yet in the function around",
                    node,
                    "assign it before the kernel is launched",
                ) from None
            self.captures.from_cell(cell, value)
            return value
        value = scope.module.get(name, _MISSING)
        if value is not _MISSING:
            self.captures.from_globals(scope.module, name, value)
            return value
        value = getattr(builtins, name, _MISSING)
        if value is _MISSING:
            near = difflib.get_close_matches(name, self._all_names(scope), 1)
            raise self.error(
                f"{name} is not defined", node, f"did you mean {near[0]}?" if near else _WHERE_NAMES_ARE
            )
        return value

    def _all_names(self, scope: Scope) -> list[str]:
        out = [*scope.module, *scope.cells]
        inner: Scope | None = self.scope
        while inner is not None:
            out += inner.names
            inner = inner.outer
        return out

    def variables(self, names: Iterable[str]) -> set[Variable]:
        """The variables that names stand for."""
        bound = (self.bound(name) for name in names)
        return {one.variable for one in bound if isinstance(one, Local)}

    # assigning

    def assign(self, target: ast.expr, value: Any, where: Where) -> None:
        """`target = value`."""
        match target:
            case ast.Name():
                self.assign_name(target, value, where)
            case ast.Tuple() | ast.List():
                self._unpack(target, value, where)
            case ast.Attribute():
                raise self.error("attributes can't be assigned in a kernel", target, "use a variable")
            case _:
                self.assign_part(target, value, where)

    def assign_part(self, target: ast.expr, value: Any, where: Where) -> None:
        """`x[...] = value`."""
        raise NotImplementedError

    def _unpack(self, target: ast.Tuple | ast.List, value: Any, where: Where) -> None:
        for part in target.elts:
            if isinstance(part, ast.Starred):
                raise self.error("* in an assignment", part, "name each element")
        if not isinstance(value, tuple):
            raise self.error(f"{self.describe(value)} can't be unpacked", target, "only tuples can")
        if len(value) != len(target.elts):
            raise self.error(
                f"{len(target.elts)} names for {len(value)} values",
                target,
                "write as many names as there are values",
            )
        for part, item in zip(target.elts, value, strict=True):
            self.assign(part, item, where)

    def assign_name(self, target: ast.Name, value: Any, where: Where) -> None:
        """A name gets a value: a variable of the kernel, or something that only the compiler knows."""
        name = target.id
        if name == "_":
            return  # what nobody wants
        self._not_a_counter(name, target)
        value = self.plain(value, target)
        if not isinstance(value, Value | bool | int | float):
            self.bind_static(name, value, where)
            return
        bound = self.scope.names.get(name)
        if isinstance(bound, Static) and self.around(bound.region):
            raise self._mixed(name, bound.where, where)
        if isinstance(bound, Local) and (self.around(bound.region) or _fits(bound.variable.kind, value)):
            self.builder.assign(bound.variable, value, where)
            return
        self.scope.names[name] = Local(self.builder.declare(name, value, where), self.region)

    def bind_static(self, name: str, value: Any, where: Where) -> None:
        """A name for something that only the compiler knows: it can't change in an inner branch or loop."""
        bound = self.scope.names.get(name)
        if isinstance(bound, Static) and self.around(bound.region):
            if _equal(bound.value, value):
                return
            raise self._mixed(name, bound.where, where)
        if isinstance(bound, Local) and self.around(bound.region):
            raise self._mixed(name, bound.variable.where, where)
        self.scope.names[name] = Static(value, self.region, where)

    def bind_counter(self, name: str, counter: Variable, region: Region, where: Where) -> None:
        """A name for a loop variable, in the loop's body, the region `region`."""
        bound = self.scope.names.get(name)
        if isinstance(bound, Local | Static) and bound.region != region[:-1] and self.around(bound.region):
            first = bound.where if isinstance(bound, Static) else bound.variable.where
            raise self.error(
                f"{name} stands for something else around this loop",
                where,
                "use another name for the loop variable",
                ((f"{name} is assigned here", first),),
            )
        self.counters.add(counter)
        self.scope.names[name] = Local(counter, region)

    def _mixed(self, name: str, first: Where, where: Where) -> Exception:
        return self.error(
            f"{name} stands for something that must be known when compiling, "
            "and can't change in a branch or loop of the running kernel",
            where,
            "use another name (a tuple: unpack it into names)",
            ((f"{name} is assigned here", first),),
        )

    def _not_a_counter(self, name: str, node: Placed) -> None:
        bound = self.scope.names.get(name)
        for loop in self.frame.loops:
            if loop.counter is not None and isinstance(bound, Local) and bound.variable is loop.counter:
                raise self.error(
                    f"{name} counts the rounds of a pipeline and can't be assigned", node, "use another name"
                )


def _fits(kind: Kind, value: Value | int | float) -> bool:
    """Whether a variable of a kind can take a value; if not, its name begins anew."""
    if not isinstance(value, Value):
        if not isinstance(kind, ScalarKind):
            return False
        wanted = ("f32",) if isinstance(value, float) else ("f32", "i32")
        return kind.dtype.name in (("f32", "i32", "bool") if isinstance(value, bool) else wanted)
    other = value.kind
    if isinstance(kind, ScalarKind) and isinstance(other, ScalarKind):
        return other.dtype == kind.dtype or kind.dtype.name == "f32" or other.dtype.name == "bool"
    if isinstance(kind, TileKind) and isinstance(other, TileKind | ViewKind):
        same_place = not isinstance(other, ViewKind) or (other.space == "L1" and not other.outside)
        return same_place and other.dtype == kind.dtype and _extents_fit(kind.shape, other.shape)
    if isinstance(kind, ViewKind) and isinstance(other, ViewKind):
        same_place = (other.space, other.outside) == (kind.space, kind.outside)
        return same_place and other.dtype == kind.dtype and _extents_fit(kind.shape, other.shape)
    return type(kind) is type(other) and kind == other


def _extents_fit(kept: tuple[int | AtMost, ...], new: tuple[int | AtMost, ...]) -> bool:
    if len(kept) != len(new):
        return False
    for old, extent in zip(kept, new, strict=True):
        if isinstance(old, int):
            if old != extent:
                return False
            continue
        most, bound = old.bound, bound_of(extent)
        if most is not None and (bound is None or bound > most):
            return False
    return True


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    simple = not isinstance(a, Value | Buffer) and not isinstance(b, Value | Buffer)
    return simple and type(a) is type(b) and bool(a == b)
