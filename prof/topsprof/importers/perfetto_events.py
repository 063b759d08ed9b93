"""Track events of a Perfetto trace as columns: one row an event, its counters, flows and annotations beside
it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from topsprof.importers import perfetto_annotations
from topsprof.importers.perfetto_annotations import Annotations
from topsprof.importers.perfetto_names import NONE
from topsprof.importers.wire import LENGTH, Bytes, Fields, Int64s, Uint64s, fields, repeated, texts

if TYPE_CHECKING:
    from topsprof.importers.base import Tally
    from topsprof.importers.perfetto_packets import PacketReader, Packets

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
COMPLETE = 100  # ours: a begin that brings its duration (Chrome's X)
_LEGACY = {
    ord("B"): BEGIN,
    ord("E"): END,
    ord("I"): INSTANT,
    ord("i"): INSTANT,
    ord("R"): INSTANT,
    ord("X"): COMPLETE,
}


@dataclass(frozen=True, slots=True)
class Events:
    """Slices and instants of one stretch. `track` is an uuid; `name` and `category` are numbers in the
    pool."""

    time_ns: Int64s
    type: npt.NDArray[np.uint8]
    track: Uint64s
    name: npt.NDArray[np.int32]
    category: npt.NDArray[np.int32]
    duration_ns: Int64s  # of COMPLETE events

    def __len__(self) -> int:
        return len(self.time_ns)

    def take(self, index: npt.NDArray[Any]) -> Events:
        return Events(
            self.time_ns[index],
            self.type[index],
            self.track[index],
            self.name[index],
            self.category[index],
            self.duration_ns[index],
        )

    @staticmethod
    def concat(one: Events, other: Events) -> Events:
        return Events(
            *(np.concatenate((getattr(one, name), getattr(other, name))) for name in Events.__slots__)
        )

    @staticmethod
    def empty() -> Events:
        none = np.empty(0, np.int64)
        return Events(
            none,
            none.astype(np.uint8),
            none.astype(np.uint64),
            none.astype(np.int32),
            none.astype(np.int32),
            none,
        )


@dataclass(frozen=True, slots=True)
class Counters:
    """Values of counter tracks in the order of the file; incremental ones are still differences."""

    time_ns: Int64s
    track: Uint64s
    value: npt.NDArray[np.float64]
    generation: Int64s
    event: Int64s  # row in Stretch.annotations of its annotations, -1: none


@dataclass(frozen=True, slots=True)
class Flows:
    """Flow ids that events carry; `ends` where the flow ends there."""

    event: Int64s
    flow: Uint64s
    ends: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Stretch:
    """All track events of one stretch of a trace. `annotations` and `flows` point at rows of `events`, or,
    for counters, at rows after them."""

    events: Events
    counters: Counters
    flows: Flows
    annotations: Annotations


def read(reader: PacketReader, packets: Packets, tally: Tally) -> Stretch:
    """The track events of those packets. What can't be kept is counted."""
    spans = packets.fields.where(11, LENGTH)
    untimed = ~packets.timed[spans.row]
    tally.unsupported(
        "event_without_timestamp", int(untimed.sum()), "events timed by a thread's descriptor (before 2020)"
    )
    spans = spans.take(np.flatnonzero(packets.usable[spans.row] & ~untimed))
    n = len(spans.row)
    tally.read(n)
    buffer, generation = packets.buffer, packets.generation[spans.row]
    found = fields(buffer, spans.start, spans.end)
    tally.repaired("damaged_event", found.damaged)

    time_ns = packets.time_ns[spans.row]
    type_ = found.scalar(n, 9)[0].astype(np.uint8)
    track, has_track = found.scalar(n, 11)
    track = np.where(has_track, track, packets.track[spans.row])
    iid, has = found.scalar(n, 10)
    name = np.full(n, NONE, np.int32)
    name[has] = reader.names.lookup(generation[has], iid[has])
    undefined = int((name[has] == NONE).sum())
    tally.repaired(
        "undefined_name", undefined, "an interned name that the trace does not define is left empty"
    )
    start, end, has = found.span(n, 23)
    if has.any():
        inline, bad = texts(buffer, start[has], end[has])
        tally.repaired("bad_utf8", bad)
        name[has] = reader.pool.codes(inline)
    category = _categories(reader, buffer, found, generation)
    duration = np.zeros(n, np.int64)
    if (found.field == 6).any():
        name, duration, type_ = _legacy(reader, buffer, found, generation, name=name, type_=type_)

    notes = found.where(4, LENGTH)
    annotations = perfetto_annotations.decode(
        buffer,
        notes.row,
        notes.start,
        notes.end,
        generation[notes.row],
        pool=reader.pool,
        names=reader.keys,
        strings=reader.strings,
    )
    tally.unsupported("annotation", annotations.unsupported, "messages nested in debug annotations")
    tally.repaired("damaged_annotation", annotations.repaired)

    kept = np.isin(type_, (BEGIN, END, INSTANT, COMPLETE))
    counting = type_ == COUNTER
    tally.unsupported(
        "event_type", int((~kept & ~counting).sum()), "async, object and memory phases of old Chrome, states"
    )
    events = Events(time_ns, type_, track.astype(np.uint64), name, category, duration)
    counters = _counters(
        packets, buffer, found, spans, events, counting=counting, generation=generation, tally=tally
    )
    flows = _flows(buffer, found)
    # Events that are slices or instants first, then those that are counters.
    order = np.concatenate((np.flatnonzero(kept), np.flatnonzero(counting)))
    place = np.full(n, -1, np.int64)
    place[order] = np.arange(len(order))
    annotations = annotations.take(np.flatnonzero(place[annotations.event] >= 0))
    flow_kept = kept[flows.event]
    tally.unsupported("flow_of_counter", int((~flow_kept).sum()))
    flows = Flows(place[flows.event[flow_kept]], flows.flow[flow_kept], flows.ends[flow_kept])
    counters = replace(counters, event=np.where(counting[counters.event], place[counters.event], -1))
    return Stretch(
        events.take(np.flatnonzero(kept)), counters, flows, annotations.moved(place[annotations.event])
    )


