"""Streams that race: two operations touch the same bytes, one of them writes, and nothing puts them in order.

Order comes from streams, from events, and from the host where it has waited. Each stream has a vector clock:
up to which position of each other stream all comes before its next operation. It changes only where something
waits, so an operation costs little more than a look at who touched its allocations last. All host threads count
as one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

_KEPT = 256  # accesses remembered of one allocation
_REPORTED = 10_000  # races remembered, so that each is reported once
_NONE: Mapping[int, int] = MappingProxyType({})


class Access(NamedTuple):
    """What an operation does to bytes `begin` to `end` of an allocation, which any hashable value names."""

    allocation: Hashable
    begin: int
    end: int
    write: bool


class Mark(NamedTuple):
    """A place in a stream: what an event records."""

    stream: int
    position: int  # in the stream
    known: Mapping[int, int]  # of other streams


class Touch(NamedTuple):
    """An access as it is remembered: by which operation of which stream."""

    begin: int
    end: int
    write: bool
    stream: int
    position: int
    name: Hashable
    tag: Any


@dataclass(frozen=True)
class StreamRace:
    """Two operations without an order, by their tags; both touch bytes `begin` to `end` of the allocation."""

    allocation: Hashable
    begin: int
    end: int
    first: Any
    first_stream: int
    first_writes: bool
    second: Any
    second_stream: int
    second_writes: bool


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
        self._touched: dict[Hashable, list[Touch]] = {}
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
            allocation, begin, end, write = access
            if begin >= end:
                continue
            touch = Touch(begin, end, write, stream, clock.position, name, tag)
            held = self._touched.get(allocation)
            if held is None:
                self._touched[allocation] = [touch]
                continue
            last = held[-1]
            if len(held) == 1 and last.stream == stream and (begin, end, write) == last[:3]:
                held[0] = touch  # one stream works on it again and again
                continue
            for race in self._against(held, touch, allocation, clock):
                self._report(race, touch.name, races)
            self._keep(held, touch, clock)
        return races

    def mark(self, stream: int) -> Mark:
        """What comes before an event that is recorded now."""
        clock = self._clock(stream)
        if clock.host_version != self._host_version:
            clock.host_version = self._host_version
            self._learn(stream, clock, self._host)
        return Mark(stream, clock.position, clock.known)

    def wait(self, stream: int, mark: Mark) -> None:
        """What a stream does from now on comes after a mark: an event, or another stream by the legacy rule."""
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

    def _before(self, touch: Touch, stream: int, clock: _Clock) -> bool:
        """Whether an earlier access comes before what the stream does now."""
        return (
            touch.stream == stream
            or clock.known.get(touch.stream, 0) >= touch.position
            or touch.stream not in self._clocks
        )

    def _against(
        self, held: list[Touch], now: Touch, allocation: Hashable, clock: _Clock
    ) -> list[tuple[StreamRace, Touch]]:
        out = []
        for old in held:
            if (
                (now.write or old.write)
                and old.begin < now.end
                and now.begin < old.end
                and not self._before(old, now.stream, clock)
            ):
                begin, end = max(old.begin, now.begin), min(old.end, now.end)
                race = StreamRace(
                    allocation, begin, end, old.tag, old.stream, old.write, now.tag, now.stream, now.write
                )
                out.append((race, old))
        return out

    def _report(self, found: tuple[StreamRace, Touch], name: Hashable, races: list[StreamRace]) -> None:
        race, old = found
        key = (race.allocation, race.first_writes, race.second_writes, old.name, name)
        if key in self._reported:
            self.repeated += 1
            return
        if len(self._reported) < _REPORTED:
            self._reported.add(key)
            races.append(race)
        else:
            self.repeated += 1

    def _keep(self, held: list[Touch], now: Touch, clock: _Clock) -> None:
        """Remembers an access, in place of those that it stands for.

        What is unordered with one of them is unordered with this one, too, and touches it.
        """
        held[:] = [
            old
            for old in held
            if not (
                now.begin <= old.begin
                and old.end <= now.end
                and (now.write or not old.write)
                and self._before(old, now.stream, clock)
            )
        ]
        held.append(now)
        if len(held) > _KEPT:
            # what the host has waited for comes before all that will be
            held[:] = [old for old in held if self._host.get(old.stream, 0) < old.position]
            if len(held) > _KEPT:
                del held[0]
                self.forgotten += 1
