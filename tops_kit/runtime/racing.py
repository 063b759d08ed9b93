"""Races between streams, told to who listens: which operations, on which bytes, from which lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tops_kit.gcu.races import Access, Mark, StreamRace, StreamRaces
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

_MOST_PIECES = 256  # of a view whose rows do not follow each other
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

    A kernel counts as using all of each array that it is given: give it slices. `unchecked`: accesses in more
    pieces than are looked at.
    """

    def __init__(self) -> None:
        self.unchecked = 0
        self._races = StreamRaces()
        self._keys: dict[tuple[int, int], int] = {}  # of (context, stream)

    def kernel(self, stream: Stream, plan: Plan, values: Sequence[Any], after: Sequence[Operation]) -> None:
        """A kernel is given to a stream."""
        stores = set(plan.stored)
        accesses = [
            access for position in plan.arrays for access in self._array(values[position], position in stores)
        ]
        self._submit(stream, f"kernel {plan.name}", accesses, after)

    def copy(self, stream: Stream, into: Side, out_of: Side, size: int, after: Sequence[Operation]) -> None:
        """A copy is given to a stream."""
        accesses = [*self._side(out_of, size, False), *self._side(into, size, True)]
        self._submit(stream, f"copy of {size:,} bytes", accesses, after)

    def fill(self, stream: Stream, side: Side, size: int, after: Sequence[Operation]) -> None:
        """A fill is given to a stream."""
        self._submit(stream, f"memset of {size:,} bytes", [*self._side(side, size, True)], after)

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
            self._tell(race, context)

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

    def _array(self, array: Array, write: bool) -> list[Access]:
        """The bytes of an array, row by row where they do not follow each other."""
        block = array.block
        key = (block.context.context_id, block.serial)
        pieces = _pieces(array.address, array.shape, array.strides, array.dtype.size_bytes)
        if pieces is None:
            self.unchecked += 1
            return []
        return [Access(key, begin, end, write) for begin, end in pieces]

    def _side(self, side: Side, size: int, write: bool) -> list[Access]:
        if side.context is None:
            return []
        owner = side.owner
        if getattr(owner, "__tops_array__", False):
            return self._array(owner, write)
        block = getattr(owner, "block", owner)
        key = (side.context.context_id, block.serial)
        return [Access(key, side.address, side.address + size, write)]

    def _tell(self, race: StreamRace, context: Context) -> None:
        first: Doing = race.first
        second: Doing = race.second
        if HOOKS.kinds and HOOKS.wants(acts.STREAM_RACE):
            told = acts.StreamRaceActivity(
                first.what, second.what, race.begin, race.end - race.begin, second.submit_ns,
                context.device_id, first.correlation_id, second.correlation_id, first.stack,
                second.stack,
            )  # fmt: skip
            HOOKS.emit(acts.STREAM_RACE, told)


def _pieces(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], size_bytes: int
) -> list[tuple[int, int]] | None:
    """Runs of bytes that elements of a view lie in; None: there are too many."""
    if 0 in shape:
        return []
    axes = sorted(
        ((abs(stride), extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent > 1),
    )
    run = size_bytes
    while axes and axes[0][0] <= run:
        step, extent, stride = axes.pop(0)
        if stride < 0:
            address += stride * (extent - 1)
        run += step * (extent - 1)
    begins = [address]
    for _, extent, stride in axes:
        if len(begins) * extent > _MOST_PIECES:
            return None
        begins = [begin + k * stride for begin in begins for k in range(extent)]
    return [(begin, begin + run) for begin in begins]