def _categories(
    reader: PacketReader, buffer: Bytes, found: Fields, generation: Int64s
) -> npt.NDArray[np.int32]:
    """The category of each event; several are joined by commas."""
    n = len(generation)
    row, iid = repeated(buffer, found.where(3))
    code = reader.categories.lookup(generation[row], iid)
    inline = found.where(22, LENGTH)
    if len(inline.row):
        text, _ = texts(buffer, inline.start, inline.end)
        row = np.concatenate((row, inline.row))
        code = np.concatenate((code, reader.pool.codes(text)))
        order = np.argsort(row, kind="stable")
        row, code = row[order], code[order]
    out = np.full(n, NONE, np.int32)
    out[row] = code
    count = np.bincount(row, minlength=n)
    if len(count) and count.max() > 1:
        several = count > 1
        mine = several[row]
        words = reader.pool.array(code[mine]).dictionary_decode().fill_null("")
        rank = np.cumsum(several) - 1
        offsets = np.concatenate(([0], np.cumsum(count[several])))
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), words), ",")
        out[several] = reader.pool.codes(joined)[rank[several]]
    return out


def _legacy(
    reader: PacketReader,
    buffer: Bytes,
    found: Fields,
    generation: Int64s,
    *,
    name: npt.NDArray[np.int32],
    type_: npt.NDArray[np.uint8],
) -> tuple[Any, Any, Any]:
    """Events that carry a phase of Chrome's JSON instead of a type."""
    n = len(generation)
    spans = found.where(6, LENGTH)
    inner = fields(buffer, spans.start, spans.end)
    m = len(spans.row)
    phase, has = inner.scalar(m, 2)
    known = np.zeros(256, np.uint8)
    for code, ours in _LEGACY.items():
        known[code] = ours
    untyped = has & (type_[spans.row] == 0)
    type_[spans.row[untyped]] = known[np.minimum(phase[untyped], 255).astype(np.int64)]
    duration_us, has = inner.scalar(m, 3)
    duration = np.zeros(n, np.int64)
    duration[spans.row[has]] = duration_us[has].view(np.int64) * 1000
    iid, has = inner.scalar(m, 1)
    has &= name[spans.row] == NONE
    name[spans.row[has]] = reader.names.lookup(generation[spans.row[has]], iid[has])
    return name, duration, type_


def _counters(
    packets: Packets,
    buffer: Bytes,
    found: Fields,
    spans: Fields,
    events: Events,
    *,
    counting: npt.NDArray[np.bool_],
    generation: Int64s,
    tally: Tally,
) -> Counters:
    """Values of counter events, and the extra ones that any event may carry."""
    n = len(spans.row)
    whole, _ = found.scalar(n, 30)
    double, is_double = found.scalar(n, 44)
    value = np.where(is_double, double.view(np.float64), whole.view(np.int64).astype(np.float64))
    rows = [np.flatnonzero(counting)]
    tracks = [events.track[counting]]
    values = [value[counting]]
    for values_field, tracks_field, is_real in ((12, 31, False), (46, 45, True)):
        row, raw = repeated(buffer, found.where(values_field), packed_fixed=is_real)
        if not len(row):
            continue
        uuid, known = _extra_tracks(
            packets, buffer, found, spans, row, tracks_field=tracks_field, is_real=is_real
        )
        tally.dropped("extra_counter_without_track", int((~known).sum()))
        rows.append(row[known])
        tracks.append(uuid[known])
        values.append(
            raw.view(np.float64)[known] if is_real else raw.view(np.int64)[known].astype(np.float64)
        )
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    row = row[order]
    return Counters(
        events.time_ns[row],
        np.concatenate(tracks)[order],
        np.concatenate(values)[order],
        generation[row],
        row,
    )


def _extra_tracks(
    packets: Packets,
    buffer: Bytes,
    found: Fields,
    spans: Fields,
    row: Int64s,
    *,
    tracks_field: int,
    is_real: bool,
) -> tuple[Uint64s, npt.NDArray[np.bool_]]:
    """The track of each extra value: the k-th that its event names, else the k-th default of its sequence."""
    place = np.arange(len(row)) - np.searchsorted(row, row)
    named_row, named = repeated(buffer, found.where(tracks_field))
    uuid = np.zeros(len(row), np.uint64)
    first = np.searchsorted(named_row, row)
    count = np.searchsorted(named_row, row, "right") - first
    own = place < count
    uuid[own] = named[(first + place)[own]]
    known = own.copy()
    sequence = packets.sequence[spans.row[row]]
    unnamed = count == 0
    for number in np.unique(sequence[unnamed]).tolist():
        defaults = np.array(packets.extra_counters[number][is_real], np.uint64)
        mine = unnamed & (sequence == number) & (place < len(defaults))
        uuid[mine] = defaults[place[mine]]
        known |= mine
    return uuid, known


def _flows(buffer: Bytes, found: Fields) -> Flows:
    parts = []
    for number, fixed, last in ((47, True, False), (36, False, False), (48, True, True), (42, False, True)):
        row, flow = repeated(buffer, found.where(number), packed_fixed=fixed)
        parts.append((row, flow, np.full(len(row), last)))
    row, flow, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    return Flows(row[order], flow[order], ends[order])
