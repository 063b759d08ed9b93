"""Pipelines: loops whose loads run ahead of their body.

With `slots` slots a buffer's loads run `slots` - 1 rounds ahead, or fewer: `ahead`. Before the loop the
first ones are started; each round starts one more, into the slot that was left longest ago, and then waits
for its own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tops_kit.isa.program import PIPELINE_CHANNELS
from tops_kit.topscc.builder import Operand, Slice
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import TileKind, ViewKind
from tops_kit.topscc.python.assigned import stored_names
from tops_kit.topscc.python.core import Loop
from tops_kit.topscc.python.rounds import Rounds
from tops_kit.topscc.python.scope import LocalFunction
from tops_kit.topscc.tree import Buffer, Channel, Value, Variable


@dataclass(slots=True, eq=False)
class Stream:
    """One load of a pipeline: what fills a buffer. Each load that runs ahead has an event.

    `channels`: of each slot, or one for all. `kind` is that of the source, once it was built;
    `tails`: its extents can differ from round to round.
    """

    buffer: Buffer
    source: Callable[[Operand], Value]
    node: ast.expr
    events: tuple[Variable, ...]
    channels: tuple[Channel, ...]
    kind: ViewKind | TileKind | None = None
    tails: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The loads of a pipeline, and where its rounds end."""

    streams: list[Stream]
    stop: Operand
    step: Operand
    pad: Operand | None
    where: Where


