"""Imports Perfetto protobuf traces: track events (slices, instants, counters), flows, and the names of
tracks.

The file is read in stretches of whole packets, each decoded as columns; begins without an end are carried
over to the next stretch. Kernel scheduling, samples and heap profiles are counted as unsupported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.errors import TraceError
from tops_kit.session.schema import TABLES
from topsprof import interchange
from topsprof.importers import perfetto_events, perfetto_rows
from topsprof.importers.base import ImportOptions, Source, Tally
from topsprof.importers.pairing import pair
from topsprof.importers.perfetto_annotations import Annotations
from topsprof.importers.perfetto_counters import CounterRows
from topsprof.importers.perfetto_events import BEGIN, COMPLETE, END, Events, Stretch
from topsprof.importers.perfetto_flows import FlowLinks
from topsprof.importers.perfetto_packets import DESCRIPTOR, PROCESS_TREE, PacketReader, inflated
from topsprof.importers.perfetto_tracks import Tracks
from topsprof.importers.wire import LENGTH, Bytes, Int64s, fields, split

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

STRETCH_BYTES = 16 << 20
_PACKET_TAG = 0x0A
_HIGHEST_FIELD = 1 << 11  # TracePacket has no field beyond; extensions stay far below as well


class PerfettoImporter:
    """Perfetto's own format, `.pftrace` or `.perfetto-trace`."""

    name = "perfetto"
    suffixes = (".pftrace", ".perfetto-trace")

    def detects(self, head: bytes, path: Path) -> bool:
        if not head or head[0] != _PACKET_TAG:
            return False
        buffer = np.frombuffer(head, np.uint8)
        starts, ends, after = split(buffer, 0, len(buffer), 1)
        if not len(starts):
            return path.name.removesuffix(".gz").removesuffix(".zst").endswith(self.suffixes)
        found = fields(buffer, starts, ends)
        return (
            after >= 0
            and not found.damaged
            and bool((found.field < _HIGHEST_FIELD).all())
            and len(found.row) > 0
        )

    def run(self, source: Source, writer: SessionWriter, options: ImportOptions) -> None:
        reading = _Import(writer, options, Tally(writer.ledger, self.name, source, options))
        for buffer, starts, ends in stretches(
            source, reading.tally, min(STRETCH_BYTES, options.memory_bytes // 16)
        ):
            reading.take(buffer, starts, ends)
        if not reading.packets:
            raise TraceError(f"{source.path}: no Perfetto packet can be read; check that the file is whole")
        reading.finish()


def stretches(source: Source, tally: Tally, size: int) -> Iterator[tuple[Bytes, Int64s, Int64s]]:
    """The packets of a file, in stretches of about `size` bytes."""
    rest = b""
    with source.open() as stream:
        while True:
            piece = stream.read(max(size, len(rest)))
            data = rest + piece
            buffer = np.frombuffer(data, np.uint8)
            starts, ends, after = (
                split(buffer, 0, len(buffer), 1) if data else (np.empty(0, np.int64),) * 2 + (0,)
            )
            if len(starts):
                yield buffer, starts, ends
            if after < 0:
                tally.dropped(
                    "no_packet",
                    1,
                    f"no packet can begin {len(data) + after + 1} bytes before the place that was "
                    "read to; what follows is left out",
                )
                return
            rest = data[after:]
            if not piece:
                break
    if rest:
        tally.dropped("truncated_packet", 1, f"the last {len(rest)} bytes are no whole packet")
    if source.damage:
        tally.repaired("damaged_compression", 1, source.damage)


class _Import:
    """One import under way."""

    def __init__(self, writer: SessionWriter, options: ImportOptions, tally: Tally) -> None:
        self.tally = tally
        self.packets = 0
        self._writer = writer
        self._options = options
        self._reader = PacketReader(tally)
        self._tracks = Tracks()
        self._places = perfetto_rows.Places(self._tracks, options)
        self._counters = CounterRows(self._tracks, self._places, self._reader.pool)
        self._flows = FlowLinks()
        self._open = Events.empty()
        self._open_notes = Annotations.empty()
        self._last_ns = 0

    def take(self, buffer: Bytes, starts: Int64s, ends: Int64s) -> None:
        """Decode one stretch and write what is complete."""
        buffer, starts, ends, damaged = inflated(buffer, starts, ends)
        self.tally.dropped("damaged_compressed_packets", damaged)
        self.packets += len(starts)
        packets = self._reader.read(buffer, starts, ends)
        for number, learn in ((DESCRIPTOR, self._tracks.describe), (PROCESS_TREE, self._tracks.process_tree)):
            spans = packets.fields.where(number, LENGTH)
            for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
                learn(buffer, start, end)
        stretch = perfetto_events.read(self._reader, packets, self.tally)
        self._slices(stretch)
        for columns in self._counters.columns(stretch):
            self._writer.append("counter", columns)
            self.tally.written(len(columns["start_ns"]))
        flows = stretch.flows
        if len(flows.event):
            tracks = stretch.events.track[flows.event]
            process, own, _ = self._places.of(tracks)
            thread = np.asarray(pc.coalesce(self._places.owners(tracks)[1], pa.array(own)))
            self._flows.add(flows, stretch.events.time_ns[flows.event], process, thread)

    def _slices(self, stretch: Stretch) -> None:
        carried = len(self._open)
        events = Events.concat(self._open, stretch.events)
        notes = stretch.annotations.take(np.flatnonzero(stretch.annotations.event < len(stretch.events)))
        notes = Annotations.concat([self._open_notes, notes.moved(notes.event + carried)])
        for last in (events.time_ns + events.duration_ns, stretch.counters.time_ns):
            if len(last):
                self._last_ns = max(self._last_ns, int(last.max()))
        paired = np.flatnonzero((events.type == BEGIN) | (events.type == END))
        pairs = pair(events.track[paired], events.time_ns[paired], events.type[paired] == BEGIN)
        begin, end = paired[pairs.begin], paired[pairs.end]
        self.tally.dropped("end_without_begin", len(pairs.unmatched))
        duration = events.duration_ns.copy()
        duration[begin] = events.time_ns[end] - events.time_ns[begin]
        # What an end says of its slice is the slice's.
        owner = np.arange(len(events))
        owner[end] = begin
        notes = notes.moved(owner[notes.event])
        done = np.ones(len(events), bool)
        done[paired] = False
        done[begin] = True
        self._write(events, duration, np.flatnonzero(done), notes, finished=True)
        still = paired[pairs.open]
        self._open, self._open_notes = events.take(still), _of(notes, still, len(events))

    def _write(
        self, events: Events, duration: Int64s, rows: Int64s, notes: Annotations, finished: bool
    ) -> None:
        part = events.take(rows)
        if not len(part):
            return
        state = np.full(len(part), finished)
        for table, columns in perfetto_rows.slices(
            part, duration[rows], state, _of(notes, rows, len(events)), self._reader.pool, places=self._places
        ):
            if "args" in columns and isinstance(columns["args"], pa.Array):
                columns["args"] = columns["args"].cast(pa.string())
            if "name" in columns and "name" not in TABLES[table].column_names:
                del columns["name"]  # rows of such tables are called as the table
            self._writer.append(table, columns)
            self.tally.written(len(columns["start_ns"]))

    def finish(self) -> None:
        """Close what is open, and write what is known only at the end."""
        left = len(self._open)
        self.tally.repaired("begin_without_end", left, "they end with the trace")
        duration = np.maximum(self._last_ns - self._open.time_ns, 0)
        self._write(self._open, duration, np.arange(left), self._open_notes, finished=False)
        links = self._flows.links()
        if links is not None:
            self._writer.append("link", links)
        processes, threads = self._tracks.rows()
        if processes:
            table = pa.Table.from_pylist(processes)
            keys = [self._options.process_id(one["pid"]) for one in processes]
            parents = [
                None if one["parent_id"] is None else self._options.process_id(one["parent_id"])
                for one in processes
            ]
            columns = {name: table[name] for name in ("pid", "name", "labels", "command", "sort_index")}
            if self._options.rank is not None:
                columns["rank"] = pa.array([self._options.rank] * len(keys))
            self._writer.append(
                "process", {**columns, "process_id": keys, "parent_id": pa.array(parents, pa.int64())}
            )
        named = {(one["pid"], one["thread_id"]) for one in threads}
        threads += [
            {"pid": pid, "thread_id": tid, "name": name, "sort_index": None}
            for (pid, tid), name in self._places.used_names.items()
            if name and (pid, tid) not in named and not name.startswith(interchange.PREFIX)
        ]
        if threads:
            self._writer.append(
                "thread",
                {
                    "process_id": [self._options.process_id(one["pid"]) for one in threads],
                    "thread_id": [one["thread_id"] for one in threads],
                    "name": [one["name"] for one in threads],
                    "sort_index": pa.array([one["sort_index"] for one in threads], pa.int64()),
                },
            )


def _of(notes: Annotations, rows: Int64s, count: int) -> Annotations:
    """The annotations of those events, numbered like them."""
    place = np.full(count, -1, np.int64)
    place[rows] = np.arange(len(rows))
    kept = notes.take(np.flatnonzero(place[notes.event] >= 0))
    return kept.moved(place[kept.event])


__all__ = ["COMPLETE", "PerfettoImporter", "stretches"]
