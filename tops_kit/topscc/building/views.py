"""Parameters, buffers, and views of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tops_kit.isa.dtypes import DType
from tops_kit.topscc import tree
from tops_kit.topscc.building.shapes import axes_hint, differ, shape_hint
from tops_kit.topscc.building.state import I32_KIND, Holding
from tops_kit.topscc.building.values import Item, Operand, Slice, ValueBuilder, kind_name, scalar_type
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import (
    MAX_TILE_AXES,
    MAX_VIEW_AXES,
    AtMost,
    Extent,
    ScalarKind,
    Shape,
    TileKind,
    ViewKind,
    bound_of,
    shape_text,
)
from tops_kit.topscc.tree import Buffer, Constant, Fix, Part, Value, Variable

MAX_SLOTS = 65535


class ViewBuilder(ValueBuilder):
    """Parameters, buffers and views."""

    # parameters and memory

    def pointer(
        self, name: str, dtype: DType, ndim: int, where: Where, shape: Sequence[int | None] | None = None
    ) -> Value:
        """The next parameter, an array in L3 of `ndim` axes (1-5): a view of all of it.

        `shape` states extents known when compiling (None for unknown); the launch is not checked against it
        here.
        """
        if not 1 <= ndim <= MAX_VIEW_AXES:
            raise self._error(
                f"{name} has {ndim} axes; arrays of 1 to {MAX_VIEW_AXES} are possible",
                where,
                "join axes before the launch",
            )
        known = (None,) * ndim if shape is None else shape
        shape_ = tuple(
            AtMost(None, ("array", name, axis)) if n is None else n for axis, n in enumerate(known)
        )
        value = self._new(ViewKind(dtype, shape_, "L3"))
        self._parameters.append(tree.Parameter(name, dtype, ndim, value, where))
        return value

    def scalar(self, name: str, dtype: DType, where: Where) -> Variable:
        """The next parameter, a number. Any dtype; it is i32, f32 or bool inside of the kernel."""
        kind = ScalarKind(scalar_type(dtype))
        variable = Variable(next(self._variable_numbers), name, kind, where)
        self._parameters.append(tree.Parameter(name, dtype, 0, variable, where))
        self._state[variable] = Holding(next(self._versions), kind)
        return variable

    def buffer(
        self,
        name: str,
        space: str,
        dtype: DType,
        shape: Sequence[Operand],
        where: Where,
        *,
        slots: Operand = 1,
    ) -> Buffer:
        """L1 or L2 memory, once for the whole kernel wherever it is written.

        Extents (1-3 axes) and slots must be Python ints (else the error says so).
        """
        extents = [
            self._static(extent, f"extent {axis} of {name}", where) for axis, extent in enumerate(shape)
        ]
        if not 1 <= len(extents) <= MAX_TILE_AXES:
            raise self._error(
                f"{name} has {len(extents)} axes; buffers have 1 to {MAX_TILE_AXES}",
                where,
                shape_hint(len(extents)),
            )
        for axis, extent in enumerate(extents):
            if extent < 1:
                raise self._error(
                    f"extent {axis} of {name} is {extent}; it must be at least 1", where,
                    "buffers have a size of their own: use slices for less of it",
                )  # fmt: skip
        count = self._static(slots, f"the number of slots of {name}", where)
        if not 1 <= count <= MAX_SLOTS:
            raise self._error(
                f"{name} has {count} slots; 1 to {MAX_SLOTS} are possible",
                where,
                "more places are an axis of the shape",
            )
        buffer = Buffer(len(self._buffers), name, space, dtype, tuple(extents), count, where)
        self._buffers.append(buffer)
        return buffer

    def slot(self, buffer: Buffer, slot: Operand, where: Where) -> Value:
        """A view of one slot of a buffer."""
        number = self._integer(slot, where, "a slot")
        constant = self._constant_int(number)
        if constant is not None and not 0 <= constant < buffer.slots:
            raise self._error(
                f"{buffer.name} has {buffer.slots} slot{'s' * (buffer.slots > 1)}; no slot {constant}",
                where,
                f"slots count from 0; more of them: slots={constant + 1}"
                if constant > 0
                else "slots count from 0",
                ((f"{buffer.name} is made here", buffer.where),),
            )
        key = ("slot", buffer, self._key(number))
        kind = ViewKind(buffer.dtype, buffer.shape, buffer.space)
        return self._shared(key) or self._share(key, tree.Slot(where, self._new(kind), buffer, number))

    def _static(self, operand: Operand, what: str, where: Where) -> int:
        """A number that must be known when compiling."""
        if isinstance(operand, bool) or not isinstance(operand, int):
            constant = self._constant_int(operand) if isinstance(operand, Value) else None
            if constant is not None and isinstance(operand, Value) and operand.kind == I32_KIND:
                return constant
            given = (
                "only known when the kernel runs"
                if isinstance(operand, Value)
                else f"{operand!r}, no integer"
            )
            raise self._error(f"{what} is {given}", where, "use a number or a constexpr parameter")
        return operand

    # views

    def index(self, base: Value, items: Sequence[Item], where: Where, *, outside: bool = False) -> Value:
        """Part of a view or tile: a number fixes an axis, which disappears; a Slice keeps part of one.

        Items beyond those given are whole axes. Slices must lie inside, unless `outside`: such a view may
        only be loaded with `pad` or stored with `clip` (`load` and `store` make it so themselves when they
        get a view that comes straight from `index`). With every axis fixed the result is a view without axes:
        what atomics take, and what `element` reads.
        """
        kind = self._base(base, where)
        if len(items) > kind.rank:
            raise self._error(
                f"{len(items)} subscripts for {kind.rank} ax{'i' if kind.rank == 1 else 'e'}s", where,
                f"its shape is {shape_text(kind.shape)}",
            )  # fmt: skip
        out: list[Fix | Part | None] = []
        shape: list[Extent] = []
        for axis, extent in enumerate(kind.shape):
            item = items[axis] if axis < len(items) else Slice()
            if not isinstance(item, Slice):
                out.append(Fix(self._position(base, axis, extent, item, where)))
                continue
            part, kept = self._sliced(base, axis, extent, item, where, outside=outside)
            out.append(part)
            shape.append(kept)
        if all(item is None for item in out) and not isinstance(kind, TileKind):
            return base
        space = kind.space if isinstance(kind, ViewKind) else "L1"
        reaches = (kind.outside if isinstance(kind, ViewKind) else False) or (
            outside and any(isinstance(item, Part) for item in out)
        )
        key = ("index", base, reaches, tuple(self._item_key(item) for item in out))
        shared = self._shared(key)
        if shared is not None:
            return shared
        result = self._new(ViewKind(kind.dtype, tuple(shape), space, reaches))
        return self._share(key, tree.Index(where, result, base, tuple(out), reaches))

    def _item_key(self, item: Fix | Part | None) -> object:
        if isinstance(item, Fix):
            return self._key(item.index)
        if isinstance(item, Part):
            return ("part", self._key(item.start), self._key(item.stop), self._key(item.step))
        return None

    def _base(self, base: Value, where: Where) -> TileKind | ViewKind:
        if not isinstance(base, Value) or not isinstance(base.kind, TileKind | ViewKind):
            what = kind_name(base.kind) if isinstance(base, Value) else repr(base)
            raise self._error(f"{what} has no axes", where, "tiles, arrays and buffers have")
        return base.kind

    def _position(self, base: Value, axis: int, extent: Extent, item: Operand, where: Where) -> Value:
        """An index of an axis; literals below 0 count from the end."""
        if isinstance(item, float | bool):
            raise self._error(
                f"subscript {item!r} is no integer", where, "subscripts are ints: // divides to one"
            )
        if isinstance(item, int) and isinstance(extent, int) and not -extent <= item < extent:
            raise self._error(
                f"index {item} is outside of axis {axis}, which has {extent} elements",
                where,
                f"they are 0 to {extent - 1}, or -{extent} to -1 from the end" if extent else "it is empty",
            )
        if isinstance(item, int) and item < 0:
            return self._from_end(base, axis, item, where)
        return self._integer(item, where, f"the subscript of axis {axis}")

    def _from_end(self, base: Value, axis: int, item: int, where: Where) -> Value:
        extent = self.extent(base, axis, where)
        if not isinstance(extent, Value):
            return Constant(0, I32_KIND, int(extent) + item)
        return self._share(
            ("end", base, axis, item),
            tree.Elementwise(where, self._new(I32_KIND), "add", (extent, Constant(0, I32_KIND, item))),
        )

    def _sliced(
        self, base: Value, axis: int, extent: Extent, item: Slice, where: Where, *, outside: bool
    ) -> tuple[Part | None, Extent]:
        """A slice of an axis of that extent, and what it keeps."""
        step = 1 if item.step is None else item.step
        if isinstance(step, int) and step < 1:
            raise self._error(
                f"a step of {step} is not possible", where, "steps are at least 1; views don't run backwards"
            )
        ends: list[Value | None] = []
        for end, what in ((item.start, "start"), (item.stop, "stop")):
            if isinstance(end, bool | float):
                raise self._error(
                    f"the {what} {end!r} of axis {axis} is no integer",
                    where,
                    "ends of slices are ints: // divides to one",
                )
            if isinstance(end, int) and end < 0 and not outside:
                if isinstance(extent, int) and extent + end < 0:
                    raise self._error(
                        f"{what} {end} is outside of axis {axis}, which has {extent} elements",
                        where,
                        "slices must lie inside",
                    )
                ends.append(self._from_end(base, axis, end, where))
            else:
                ends.append(None if end is None else self._integer(end, where, f"the {what} of axis {axis}"))
        start, stop = ends
        if self._constant_int(start) == 0:
            start = None
        kept = self._kept(start, stop, axis, extent, where, outside=outside)
        if not outside and isinstance(extent, int) and kept == extent and start is None:
            stop = None
        stepping = None if step == 1 else self._integer(step, where, "a step")
        if start is None and stop is None and stepping is None:
            return None, kept
        if stepping is not None:
            number = self._constant_int(stepping)
            kept = self._stepped(kept, number)
        return Part(start, stop, stepping), kept

    def _stepped(self, extent: Extent, step: int | None) -> Extent:
        if step is None:
            return self._unknown(bound_of(extent))
        if isinstance(extent, int):
            return -(-extent // step)
        bound = None if extent.bound is None else -(-extent.bound // step)
        return AtMost(bound, None if extent.key is None else ("step", extent.key, step))

    def _kept(
        self,
        start: Value | None,
        stop: Value | None,
        axis: int,
        extent: Extent,
        where: Where,
        *,
        outside: bool,
    ) -> Extent:
        """How many elements a slice has; refused where it certainly leaves the axis."""
        if start is None and stop is None:
            return extent
        first = Constant(0, I32_KIND, 0) if start is None else start
        if stop is None:
            if not isinstance(extent, int):
                return self._unknown(extent.bound)
            stop = Constant(0, I32_KIND, extent)
        low, high = self._constant_int(first), self._constant_int(stop)
        if low is not None and high is not None and high < low and not self._dead:
            raise self._error(
                f"a slice from {low} to {high}: it ends before it starts",
                where,
                "views don't run backwards; an empty one is written x[a:a]",
            )
        kept = self._distance(first, stop)
        if outside:
            return kept
        if isinstance(extent, int):
            if (low is not None and low > extent) or (high is not None and high > extent):
                raise self._error(
                    f"{'start' if low is not None and low > extent else 'stop'} "
                    f"{low if low is not None and low > extent else high} is outside of axis {axis}, "
                    f"which has {extent} elements",
                    where,
                    "slices must lie inside; load with pad= or store with clip=True what may reach outside",
                )
            if isinstance(kept, int) and kept > extent:
                raise self._error(
                    f"a slice of {kept} elements of axis {axis}, which has {extent}",
                    where,
                    "slices must lie inside; load with pad= or store with clip=True what may reach outside",
                )
            room = extent - (low or 0)
            if isinstance(kept, AtMost) and (kept.bound is None or kept.bound > room):
                return AtMost(room, kept.key)
        elif isinstance(kept, AtMost) and kept.bound is None and extent.bound is not None:
            return AtMost(extent.bound, kept.key)
        return kept

    def _reaching(self, view: Value, where: Where) -> Value:
        """The same view, allowed to reach outside of its array; only slices written in place can be."""
        kind = view.kind
        if isinstance(kind, ViewKind) and kind.outside:
            return view
        node = self._definitions.get(view)
        if isinstance(node, tree.Index):
            base = self._reaching(node.base, where)
            items: list[Item] = []
            for item in node.items:
                if isinstance(item, Fix):
                    items.append(item.index)
                else:
                    items.append(Slice() if item is None else Slice(item.start, item.stop, item.step))
            return self.index(base, items, node.where, outside=True)
        if isinstance(node, tree.Permute):
            return self.permute(self._reaching(node.base, where), node.order, node.where)
        return view

    def permute(self, base: Value, order: Sequence[int], where: Where) -> Value:
        """Axes in another order, as numpy's transpose(order); a view."""
        kind = self._base(base, where)
        if sorted(order) != list(range(kind.rank)):
            raise self._error(
                f"{tuple(order)} is no order of {kind.rank} axes",
                where,
                f"name each of 0 to {kind.rank - 1} once",
            )
        axes = tuple(order)
        space, outside = (kind.space, kind.outside) if isinstance(kind, ViewKind) else ("L1", False)
        key = ("permute", base, axes)
        result = ViewKind(kind.dtype, tuple(kind.shape[axis] for axis in axes), space, outside)
        return self._shared(key) or self._share(key, tree.Permute(where, self._new(result), base, axes))

    def transpose(self, base: Value, where: Where) -> Value:
        """The last two axes exchanged; a view."""
        rank = self._base(base, where).rank
        if rank < 2:
            raise self._error(
                f"a transpose needs 2 axes, this has {rank}", where, "give it a second axis by a reshape"
            )
        return self.permute(base, (*range(rank - 2), rank - 1, rank - 2), where)

    def reshape(self, base: Value, shape: Sequence[Operand], where: Where) -> Value:
        """Other extents (1-3 axes, one may be -1 if the rest is known) over a dense view or tile; a view."""
        kind = self._base(base, where)
        if not 1 <= len(shape) <= MAX_TILE_AXES:
            raise self._error(
                f"a reshape to {len(shape)} axes; 1 to {MAX_TILE_AXES} are possible",
                where,
                "join axes, or fix one by a number",
            )
        if isinstance(kind, ViewKind) and kind.outside:
            raise self._error(
                "a view that may reach outside of its array can't be reshaped",
                where,
                "reshape it when it is loaded",
            )
        exact = [n for n in kind.shape if isinstance(n, int)]
        total = math.prod(exact) if len(exact) == kind.rank else None
        wanted = list(shape)
        if wanted.count(-1) > 1:
            raise self._error("only one extent of a reshape can be -1", where, "give the others as numbers")
        if -1 in wanted:
            place = wanted.index(-1)
            rest = [n for n in wanted if isinstance(n, int) and n != -1]
            if (
                total is None
                or len(rest) != len(wanted) - 1
                or not math.prod(rest)
                or total % math.prod(rest)
            ):
                raise self._error(
                    f"-1 can't be worked out: {shape_text(kind.shape)} into {tuple(shape)}"
                    if all(isinstance(n, int) for n in wanted)
                    else "-1 needs the other extents as numbers",
                    where,
                    "write the extent",
                )
            wanted[place] = total // math.prod(rest)
        extents = [self._integer(n, where, "an extent") for n in wanted]
        new: Shape = tuple(self._extent_of(extent) for extent in extents)
        known = [n for n in new if isinstance(n, int)]
        if total is not None and len(known) == len(new) and math.prod(known) != total:
            raise self._error(
                f"{shape_text(kind.shape)} has {total} elements, {shape_text(new)} has {math.prod(known)}",
                where,
                "the numbers of elements must be equal; one extent may be -1",
            )
        bounds = [bound_of(n) for n in kind.shape]
        limit = math.prod(n for n in bounds if n is not None) if None not in bounds else None
        new = tuple(AtMost(limit, n.key) if isinstance(n, AtMost) and n.bound is None else n for n in new)
        space = kind.space if isinstance(kind, ViewKind) else "L1"
        key = ("reshape", base, tuple(self._key(extent) for extent in extents))
        return self._shared(key) or self._share(
            key, tree.Reshape(where, self._new(ViewKind(kind.dtype, new, space)), base, tuple(extents))
        )

    def extent(self, base: Value, axis: int, where: Where) -> Operand:
        """Extent of one axis: an int when known, else an i32 value."""
        kind = self._base(base, where)
        if not -kind.rank <= axis < kind.rank:
            raise self._error(f"axis {axis} of {kind.rank} axes", where, axes_hint(kind.rank))
        axis %= kind.rank
        extent = kind.shape[axis]
        if isinstance(extent, int):
            return extent
        key = ("extent", base, axis)
        return self._shared(key) or self._share(key, tree.ExtentOf(where, self._new(I32_KIND), base, axis))

    # elements

    def element(self, base: Value, indices: Sequence[Operand], where: Where) -> Value:
        """One element of a view in L1 or L2, or of a tile, as a scalar.

        As many indices as axes (none for a view without axes).
        """
        kind = self._base(base, where)
        positions = self._positions(base, kind, indices, where)
        result = self._new(ScalarKind(scalar_type(kind.dtype)))
        return self._give(tree.Element(where, result, base, positions))

    def set_element(self, base: Value, indices: Sequence[Operand], value: Operand, where: Where) -> None:
        """Write one element of a view in L1 or L2."""
        kind = self._base(base, where)
        if isinstance(kind, TileKind):
            raise self._error(
                "a tile is a value; its elements can't be assigned", where, "use an L1 buffer, or tops.where"
            )
        positions = self._positions(base, kind, indices, where)
        what = f"an element of {kind.dtype}"
        if not isinstance(value, Value):
            value = self._into(value, kind.dtype, where)
        number = self._scalar(value, scalar_type(kind.dtype), where, what)
        self._emit(tree.SetElement(where, base, positions, number))

    def _positions(
        self, base: Value, kind: TileKind | ViewKind, indices: Sequence[Operand], where: Where
    ) -> tuple[Value, ...]:
        if isinstance(kind, ViewKind) and kind.space == "L3":
            raise self._error(
                "single elements of an array in L3 can't be reached",
                where,
                f"load a part, then take the element: {self._words.load('x[i:i+n]')}",
            )
        if isinstance(kind, ViewKind) and kind.outside:
            raise self._error(
                "a view that may reach outside of its array has no elements to read",
                where,
                "load it first, with what stands outside of it",
            )
        if len(indices) != kind.rank:
            raise self._error(
                f"{len(indices)} indices for {kind.rank} axes",
                where,
                "an element has one index for each axis",
            )
        if kind.rank > MAX_TILE_AXES:
            raise self._error(
                f"elements of views of more than {MAX_TILE_AXES} axes can't be reached",
                where,
                "fix axes by numbers first",
            )
        return tuple(
            self._position(base, axis, kind.shape[axis], item, where) for axis, item in enumerate(indices)
        )

    def write(self, view: Value, value: Operand, where: Where) -> None:
        """`view[...] = value`: a tile, a view of L1 or a scalar into a view of L1, by the vector unit."""
        kind = self._base(view, where)
        if isinstance(kind, TileKind):
            raise self._error("a tile is a value; parts of it can't be assigned", where, "use an L1 buffer")
        if kind.space != "L1" or kind.outside:
            raise self._error(
                f"only L1 can be assigned to; this is {kind_name(kind)}",
                where,
                "store it: tops.store(x[...], tile)",
            )
        if kind.rank == 0:
            self.set_element(view, (), value, where)
            return
        value = self._usable(value, where)
        if isinstance(value, Value) and isinstance(value.kind, TileKind | ViewKind):
            if value.kind.dtype != kind.dtype:
                raise self._error(
                    f"a tile of {value.kind.dtype} into {kind_name(kind)}",
                    where,
                    f"convert it: {self._words.cast(kind.dtype)}",
                )
            self._fits(kind.shape, value.kind.shape, where)
            self._emit(tree.Write(where, view, value))
            return
        number = self._into(value, kind.dtype, where)
        if not isinstance(number.kind, ScalarKind):
            raise self._error(
                f"{kind_name(number.kind)} can't be written into a view",
                where,
                "write a scalar, or a tile of its extents",
            )
        self._emit(tree.Write(where, view, number))

    def _fits(self, destination: Shape, source: Shape, where: Where) -> None:
        """The source, broadcast, must have the destination's extents."""
        padded: Shape = (1,) * (len(destination) - len(source)) + source
        if len(padded) > len(destination) or any(
            differ(d, s) and s != 1 for d, s in zip(destination, padded, strict=True)
        ):
            raise self._error(
                f"{shape_text(source)} does not fit {shape_text(destination)}", where,
                "extents must be equal, or 1 in the source: take a part of one side, b[i:j] = t[i:j]",
            )  # fmt: skip
