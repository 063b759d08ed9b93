"""Transfers by the DTE between memories, and waiting for them."""

from __future__ import annotations

from tops_kit.isa.dtypes import DType
from tops_kit.topscc import tree
from tops_kit.topscc.building.control import ControlBuilder
from tops_kit.topscc.building.shapes import transfer_problem
from tops_kit.topscc.building.values import Operand, kind_name
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import (
    MAX_TILE_AXES,
    AtMost,
    EventKind,
    ScalarKind,
    TileKind,
    ViewKind,
    bound_of,
    shape_text,
)
from tops_kit.topscc.tree import Channel, Constant, Value

MAX_CHANNEL = 254  # 255 stands for the block's own context


class TransferBuilder(ControlBuilder):
    """Transfers."""

    def load(self, source: Value, where: Where, *, pad: Operand | None = None) -> Value:
        """A tile with what lies at `source` (L3, L2 or L1), there when the call is over. Its bounds must be
        known.

        With `pad`, what lies outside of the array becomes that value.
        """
        source, kind, value = self._source(source, pad, where)
        if not 1 <= kind.rank <= MAX_TILE_AXES:
            raise self._error(
                f"a tile of {kind.rank} axes; 1 to {MAX_TILE_AXES} are possible",
                where,
                "keep an axis with a slice: x[i:i+1]" if kind.rank == 0 else "fix more axes: x[i, j, a:b]",
            )
        for axis, extent in enumerate(kind.shape):
            if isinstance(extent, AtMost) and extent.bound is None:
                raise self._error(
                    f"the extent of axis {axis} of {shape_text(kind.shape)} isn't known when compiling",
                    where,
                    self._bounded_hint(source, kind),
                )
        return self._give(tree.Load(where, self._new(TileKind(kind.dtype, kind.shape)), source, value))

    def _bounded_hint(self, source: Value, kind: TileKind | ViewKind) -> str:
        """How to write a part of bounded extents."""
        parameter = self._number_of_launch(source)
        if parameter:
            return f"annotate {parameter}: tops.constexpr, or bound it: min({parameter}, 64)"
        node = self._definitions.get(source)
        whole, items = (node.base, node.items) if isinstance(node, tree.Index) else (source, ())
        name = next((p.name for p in self._parameters if p.holds is whole), "x")
        assert isinstance(whole.kind, TileKind | ViewKind)
        part = []
        for axis, extent in enumerate(whole.kind.shape):
            item = items[axis] if axis < len(items) else None
            letter = "ijklm"[axis]
            if isinstance(item, tree.Fix):
                part.append(letter)
            elif item is None and bound_of(extent) is not None:
                part.append(":")
            else:
                part.append(f"{letter}:{letter}+{'BCDEF'[axis]}")
        return (
            f"give extents from constexprs: {name}[{', '.join(part)}], or i:min(i+B, n) for an end, "
            f"or load into a buffer: tops.load(buffer, {name}[...])"
        )

    def _number_of_launch(self, source: Value) -> str:
        """The name of a parameter that a slice of unknown extent has as its length, or ""."""
        node = self._definitions.get(source)
        for item in node.items if isinstance(node, tree.Index) else ():
            stop = item.stop if isinstance(item, tree.Part) else None
            node = None if stop is None else self._definitions.get(stop)
            ends = (
                list(node.operands) if isinstance(node, tree.Elementwise) and node.name == "add" else [stop]
            )
            for end in (self._definitions.get(value) for value in ends if value is not None):
                if isinstance(end, tree.Read) and self.is_parameter(end.variable):
                    return end.variable.name
        return ""

    def transfer(
        self,
        destination: Value,
        source: Value,
        where: Where,
        *,
        pad: Operand | None = None,
        clip: bool = False,
        after: Value | None = None,
        channel: int | Channel | None = None,
    ) -> Value:
        """Start a copy by the DTE between any two memories (views; the source may be a tile); gives its
        event.

        It starts when event `after` is complete. `pad`: what of the source lies outside becomes that value;
        `clip`: what of the destination lies outside is left out. Element types must be equal; extents equal
        but for axes of extent 1, or 1 in the source, which is then repeated. `channel`: 0 to 254, or 255 for
        the block's context; a Channel: that of all transfers that share it; None: one for each place in the
        source.
        """
        return self._transfer(
            destination, source, where, pad=pad, clip=clip, after=after, channel=channel, waits=False
        )

    def copy(
        self,
        destination: Value,
        source: Value,
        where: Where,
        *,
        pad: Operand | None = None,
        clip: bool = False,
        channel: int | Channel | None = None,
    ) -> None:
        """`transfer` and wait for it."""
        self._transfer(
            destination, source, where, pad=pad, clip=clip, after=None, channel=channel, waits=True
        )

    def _transfer(
        self,
        destination: Value,
        source: Value,
        where: Where,
        *,
        pad: Operand | None,
        clip: bool,
        after: Value | None,
        channel: int | Channel | None,
        waits: bool,
    ) -> Value:
        if pad is not None and clip:
            raise self._error(
                "a transfer with both pad and clip", where, "pad into a buffer, then clip from it"
            )
        source, kind, value = self._source(source, pad, where)
        destination = self._destination(destination, clip, where)
        self._fit(destination, kind, where)
        if after is not None:
            after = self._event(after, where)
        self._check_channel(channel, where)
        return self._give(
            tree.Transfer(
                where, self._new(EventKind()), destination, source, value, clip, after, channel, waits
            )
        )

    def store(
        self,
        destination: Value,
        source: Operand,
        where: Where,
        *,
        clip: bool = False,
        at: Where | None = None,
    ) -> None:
        """A tile, a view of L1 or L2, or a scalar (everywhere; it stands `at`), to a view.

        After it the source may be reused; it is complete for other threads at the next barrier, atomic
        operation or end. (A compiler's tile goes out while the kernel continues.)
        """
        if not isinstance(source, Value) or isinstance(source.kind, ScalarKind):
            self._memset(destination, source, where, None, None, waits=True, at=at)
            return
        source, kind, _ = self._source(source, None, where)
        destination = self._destination(destination, clip, where)
        self._fit(destination, kind, where)
        self._emit(tree.Store(where, destination, source, clip))

    def memset(
        self,
        destination: Value,
        value: Operand,
        where: Where,
        *,
        after: Value | None = None,
        channel: int | Channel | None = None,
        at: Where | None = None,
    ) -> Value:
        """Start filling a view with one value, which stands `at`, by the DTE; gives the event."""
        return self._memset(destination, value, where, after, channel, waits=False, at=at)

    def _memset(
        self,
        destination: Value,
        value: Operand,
        where: Where,
        after: Value | None,
        channel: int | Channel | None,
        *,
        waits: bool,
        at: Where | None = None,
    ) -> Value:
        destination = self._destination(destination, False, where)
        assert isinstance(destination.kind, ViewKind)
        number = self._filling(value, destination.kind.dtype, at or where)
        if after is not None:
            after = self._event(after, where)
        self._check_channel(channel, where)
        return self._give(
            tree.Memset(where, self._new(EventKind()), destination, number, after, channel, waits)
        )

    def no_event(self, where: Where) -> Value:
        """An event that is complete, as a first value for a variable."""
        return Constant(0, EventKind(), 0)

    def wait(self, event: Value, where: Where) -> None:
        """Until a transfer is complete."""
        self._emit(tree.Wait(where, self._event(event, where)))

    def wait_all(self, where: Where) -> None:
        """Until all transfers of this thread are complete."""
        self._emit(tree.WaitAll(where))

    # checks

    def _source(
        self, source: Value, pad: Operand | None, where: Where
    ) -> tuple[Value, TileKind | ViewKind, Value | None]:
        """What is read, and the value that stands for what lies outside."""
        if not isinstance(source, Value) or not isinstance(source.kind, TileKind | ViewKind):
            what = kind_name(source.kind) if isinstance(source, Value) else repr(source)
            raise self._error(
                f"a transfer from {what}", where, "transfers move tiles and parts of arrays and buffers"
            )
        value = None
        if pad is not None:
            source = self._reaching(source, where)
            assert isinstance(source.kind, TileKind | ViewKind)
            value = self._filling(pad, source.kind.dtype, where)
        elif isinstance(source.kind, ViewKind) and source.kind.outside:
            raise self._error(
                "a view that may reach outside of its array", where, "say what stands there: pad=0"
            )
        assert isinstance(source.kind, TileKind | ViewKind)
        return source, source.kind, value

    def _destination(self, destination: Value, clip: bool, where: Where) -> Value:
        if not isinstance(destination, Value) or not isinstance(destination.kind, ViewKind):
            if isinstance(destination, Value) and isinstance(destination.kind, TileKind):
                raise self._error(
                    "a tile is a value; nothing can be transferred into it",
                    where,
                    f"take the result, t = {self._words.load('x[...]')}, or use an L1 buffer",
                )
            what = kind_name(destination.kind) if isinstance(destination, Value) else repr(destination)
            raise self._error(f"a transfer into {what}", where, "transfers go to parts of arrays and buffers")
        if clip:
            return self._reaching(destination, where)
        if destination.kind.outside:
            raise self._error(
                "a view that may reach outside of its array", where, "leave that part out: clip=True"
            )
        return destination

    def _fit(self, destination: Value, source: TileKind | ViewKind, where: Where) -> None:
        kind = destination.kind
        assert isinstance(kind, ViewKind)
        if kind.dtype != source.dtype:
            raise self._error(
                f"{source.dtype} into {kind_name(kind)}: transfers don't convert",
                where,
                self._convert_hint(kind.dtype),
            )
        problem = transfer_problem(kind.shape, source.shape)
        if problem:
            raise self._error(
                problem, where, "extents must be equal, or 1 in the source, which is then repeated"
            )

    def _convert_hint(self, dtype: DType) -> str:
        return f"convert the tile: {self._words.cast(dtype)}"

    def _check_channel(self, channel: int | Channel | None, where: Where) -> None:
        if channel is None or isinstance(channel, Channel):
            return
        if isinstance(channel, bool) or not isinstance(channel, int) or not 0 <= channel <= MAX_CHANNEL + 1:
            raise self._error(
                f"channel {channel!r}; 0 to {MAX_CHANNEL}, or 255, are possible",
                where,
                "leave it out: each line has one of its own",
            )
