"""Packets of a Perfetto trace: per packet, the state of its sequence that it relies on, and its time.

A sequence (one writer) interns strings and sets defaults; it clears that state from time to time, and a lost
packet makes it unknown until it does. Everything here is columns over packets, except for the packets that
change a state.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from topsprof.importers.perfetto_clocks import BOOTTIME, Clocks, ClockValue, Key, SequenceClocks, key_of
from topsprof.importers.perfetto_names import Interned, Pool
from topsprof.importers.perfetto_tracks import Message
from topsprof.importers.wire import LENGTH, Bytes, Fields, Int64s, Uint64s, fields, split, texts

if TYPE_CHECKING:
    from topsprof.importers.base import Tally

# Fields of TracePacket
FTRACE, PROCESS_TREE, CLOCK_SNAPSHOT, STAMP, SEQUENCE, TRACK_EVENT, INTERNED, FLAGS = (
    1,
    2,
    6,
    8,
    10,
    11,
    12,
    13,
)
CLEARED_FLAG, DROPPED, COMPRESSED, CLOCK, DEFAULTS, DESCRIPTOR = 41, 42, 50, 58, 59, 60
UNSUPPORTED = {
    FTRACE: "ftrace_bundle",
    7: "sys_stats",
    9: "process_stats",
    37: "heap_profile",
    54: "streaming_profile",
    66: "perf_sample",
    43: "process_descriptor",
    44: "thread_descriptor",
}
STATE_CLEARED, STATE_NEEDED = 1, 2


@dataclass
class Sequence:
    """What is known of one writer between its packets."""

    number: int
    generation: int = -1  # of its incremental state; -1: it has none yet, or a packet was lost
    clock: int = 0
    track: int = 0
    counters: list[int] = field(default_factory=list)
    double_counters: list[int] = field(default_factory=list)
    clocks: SequenceClocks = field(default_factory=SequenceClocks)

    def clear(self, generation: int) -> None:
        self.generation = generation
        self.clock = self.track = 0
        self.counters, self.double_counters = [], []

    def set_defaults(self, buffer: Bytes, start: int, end: int) -> None:
        message = Message.read(buffer, start, end)
        self.clock = message.integer(CLOCK)
        for event in message.messages(11):
            self.track = event.integer(11) & (1 << 64) - 1
            self.counters = [value for value in event.values.get(31, []) if isinstance(value, int)]
            self.double_counters = [value for value in event.values.get(45, []) if isinstance(value, int)]


@dataclass
class Packets:
    """The packets of one stretch of a trace. Arrays have one entry a packet."""

    buffer: Bytes
    fields: Fields
    count: int
    sequence: Int64s
    generation: Int64s
    usable: npt.NDArray[np.bool_]  # not: it relies on a state that is not known
    time_ns: Int64s
    timed: npt.NDArray[np.bool_]
    track: Uint64s  # the track of an event that names none
    extra_counters: dict[
        int, tuple[list[int], list[int]]
    ]  # sequence -> default extra counter tracks, int and double


class PacketReader:
    """Follows the state of all sequences through a trace."""

    def __init__(self, tally: Tally) -> None:
        self.pool = Pool()
        self.categories, self.names, self.keys, self.strings = Interned(), Interned(), Interned(), Interned()
        self.clocks = Clocks()
        self.sequences: dict[int, Sequence] = {}
        self._tally = tally
        self._generations = 0

    def read(self, buffer: Bytes, starts: Int64s, ends: Int64s) -> Packets:
        """Take in the packets `buffer[starts[i]:ends[i]]`."""
        found = fields(buffer, starts, ends)
        self._tally.repaired("damaged_packet", found.damaged, "the fields before the damage are kept")
        n = len(starts)
        for number, code in UNSUPPORTED.items():
            self._tally.unsupported(code, int((found.field == number).sum()))
        sequence = found.scalar(n, SEQUENCE)[0].astype(np.int64)
        stamp, timed = found.scalar(n, STAMP)
        snapshots = self._snapshots(buffer, found, sequence)
        packets = Packets(
            buffer,
            found,
            n,
            sequence,
            np.full(n, -1, np.int64),
            np.ones(n, bool),
            stamp.astype(np.int64),
            timed,
            np.zeros(n, np.uint64),
            {},
        )
        clock = found.scalar(n, CLOCK)[0].astype(np.int64)
        self._follow(packets, clock, stamp, snapshots)
        self._intern(packets)
        return packets

    def _snapshots(self, buffer: Bytes, found: Fields, sequence: Int64s) -> dict[int, dict[int, ClockValue]]:
        """Clock snapshots by packet; each is few and read by itself."""
        out: dict[int, dict[int, ClockValue]] = {}
        spans = found.where(CLOCK_SNAPSHOT, LENGTH)
        for row, start, end in zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True):
            message = Message.read(buffer, start, end)
            values: dict[Key, ClockValue] = {}
            for clock in message.messages(1):
                multiplier = clock.integer(4, 1) or 1
                value = ClockValue(clock.integer(2) * multiplier, multiplier, bool(clock.integer(3)))
                values[key_of(int(sequence[row]), clock.integer(1))] = value
            self.clocks.add(values, message.integer(2))
            out[row] = {clock: value for (_, clock), value in values.items()}
        return out

    def _follow(
        self, packets: Packets, clock: Int64s, stamp: Uint64s, snapshots: dict[int, dict[int, ClockValue]]
    ) -> None:
        """Fill in what each packet inherits from its sequence, between the packets that change it."""
        found, n = packets.fields, packets.count
        flags = found.scalar(n, FLAGS)[0].astype(np.int64)
        cleared = (flags & STATE_CLEARED > 0) | (found.scalar(n, CLEARED_FLAG)[0] > 0)
        lost = (found.scalar(n, DROPPED)[0] > 0) & ~cleared
        start, end, defaults = found.span(n, DEFAULTS)
        changes = cleared | lost | defaults
        changes[list(snapshots)] = True
        needs = flags & STATE_NEEDED > 0
        order = np.argsort(packets.sequence, kind="stable")
        borders = np.flatnonzero(np.diff(packets.sequence[order], prepend=-1))
        groups = np.split(order, borders[1:]) if len(order) else []
        odd: dict[str, int] = {}
        for group in groups:
            number = int(packets.sequence[group[0]])
            state = self.sequences.setdefault(number, Sequence(number))
            for part in np.split(group, np.flatnonzero(changes[group])):
                if not len(part):
                    continue
                first = int(part[0])
                if cleared[first]:
                    self._generations += 1
                    state.clear(self._generations)
                elif lost[first]:
                    state.generation = -1
                if defaults[first]:
                    state.set_defaults(packets.buffer, int(start[first]), int(end[first]))
                for key, value in snapshots.get(first, {}).items():
                    state.clocks.define(key, value)
                packets.generation[part] = state.generation
                packets.track[part] = state.track
                if state.generation < 0:
                    packets.usable[part] = ~needs[part]
                self._time(packets, part, state, clock, stamp, odd=odd)
            packets.extra_counters[number] = (state.counters, state.double_counters)
        self._tally.dropped(
            "incremental_state_missing",
            int((~packets.usable).sum()),
            "packets that rely on state that a lost packet set",
        )
        for note, count in odd.items():
            self._tally.repaired("clock_without_snapshot", count, note)

    def _time(
        self,
        packets: Packets,
        part: Int64s,
        state: Sequence,
        clock: Int64s,
        stamp: Uint64s,
        *,
        odd: dict[str, int],
    ) -> None:
        part = part[packets.timed[part]]
        used = np.where(clock[part] > 0, clock[part], state.clock)
        for number in np.unique(used).tolist():
            rows = part[used == number]
            ns = (
                state.clocks.read(number, stamp[rows]) if 64 <= number < 128 else stamp[rows].astype(np.int64)
            )
            trace = self.clocks.to_trace(ns, key_of(state.number, number)) if number else ns
            if trace is None:
                trace = ns
                if number != BOOTTIME:
                    note = f"clock {number} is taken for the clock of the trace"
                    odd[note] = odd.get(note, 0) + len(rows)
            packets.time_ns[rows] = trace

    def _intern(self, packets: Packets) -> None:
        spans = packets.fields.where(INTERNED, LENGTH)
        live = {state.generation for state in self.sequences.values()} | set(
            np.unique(packets.generation).tolist()
        )
        tables = ((1, self.categories), (2, self.names), (3, self.keys), (29, self.strings))
        for _, table in tables:
            table.keep(live)
        if not len(spans.row):
            return
        inner = fields(packets.buffer, spans.start, spans.end)
        for number, table in tables:
            entries = inner.where(number, LENGTH)
            if not len(entries.row):
                continue
            parts = fields(packets.buffer, entries.start, entries.end)
            iid, _ = parts.scalar(len(entries.row), 1)
            start, end, _ = parts.span(len(entries.row), 2)
            text, bad = texts(packets.buffer, start, end)
            self._tally.repaired("bad_utf8", bad)
            table.add(packets.generation[spans.row[entries.row]], iid, self.pool.codes(text))


def inflated(buffer: Bytes, starts: Int64s, ends: Int64s) -> tuple[Bytes, Int64s, Int64s, int]:
    """The packets with those that are compressed (each holds many) unpacked in their place; and how many were
    damaged."""
    found = fields(buffer, starts, ends).where(COMPRESSED, LENGTH)
    if not len(found.row):
        return buffer, starts, ends, 0
    pieces: list[Bytes] = []
    spans: list[tuple[Int64s, Int64s]] = []
    size, damaged, done = 0, 0, 0

    def add(piece: Bytes, begin: Int64s, stop: Int64s) -> None:
        nonlocal size
        pieces.append(piece)
        spans.append((begin + size, stop + size))
        size += len(piece)

    base = buffer
    add(base, starts[:0], ends[:0])
    for row, start, end in zip(found.row.tolist(), found.start.tolist(), found.end.tolist(), strict=True):
        spans.append((starts[done:row], ends[done:row]))
        done = row + 1
        try:
            raw = np.frombuffer(zlib.decompress(buffer[start:end].data), np.uint8)
        except zlib.error:
            damaged += 1
            continue
        begin, stop, after = split(raw, 0, len(raw), 1)
        damaged += after != len(raw)
        add(raw, begin, stop)
    spans.append((starts[done:], ends[done:]))
    return (
        np.concatenate(pieces),
        np.concatenate([span[0] for span in spans]),
        np.concatenate([span[1] for span in spans]),
        damaged,
    )
