"""Streams that race: two operations touch the same bytes, one of them writes, and nothing puts them in order.

Order comes from streams, from events, and from the host where it has waited. Each stream has a vector clock:
up to which position of each other stream all comes before its next operation. It changes only where something
waits, so an operation costs little more than a look at who touched its allocations last. All host threads
count as one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from tops_kit.gcu.strided import Bytes, Rows, Undecided, meeting

_KEPT = 256  # accesses remembered of one allocation
_REPORTED = 10_000  # races remembered, so that each is reported once
_NONE: Mapping[int, int] = MappingProxyType({})


class Access(NamedTuple):
    """What an operation does to bytes `begin` to `end` (of these, to `rows`) of an allocation.

    Any hashable value names an allocation.
    """

    allocation: Hashable
    begin: int
    end: int
    write: bool
    rows: Rows | None = None


class Mark(NamedTuple):
    """A place in a stream: what an event records."""

    stream: int
    position: int  # in the stream
    known: Mapping[int, int]  # of other streams


class _Touch:
    """An access as it is remembered: by which operation of which stream."""

    __slots__ = ("begin", "end", "name", "position", "rows", "stream", "tag", "write")

    def __init__(self, access: Access, stream: int, position: int) -> None:
        _, self.begin, self.end, self.write, self.rows = access
        self.stream = stream
        self.position = position
        self.name: Hashable = None
        self.tag: Any = None


@dataclass(frozen=True)
class StreamRace:
    """Two operations without an order, by their tags; both touch bytes `begin` to `end` of the allocation.

    Not `certain`: they touch so many pieces between `begin` and `end` that nobody looked whether these meet.
    """

    allocation: Hashable
    begin: int
    end: int
    first: Any
    first_stream: int
    first_writes: bool
    second: Any
    second_stream: int
    second_writes: bool
    certain: bool = True


class _Clock:
    __slots__ = ("host_version", "known", "position")

    def __init__(self) -> None:
        self.position = 0  # grows with each operation, and whenever it learns of others
        self.known: Mapping[int, int] = _NONE  # shared with marks, so never changed in place
        self.host_version = 0  # what the host knew when this stream last heard of it


class StreamRaces:
    """Finds them as operations are submitted. Streams are numbers, unique while the program runs."""

    def __init__(self) -> None:
        self.forgotten = 0  # accesses dropped because an allocation had too many: races with them are missed
        self.repeated = 0  # races like one that was reported
        self._clocks: dict[int, _Clock] = {}
        self._host: dict[int, int] = {}  # what the host has waited for
        self._host_version = 0
        self._touched: dict[Hashable, list[_Touch]] = {}
        self._reported: set[Hashable] = set()

    def submit(
        self, stream: int, accesses: Iterable[Access], tag: Any, name: Hashable = None
    ) -> list[StreamRace]:
        """An operation of a stream, and the races it has with earlier ones.

        `name` says what is the same to a person: of two names and an allocation only the first race is
        returned.
        """
        clock = self._clock(stream)
        if clock.host_version != self._host_version:
            clock.host_version = self._host_version
            self._learn(stream, clock, self._host)
        clock.position += 1
        races: list[StreamRace] = []
        for access in accesses:
            allocation, begin, end, write, rows = access
            if begin >= end:
                continue
            held = self._touched.get(allocation)
            if held is None:
                held = self._touched[allocation] = []
            elif len(held) == 1:
                touch = held[0]
                if (
                    touch.stream == stream
                    and touch.begin == begin
                    and touch.end == end
                    and touch.write == write
                    and touch.rows == rows
                ):  # one stream does the same again and again
                    touch.position, touch.name, touch.tag = clock.position, name, tag
                    continue
            touch = _Touch(access, stream, clock.position)
            touch.name, touch.tag = name, tag
            if held:
                for old in self._put(held, touch, clock):
                    self._report(allocation, old, touch, races)
            held.append(touch)
        return races

    def mark(self, stream: int) -> Mark:
        """What comes before an event that is recorded now."""
        clock = self._clock(stream)
        if clock.host_version != self._host_version:
            clock.host_version = self._host_version
            self._learn(stream, clock, self._host)
        return Mark(stream, clock.position, clock.known)

    def wait(self, stream: int, mark: Mark) -> None:
        """What a stream does from now on comes after a mark: an event, or a stream by the legacy rule."""
        clock = self._clock(stream)
        if mark.stream != stream and clock.known.get(mark.stream, -1) < mark.position:
            self._learn(stream, clock, {**mark.known, mark.stream: mark.position})

    def host_waits(self, mark: Mark) -> None:
        """All that the host submits from now on comes after a mark."""
        if self._host.get(mark.stream, -1) < mark.position:
            for stream, position in (*mark.known.items(), (mark.stream, mark.position)):
                if self._host.get(stream, -1) < position:
                    self._host[stream] = position
            self._host_version += 1

    def host_waits_for_all(self, streams: Iterable[int] | None = None) -> None:
        """The host has waited for some streams, or for all of all devices."""
        for stream in list(self._clocks) if streams is None else streams:
            self.host_waits(self.mark(stream))

    def forget(self, allocation: Hashable) -> None:
        """An allocation is no more."""
        self._touched.pop(allocation, None)

    def forget_stream(self, stream: int) -> None:
        """A stream is no more; what it did counts as done."""
        self._clocks.pop(stream, None)
        self._host.pop(stream, None)

    def _clock(self, stream: int) -> _Clock:
        clock = self._clocks.get(stream)
        if clock is None:
            clock = self._clocks[stream] = _Clock()
        return clock

    def _learn(self, stream: int, clock: _Clock, news: Mapping[int, int]) -> None:
        known = {other: position for other, position in clock.known.items() if other in self._clocks}
        for other, position in news.items():
            if other != stream and known.get(other, -1) < position and other in self._clocks:
                known[other] = position
        clock.known = known
        clock.position += 1  # marks of one position know the same

    def _put(self, held: list[_Touch], now: _Touch, clock: _Clock) -> list[_Touch]:
        """What an access races with; and it takes the place of those that it stands for.

        What is unordered with one of them is unordered with this one, too, and touches it.
        """
        races = []
        kept = []
        begin, end, write, stream = now.begin, now.end, now.write, now.stream
        for old in held:
            before = (
                old.stream == stream
                or clock.known.get(old.stream, 0) >= old.position
                or old.stream not in self._clocks
            )
            if not before and (write or old.write) and old.begin < end and begin < old.end:
                races.append(old)
            stands_for = now.rows is None or (begin == old.begin and now.rows == old.rows)
            if not (
                before and stands_for and begin <= old.begin and old.end <= end and (write or not old.write)
            ):
                kept.append(old)
        if len(kept) >= _KEPT:
            # what the host has waited for comes before all that will be
            kept = [old for old in kept if self._host.get(old.stream, 0) < old.position]
            if len(kept) >= _KEPT:
                del kept[0]
                self.forgotten += 1
        held[:] = kept
        return races

    def _report(self, allocation: Hashable, old: _Touch, now: _Touch, races: list[StreamRace]) -> None:
        begin, end = max(old.begin, now.begin), min(old.end, now.end)
        certain = True
        try:
            shared = meeting(Bytes(old.begin, old.end, old.rows), Bytes(now.begin, now.end, now.rows))
        except Undecided:
            certain = False
        else:
            if shared is None:
                return
            begin, end = shared
        key = (allocation, old.write, now.write, old.name, now.name, certain)
        if key in self._reported or len(self._reported) >= _REPORTED:
            self.repeated += 1
            return
        self._reported.add(key)
        race = StreamRace(
            allocation, begin, end, old.tag, old.stream, old.write, now.tag, now.stream, now.write, certain
        )
        races.append(race)
