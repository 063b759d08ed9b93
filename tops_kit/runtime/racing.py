"""Races between streams, told to who listens: which operations, on which bytes, from which lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tops_kit.gcu.races import Access, Mark, StreamRace, StreamRaces
from tops_kit.gcu.strided import bytes_of
from tops_kit.runtime import activity as acts
from tops_kit.runtime import callers
from tops_kit.runtime.hooks import HOOKS

if TYPE_CHECKING:
    from tops_kit.gcu.simulation import Operation
    from tops_kit.runtime.array import Array
    from tops_kit.runtime.blocks import Block
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.plan import Plan
    from tops_kit.runtime.stream import Stream
    from tops_kit.runtime.transfers import Side

_LINES = 12  # of a stack


class Doing(NamedTuple):
    """An operation as a report names it."""

    what: str
    correlation_id: int
    submit_ns: int
    lines: callers.Lines  # of the program that led to it

    @property
    def stack(self) -> str:
        """The lines as people read them, innermost first."""
        return "\n".join(callers.told(self.lines))


class Racing:
    """The races of a process. Nothing is kept while nobody wants to hear of them, or there is one stream.

    A kernel counts as using all of each array that it is given: give it slices. What is not checked is told
    as a race whose second operation says so.
    """

    def __init__(self) -> None:
        self._races = StreamRaces()
        self._keys: dict[tuple[int, int], int] = {}  # of (context, stream)
        self._forgotten = 0  # accesses that were given up, as far as that was told

    def kernel(self, stream: Stream, plan: Plan, values: Sequence[Any], after: Sequence[Operation]) -> None:
        """A kernel is given to a stream."""
        stores = set(plan.stored)
        accesses = [_array(values[position], position in stores) for position in plan.arrays]
        self._submit(stream, f"kernel {plan.name}", accesses, after)

    def copy(self, stream: Stream, into: Side, out_of: Side, size: int, after: Sequence[Operation]) -> None:
        """A copy is given to a stream."""
        accesses = [*_side(out_of, size, False), *_side(into, size, True)]
        self._submit(stream, f"copy of {size:,} bytes", accesses, after)

    def fill(self, stream: Stream, side: Side, size: int, after: Sequence[Operation]) -> None:
        """A fill is given to a stream."""
        self._submit(stream, f"memset of {size:,} bytes", _side(side, size, True), after)

    def free(self, stream: Stream, block: Block) -> None:
        """Memory is freed in the order of a stream."""
        key = (block.context.context_id, block.serial)
        begin, end = block.address, block.address + block.size_bytes
        self._submit(stream, "free", [Access(key, begin, end, True)], ())
        self._races.forget(key)

    def gone(self, context: Context, serial: int) -> None:
        """Memory is freed when nothing can use it any more."""
        self._races.forget((context.context_id, serial))

    def mark(self, stream: Stream) -> Mark:
        """Where a stream is: for an event."""
        self._wait_legacy(stream)
        return self._races.mark(self._key(stream))

    def wait(self, stream: Stream, mark: Mark) -> None:
        """A stream waits for an event."""
        self._races.wait(self._key(stream), mark)

    def host_waited(self, mark: Mark) -> None:
        """The host waited for an event."""
        self._races.host_waits(mark)

    def host_waited_for_stream(self, stream: Stream) -> None:
        """The host waited for a stream."""
        self._races.host_waits(self._races.mark(self._key(stream)))

    def host_waited_for_device(self, context: Context) -> None:
        """The host waited for all that is queued on a device."""
        self._races.host_waits_for_all(
            [key for (number, _), key in self._keys.items() if number == context.context_id]
        )

    def _submit(
        self, stream: Stream, what: str, accesses: Iterable[Access], after: Sequence[Operation]
    ) -> None:
        self._wait_legacy(stream)
        key = self._key(stream)
        for operation in after:
            other = self._keys.get((stream.context.context_id, operation.stream.tag))
            if other is not None and other != key:
                self._races.wait(key, self._races.mark(other))
        context = stream.context
        doing = Doing(what, HOOKS.thread.correlation_id, context.clock.now_ns(), callers.lines(_LINES))
        name = (what, doing.lines[:1])
        for race in self._races.submit(key, accesses, doing, name):
            _tell(race, context)
        if self._races.forgotten > self._forgotten:
            if not self._forgotten:
                why = "not checked: too many uses of one allocation without an order"
                _tell_pair(doing, Doing(why, 0, doing.submit_ns, ()), 0, 0, context)
            self._forgotten = self._races.forgotten

    def _wait_legacy(self, stream: Stream) -> None:
        """The default stream waits for the others that don't refuse, and they for it."""
        if stream.non_blocking:
            return
        context = stream.context
        if stream is not context.default_stream:
            default = self._key(context.default_stream)
            self._races.wait(self._key(stream), self._races.mark(default))
            return
        key = self._key(stream)
        for number in context.blocking:
            other = self._keys.get((context.context_id, number))
            if other is not None:
                self._races.wait(key, self._races.mark(other))

    def _key(self, stream: Stream) -> int:
        place = (stream.context.context_id, stream.id)
        found = self._keys.get(place)
        if found is None:
            found = self._keys[place] = len(self._keys)
        return found


def _array(array: Array, write: bool) -> Access:
    """The bytes of an array's elements."""
    block = array.block
    key = (block.context.context_id, block.serial)
    begin, end, rows = bytes_of(array.address, array.shape, array.strides, array.dtype.size_bytes)
    return Access(key, begin, end, write, rows)


def _side(side: Side, size: int, write: bool) -> list[Access]:
    if side.context is None:
        return []
    owner = side.owner
    if getattr(owner, "__tops_array__", False) and not owner.is_contiguous:
        return [_array(owner, write)]
    block = getattr(owner, "block", owner)
    key = (side.context.context_id, block.serial)
    return [Access(key, side.address, side.address + size, write)]


def _tell(race: StreamRace, context: Context) -> None:
    second: Doing = race.second
    if not race.certain:
        second = second._replace(what=f"{second.what} (not checked: too many pieces to say if they meet)")
    _tell_pair(race.first, second, race.begin, race.end - race.begin, context)


def _tell_pair(first: Doing, second: Doing, address: int, size_bytes: int, context: Context) -> None:
    if HOOKS.kinds and HOOKS.wants(acts.STREAM_RACE):
        told = acts.StreamRaceActivity(
            first.what, second.what, address, size_bytes, second.submit_ns, context.device_id,
            first.correlation_id, second.correlation_id, first.stack, second.stack,
        )  # fmt: skip
        HOOKS.emit(acts.STREAM_RACE, told)
