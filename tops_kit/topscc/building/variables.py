"""Variables: first values, new values, and whether there is one."""

from __future__ import annotations

from tops_kit.isa.dtypes import BOOL, F32, I32
from tops_kit.topscc import tree
from tops_kit.topscc.building.affine import Affine
from tops_kit.topscc.building.shapes import differ
from tops_kit.topscc.building.state import I32_KIND, Holding
from tops_kit.topscc.building.tiles import TileBuilder
from tops_kit.topscc.building.values import Operand, kind_name
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import AtMost, Extent, Kind, ScalarKind, TileKind, ViewKind, bound_of, shape_text
from tops_kit.topscc.tree import Constant, Value, Variable


class VariableBuilder(TileBuilder):
    """Variables."""

    def declare(self, name: str, value: Operand, where: Where) -> Variable:
        """A new variable with its first value: scalars, tiles, views, vectors, events. Its kind stays.

        A view of memory makes the variable another name for that memory. A part of a tile is a value, as is
        an element of L1 or L2.
        """
        first = self._value_of(self._typed(value, where), where)
        self._whole(first, where)
        variable = Variable(next(self._variable_numbers), name, first.kind, where)
        self._set(variable, first, where, first=True)
        return variable

    def assign(self, variable: Variable, value: Operand, where: Where) -> None:
        """A new value. Tiles: extents known at the declaration must be the same, others at most its bound."""
        new = self._for(variable, self._value_of(self._typed(value, where), where), where)
        self._whole(new, where)
        self._check_loops(variable)
        self._set(variable, new, where, first=False)

    def read(self, variable: Variable, where: Where) -> Value:
        """The value it has now.

        Refused where it may have none: assigned in only one branch, or in a loop.
        """
        holding = self._state.get(variable)
        if holding is None:
            if self._dead:
                return self._new(variable.kind)
            raise self._error(
                f"{variable.name} may have no value here",
                where,
                f"give it a value on every way to this line, such as before the branch or loop: "
                f"{variable.name} = ...",
                ((f"{variable.name} is assigned here", variable.where),),
            )
        if isinstance(holding.value, Constant):
            return holding.value
        key = ("read", variable, holding.version)
        shared = self._shared(key)
        if shared is not None:
            return shared
        result = self._share(key, tree.Read(where, self._new(holding.kind), variable))
        if holding.value is not None:
            self._known[result] = holding.value
        elif holding.kind == I32_KIND:
            # reads of the same version are equal, also where the result can't be shared
            self._affines[result] = Affine.symbol(-1 - holding.version)
        return result

    def is_parameter(self, variable: Variable) -> bool:
        """Whether it is a number that the launch gives."""
        return any(parameter.holds is variable for parameter in self._parameters)

    def has_value(self, variable: Variable) -> bool:
        """Whether the variable certainly has a value here."""
        return variable in self._state

    def _set(self, variable: Variable, value: Value, where: Where, *, first: bool) -> None:
        known = value if value.kind == I32_KIND and variable.kind == I32_KIND else None
        if known is not None:
            self._affine(known)  # now, so that the next variable's is one step away
        kind = value.kind if isinstance(variable.kind, TileKind | ViewKind) else variable.kind
        kind = self._kept_kind(variable.kind, kind)
        self._state[variable] = Holding(next(self._versions), kind, known)
        self._emit(tree.Assign(where, variable, value, first))

    def _kept_kind(self, declared: Kind, kind: Kind) -> Kind:
        """What is known of a tile after an assignment: the value's extents."""
        if isinstance(declared, TileKind) and isinstance(kind, TileKind | ViewKind):
            return TileKind(declared.dtype, kind.shape)
        return kind

    def _value_of(self, value: Value, where: Where) -> Value:
        """What a variable holds of a view: parts of tiles are copied, elements are read."""
        if isinstance(value.kind, ViewKind) and not value.kind.outside:
            if value.kind.rank == 0 and value.kind.space != "L3":
                usable = self._usable(value, where)
                assert isinstance(usable, Value)
                return usable
            if self._of_tile(value):
                return self.copy_tile(value, where)
        return value

    def _of_tile(self, view: Value) -> bool:
        """Whether a view is part of a tile, rather than of memory."""
        node = self._definitions.get(view)
        while isinstance(node, tree.Index | tree.Permute | tree.Reshape):
            if isinstance(node.base.kind, TileKind):
                return True
            node = self._definitions.get(node.base)
        return False

    def _whole(self, value: Value, where: Where) -> None:
        kind = value.kind
        if isinstance(kind, TileKind):
            for axis, extent in enumerate(kind.shape):
                self._bounded(extent, axis, where)

    def _for(self, variable: Variable, value: Operand, where: Where) -> Value:
        """A value fit for the variable's kind."""
        kind = variable.kind
        name = variable.name or "this expression"
        note = ((f"{name} is {kind_name(kind)} from here on", variable.where),)
        given = self._typed(value, where)
        if isinstance(kind, ScalarKind):
            usable = self._typed(self._usable(given, where), where)
            if not isinstance(usable.kind, ScalarKind):
                hint = "use another name"
                if isinstance(given.kind, TileKind) and all(n == 1 for n in given.kind.shape):
                    zero = ", ".join("0" for _ in given.kind.shape)
                    hint = (
                        f"let it begin as a tile, {name} = tops.zeros(tops.{given.kind.dtype}, "
                        f"{shape_text(given.kind.shape)}), or take the element: t[{zero}]"
                    )
                raise self._error(
                    f"{name} is {kind_name(kind)}; {kind_name(given.kind)} can't be assigned to it",
                    where, hint, note,
                )  # fmt: skip
            if usable.kind == kind:
                return usable
            if kind.dtype == F32 or (kind.dtype == I32 and usable.kind.dtype == BOOL):
                return self._convert(usable, kind.dtype, where)
            hint = f"convert it: {self._words.number(kind.dtype, 'x')}"
            if kind.dtype == I32 and usable.kind.dtype == F32:
                hint += f", or let {name} begin as a float: {name} = 0.0"
            raise self._error(
                f"{name} is {kind_name(kind)}; {kind_name(usable.kind)} can't be assigned to it",
                where, hint, note,
            )  # fmt: skip
        if isinstance(kind, TileKind):
            if (
                isinstance(given.kind, ViewKind)
                and given.kind.space == "L1"
                and given.kind.rank
                and not given.kind.outside
            ):
                given = self.copy_tile(given, where)
            if not isinstance(given.kind, TileKind) or given.kind.dtype != kind.dtype:
                hint = "use another name"
                if isinstance(given.kind, TileKind):
                    hint = f"convert it: {self._words.cast(kind.dtype)}"
                raise self._error(
                    f"{name} is {kind_name(kind)}; {kind_name(given.kind)} can't be assigned to it",
                    where, hint, note,
                )  # fmt: skip
            self._same_shape(variable, kind.shape, given.kind.shape, where, note)
            return given
        if isinstance(kind, ViewKind):
            fits = (
                isinstance(given.kind, ViewKind)
                and (given.kind.dtype, given.kind.rank, given.kind.space, given.kind.outside)
                == (kind.dtype, kind.rank, kind.space, kind.outside)
            )  # fmt: skip
            if not fits:
                raise self._error(
                    f"{name} is {kind_name(kind)} of {kind.rank} axes; {kind_name(given.kind)} "
                    "can't be assigned to it", where, "use another name", note,
                )  # fmt: skip
            assert isinstance(given.kind, ViewKind)
            self._same_shape(variable, kind.shape, given.kind.shape, where, note)
            return given
        if given.kind != kind:
            raise self._error(
                f"{name} is {kind_name(kind)}; {kind_name(given.kind)} can't be assigned to it",
                where, "use another name", note,
            )  # fmt: skip
        return given

    def _same_shape(
        self,
        variable: Variable,
        declared: tuple[Extent, ...],
        given: tuple[Extent, ...],
        where: Where,
        note: tuple[tuple[str, Where], ...],
    ) -> None:
        """Extents fixed by the first value stay; the others only have to keep to its bound."""
        problem = len(declared) != len(given)
        hint = "use another name"
        if not problem:
            for fixed, new in zip(declared, given, strict=True):
                if isinstance(fixed, int):
                    problem = problem or fixed != new
                    if isinstance(new, AtMost) and not differ(fixed, new):
                        hint = (
                            "use another name, let its first value have the same extents, or load with pad= "
                            "so that the extent is the same"
                        )
                else:
                    bound, most = bound_of(new), fixed.bound
                    problem = problem or (most is not None and (bound is None or bound > most))
        if problem:
            raise self._error(
                f"{variable.name} has the shape {shape_text(declared)}; "
                f"{shape_text(given)} can't be assigned to it",
                where, hint, note,
            )  # fmt: skip

    def _check_loops(self, variable: Variable) -> None:
        """A loop that was begun with the variables it assigns must not assign others (a front end's slip)."""
        for frame in self._frames:
            if (
                frame.assigns is not None
                and variable.number < frame.first_variable
                and variable not in frame.assigns
            ):
                raise RuntimeError(f"{variable.name} is assigned in a loop begun without it")

    def _changed(self, target: Variable | Value, where: Where) -> None:
        if isinstance(target, Variable):
            self._check_loops(target)
            holding = self._state[target]
            self._state[target] = Holding(next(self._versions), holding.kind)