class Pipelines(Rounds):
    """Pipelines."""

    def pipeline(self, node: ast.For, call: ast.Call) -> None:
        """`for r in tops.pipeline(start, stop, step, load=[(buffer, source), ...], pad=value)`."""
        name = self.counter_name(node, "pipeline")
        if name in stored_names(node.body):
            raise self.error(
                f"{name} counts the rounds of a pipeline and can't be assigned",
                node.target,
                "use another name",
            )
        where = self.head(node, node.iter)
        start, stop, step = self.bounds(call, "pipeline")
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        unknown = [keyword for keyword in call.keywords if keyword.arg not in ("load", "pad", "ahead")]
        if unknown:
            raise self.error(
                f"pipeline has no argument {unknown[0].arg}", unknown[0], "it takes load=, pad= and ahead="
            )
        if "load" not in keywords:
            raise self.error(
                "a pipeline needs its loads", call, f"write load=(buffer, lambda {name}: x[{name}:{name}+1])"
            )
        pad = self.number(keywords["pad"]) if "pad" in keywords else None
        pairs = self._pairs(keywords["load"], name)
        most = max(buffer.slots for buffer, _, _ in pairs) - 1
        ahead = self._ahead(keywords["ahead"], most) if "ahead" in keywords else most
        self._do_not_depend(pairs, node)
        pipeline = Pipeline(
            [self._stream(buffer, source, at, ahead, where) for buffer, source, at in pairs],
            stop,
            step,
            pad,
            where,
        )
        counts = {stream.buffer.slots for stream in pipeline.streams}
        for distance in range(ahead):
            some = [stream for stream in pipeline.streams if distance < len(stream.events)]
            position = self._plus(start, step, distance, where)
            self._start_loads(pipeline, some, position, distance, distance)
        slots = {n: self.builder.declare(f"{name}.slot{n}", 0, where) for n in counts if n > 1}
        events = [event for stream in pipeline.streams for event in stream.events]
        changed = self.changes(node.body) | {*events, *slots.values()}
        counter = self.builder.begin_range(name, start, stop, step, where, assigns=changed)
        with self.loop_body(unrolled=False) as loop:
            loop.counter = counter
            loop.events = tuple(events)
            self._round(loop, pipeline, slots)
            self.bind_counter(name, counter, self.region, where)
            self.block(node.body)
        self.builder.end_range(where)

    def _pairs(self, node: ast.expr, name: str) -> list[tuple[Buffer, Any, ast.expr]]:
        """The buffers and sources of `load=`."""
        value = self.value(node)
        form = f"(buffer, lambda {name}: x[{name}:{name}+1]), or a list of such pairs"
        items = list(value) if isinstance(value, tuple) else []
        nodes = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] * len(items)
        if len(items) == 2 and not any(isinstance(item, tuple) for item in items):
            items, nodes = [tuple(items)], [node]
        out: list[tuple[Buffer, Any, ast.expr]] = []
        for item, at in zip(items, nodes, strict=True):
            if not isinstance(item, tuple) or len(item) != 2:
                raise self.error(
                    f"{self.describe(item)} is no pair of buffer and source", at, f"write {form}"
                )
            buffer, source = item
            if not isinstance(buffer, Buffer) or buffer.space != "L1":
                raise self.error(
                    f"a pipeline fills buffers in L1, this is {self.describe(buffer)}",
                    at,
                    "make one: row = tops.l1(dtype, shape, slots=2)",
                )
            if not callable(source) and not isinstance(source, LocalFunction):
                raise self.error(
                    f"the source must be a function of the round, this is {self.describe(source)}",
                    at,
                    f"write lambda {name}: x[{name}:{name}+1]",
                )
            if self.pipeline_of(buffer) or any(buffer is other for other, _, _ in out):
                raise self.error(f"{buffer.name} is filled by a pipeline already", at, "use another buffer")
            out.append((buffer, source, at))
        if not out:
            raise self.error("a pipeline needs its loads", node, f"write load={form}")
        return out

    def _do_not_depend(self, pairs: list[tuple[Buffer, Any, ast.expr]], node: ast.For) -> None:
        """Loads run ahead of the body, so what they use must not change in it."""
        stored = stored_names(node.body)
        for _, source, at in pairs:
            if not isinstance(source, LocalFunction):
                continue
            own = {argument.arg for argument in ast.walk(source.node) if isinstance(argument, ast.arg)}
            if isinstance(source.node, ast.FunctionDef):
                own |= stored_names(source.node.body)
            for name in ast.walk(source.node):
                if isinstance(name, ast.Name) and name.id in stored - own and source.scope is self.scope:
                    raise self.error(
                        f"the source uses {name.id}, which the loop's body changes, but loads run ahead",
                        name if isinstance(source.node, ast.Lambda) else at,
                        "compute it from the loop variable, or load without a pipeline",
                    )

    def _ahead(self, node: ast.expr, most: int) -> int:
        """How many rounds loads run ahead."""
        ahead = self.integer(self.value(node), "ahead", node)
        if not 1 <= ahead <= most:
            raise self.error(
                f"loads can't run {ahead} rounds ahead with {most + 1} slot{'s' * (most > 0)}",
                node,
                f"1 to {most} are possible" if most else "give the buffers slots=2 or more",
            )
        return ahead

    def _stream(self, buffer: Buffer, source: Any, at: ast.expr, ahead: int, where: Where) -> Stream:
        def view(position: Operand) -> Value:
            value = self.operand(self.call_with(source, [position], at), at)
            if not isinstance(value, Value) or not isinstance(value.kind, ViewKind | TileKind):
                raise self.error(
                    f"the source of {buffer.name} must be a part of an array, this is {self.describe(value)}",
                    at,
                    "write load=(buffer, lambda r: x[r:r+1])",
                )
            return value

        events = tuple(
            self.builder.declare(f"{buffer.name}.ready{number}", self.builder.no_event(where), where)
            for number in range(min(ahead, buffer.slots - 1))
        )
        channels = tuple(Channel(f"{buffer.name}.{number}") for number in range(buffer.slots))
        return Stream(
            buffer, view, at, events, channels if buffer.slots <= PIPELINE_CHANNELS else channels[:1]
        )

    def _plus(self, start: Operand, step: Operand, times: int, where: Where) -> Operand:
        if times == 0:
            return start
        distance = self.builder.binary("mul", step, times, where)
        return self.builder.binary("add", start, distance, where)

    def _before_end(self, position: Operand, stop: Operand, step: Operand, where: Where) -> bool | Operand:
        number = self.static(step)
        down = isinstance(number, int) and number < 0
        condition = self.static(self.builder.compare("gt" if down else "lt", position, stop, where))
        return condition if isinstance(condition, Value) else bool(condition)

    def _start_loads(
        self, pipeline: Pipeline, streams: list[Stream], position: Operand, slot: Operand, event: int
    ) -> None:
        """Start the loads of a round, if there is one; `event`: the place of their events in the streams."""
        where = pipeline.where
        condition = self._before_end(position, pipeline.stop, pipeline.step, where)
        if condition is False:
            return
        if condition is not True:
            self.builder.begin_if(condition, where)
        sources = [stream.source(position) for stream in streams]
        self._into_slot(pipeline, list(zip(streams, sources, strict=True)), slot, event)
        if condition is not True:
            self.builder.end_if(where)

    def _into_slot(
        self, pipeline: Pipeline, loads: list[tuple[Stream, Value]], slot: Operand, event: int
    ) -> None:
        """Start loads into a slot: each slot has its channel, so that loads ahead overlap their latencies."""
        count = loads[0][0].buffer.slots
        if isinstance(slot, int) or count > PIPELINE_CHANNELS:
            for stream, source in loads:
                self._start_load(pipeline, stream, source, slot, event)
            return
        for number in range(count - 1):
            this = self.builder.compare("eq", slot, number, pipeline.where)
            self.builder.begin_if(this, pipeline.where)
            self._into_slot(pipeline, loads, number, event)
            self.builder.begin_else(pipeline.where)
        self._into_slot(pipeline, loads, count - 1, event)
        for _ in range(count - 1):
            self.builder.end_if(pipeline.where)

    def _start_load(
        self, pipeline: Pipeline, stream: Stream, source: Value, slot: Operand, event: int
    ) -> None:
        at = self.where(stream.node)
        destination = self._cut(self.builder.slot(stream.buffer, slot, at), source, stream, at)
        channel = stream.channels[slot if isinstance(slot, int) and len(stream.channels) > 1 else 0]
        started = self.builder.transfer(destination, source, at, pad=pipeline.pad, channel=channel)
        self.builder.assign(stream.events[event], started, at)

    def _cut(self, slot: Value, source: Value | None, stream: Stream, where: Where) -> Value:
        """The part of a slot that a source fills: tails are smaller. No source: one like the last."""
        if source is not None:
            assert isinstance(source.kind, ViewKind | TileKind)
            stream.kind = source.kind
        room, kind = slot.kind, stream.kind
        assert isinstance(room, ViewKind) and kind is not None
        if room.dtype != kind.dtype:
            raise self.error(
                f"{stream.buffer.name} holds {room.dtype}, its source has {kind.dtype}",
                where,
                f"make the buffer of tops.{kind.dtype}, and convert after: {stream.buffer.name}[i].to(...)",
            )
        # an axis of an array that is taken as a whole fills the slot: the machine checks that it does
        fills = [
            extent == most or extent in self.axes
            for extent, most in zip(kind.shape, room.shape, strict=False)
        ]
        stream.tails = not all(
            whole or isinstance(extent, int) for whole, extent in zip(fills, kind.shape, strict=True)
        )
        if kind.rank != room.rank:
            if not stream.tails:
                return slot  # axes of extent 1 may be left out: the builder checks
            raise self.error(
                f"the source has {kind.rank} axes, a slot of {stream.buffer.name} has {room.rank}",
                where,
                "fix or keep axes: x[i] drops one, x[i:i+1] keeps it",
            )
        if all(fills):
            return slot
        items = [
            Slice()
            if whole
            else Slice(None, extent if isinstance(extent, int) else self._extent(source, axis, where))
            for axis, (extent, whole) in enumerate(zip(kind.shape, fills, strict=True))
        ]
        return self.builder.index(slot, items, where)

    def _extent(self, source: Value | None, axis: int, where: Where) -> Operand:
        assert source is not None
        return self.builder.extent(source, axis, where)

    def _round(self, loop: Loop, pipeline: Pipeline, slots: dict[int, Variable]) -> None:
        """The start of a round: start the loads of a later one, then wait for this one's."""
        assert loop.counter is not None
        where, streams = pipeline.where, pipeline.streams
        position = self.builder.read(loop.counter, where)
        now: dict[int, Operand] = {1: 0}
        later: dict[int, Operand] = {1: 0}
        for count, variable in slots.items():
            now[count] = self.builder.read(variable, where)
            after = self._slot_after(now[count], 1, count, where)
            ahead = next(len(stream.events) for stream in streams if stream.buffer.slots == count)
            later[count] = after if ahead == 1 else self._slot_after(now[count], ahead, count, where)
            self.builder.assign(variable, after, where)
        awaited: list[Value] = []
        for stream in streams:
            awaited += [self.builder.read(event, where) for event in stream.events[:1]]
            for event, other in zip(stream.events, stream.events[1:], strict=False):
                self.builder.assign(event, self.builder.read(other, where), where)
        for count in sorted(slots):
            some = [stream for stream in streams if stream.buffer.slots == count]
            following = self._plus(position, pipeline.step, len(some[0].events), where)
            self._start_loads(pipeline, some, following, later[count], -1)
        for started in awaited:
            self.builder.wait(started, where)
        for stream in streams:
            at = self.where(stream.node)
            slot = self.builder.slot(stream.buffer, now[stream.buffer.slots], at)
            again = not stream.events or stream.kind is None or stream.tails
            source = stream.source(position) if again else None
            loop.views[stream.buffer] = view = self._cut(slot, source, stream, at)
            if not stream.events and source is not None:
                self.builder.copy(view, source, at, pad=pipeline.pad)

    def _slot_after(self, slot: Operand, rounds: int, count: int, where: Where) -> Operand:
        """The slot that is worked on some rounds later, at most one round of all slots."""
        if count == 2:
            return self.builder.binary("sub", 1, slot, where)
        if rounds == count - 1:  # the one before
            first = self.builder.compare("eq", slot, 0, where)
            return self.builder.select(first, count - 1, self.builder.binary("sub", slot, 1, where), where)
        following = self.builder.binary("add", slot, rounds, where)
        if rounds == 1:
            full = self.builder.compare("eq", following, count, where)
            return self.builder.select(full, 0, following, where)
        over = self.builder.compare("ge", following, count, where)
        around = self.builder.binary("sub", following, count, where)
        return self.builder.select(over, around, following, where)
