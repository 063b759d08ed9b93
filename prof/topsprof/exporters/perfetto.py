"""Exports to Perfetto's protobuf format: slices, instants, counters and links on described tracks.

One packet sequence, with interned names and a clock that counts ns from event to event, so a slice costs some
30 bytes. The bytes are assembled from columns, a stretch of events at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tops_kit.session.schema import Column, Kind
from topsprof import interchange
from topsprof.exporters import assemble as asm
from topsprof.exporters import timeline
from topsprof.exporters.base import Exported, ExportOptions, FileExporter, nothing
from topsprof.exporters.codes import combine
from topsprof.exporters.links import Arrow, attach
from topsprof.exporters.output import stream
from topsprof.exporters.perfetto_tracks import Descriptors
from topsprof.exporters.protobuf import encode, message, tag
from topsprof.exporters.timeline import NONE, Part

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session

Int64s = npt.NDArray[np.int64]

STRETCH_EVENTS = 1 << 19
_SEQUENCE = 1
_CLOCK = 64  # the first number that a sequence may give a clock of its own
_BOOTTIME = 6
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_INTERNED_AT_ONCE = 1000
_COUNTER_COLUMNS = ("process_id", "thread_id", "device_id", "domain", "name", "series", "unit")
"""what tells counters apart"""


class PerfettoExporter(FileExporter):
    """`.pftrace`, for ui.perfetto.dev and Perfetto's trace processor."""

    name = "perfetto"
    suffix = ".pftrace"
    help = "Perfetto's protobuf format, for ui.perfetto.dev (.pftrace)"
    text = False

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        exported = Exported()
        parts = timeline.load(session, selection, (Kind.INTERVAL, Kind.INSTANT))
        parts = timeline.without_samples(parts, exported)
        counters = timeline.load(session, selection, (Kind.COUNTER,))
        if not parts and not counters:
            raise nothing(session, "slice, instant or counter")
        with stream(out, options.compress) as file:
            _Writing(session, parts, counters, exported).write(file)
        return exported


class _Words:
    """Strings of one kind that the trace interns: numbers from 1 on."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, word: str) -> int:
        return self.numbers.setdefault(word, len(self.numbers) + 1)

    def of(self, column: pa.DictionaryArray) -> tuple[Int64s, npt.NDArray[np.bool_] | None]:
        """(number, present) of each row of a name column."""
        numbers = np.array(
            [self.number(word) if word is not None else 0 for word in column.dictionary.to_pylist()] + [0],
            np.int64,
        )
        codes = column.indices
        index = np.asarray(codes.fill_null(len(numbers) - 1) if codes.null_count else codes)
        out = numbers[index]
        return out, None if not codes.null_count else out > 0


class _Writing:
    """One export under way."""

    def __init__(self, session: Session, parts: list[Part], counters: list[Part], exported: Exported) -> None:
        self._session = session
        self._exported = exported
        self._names, self._categories, self._keys, self._strings = _Words(), _Words(), _Words(), _Words()
        self._tracks = Descriptors(session)
        self._line = timeline.lay_out(parts)
        self._uuid = np.array([self._tracks.slices(key) for key in self._line.tracks] or [0], np.int64)
        self._bodies = [self._fixed(part) for part in parts]
        self._instant = [part.table.kind is Kind.INSTANT for part in parts]
        self._counters = [(part.start_ns, self._counter(part)) for part in counters]
        self._arrows: Arrow = attach(session, self._line, exported)

    def write(self, file: BinaryIO) -> None:
        """Write the whole trace."""
        line = self._line
        slices, begins, time = timeline.switches(line.start_ns, line.end_ns)
        instant = np.array(self._instant or [False])[line.part[slices]] if len(slices) else np.empty(0, bool)
        kept = begins | ~instant
        slices, begins, time, instant = slices[kept], begins[kept], time[kept], instant[kept]
        self._tracks.threads()
        first = [int(array.min()) for array in (time, *(start for start, _ in self._counters)) if len(array)]
        origin = min(first, default=0)
        self._head(file, origin)
        ordered = [(start, body, np.argsort(start, kind="stable")) for start, body in self._counters]
        last, done = origin, [0] * len(ordered)
        for a in range(0, max(len(slices), 1), STRETCH_EVENTS):
            b = a + STRETCH_EVENTS
            until = int(time[b]) if b < len(time) else None
            rows = [self._events(slices[a:b], begins[a:b], instant[a:b])]
            times = [time[a:b]]
            for k, (start, body, order) in enumerate(ordered):
                stop = len(order) if until is None else int(np.searchsorted(start, until, sorter=order))
                mine = order[done[k] : stop]
                done[k] = max(stop, done[k])
                rows.append(asm.assemble(len(mine), [piece.take(mine) for piece in body]))
                times.append(start[mine])
            last = self._packets(file, asm.Rows.concat(rows), np.concatenate(times), last)
        self._exported.rows += len(line) + sum(len(start) for start, _ in self._counters)

    def _packets(self, file: BinaryIO, events: asm.Rows, time: Int64s, last: int) -> int:
        """Write events in the order of time; returns the time of the last."""
        n = len(time)
        if not n:
            return last
        order = np.argsort(time, kind="stable")
        sorted_time = time[order]
        step = np.diff(sorted_time, prepend=last)
        packets = asm.assemble(
            n,
            [
                asm.number(asm.VARINT, step, tag(8, 0)),
                asm.constant(encode(10, _SEQUENCE) + encode(13, 2)),
                events.piece(asm.SIZED, tag(11, 2), index=order),
            ],
        )
        file.write(asm.assemble(n, [packets.piece(asm.SIZED, tag(1, 2))]).data.data)
        return int(sorted_time[-1])

    def _events(
        self, slices: Int64s, begins: npt.NDArray[np.bool_], instant: npt.NDArray[np.bool_]
    ) -> asm.Rows:
        """The TrackEvent of each begin, end and instant."""
        line = self._line
        parts: list[tuple[Int64s, asm.Rows]] = []
        groups = [(np.flatnonzero(~begins), None)] + [
            (np.flatnonzero(begins & (line.part[slices] == k)), k) for k in range(len(line.parts))
        ]
        for where, k in groups:
            if not len(where):
                continue
            mine = slices[where]
            track = asm.number(asm.VARINT, self._uuid[line.track[mine]], tag(11, 0))
            if k is None:
                rows = asm.assemble(len(where), [asm.constant(encode(9, _END)), track])
            else:
                type_ = asm.constant(encode(9, _INSTANT if self._instant[k] else _BEGIN))
                rows = asm.assemble(
                    len(where),
                    [
                        type_,
                        track,
                        *(piece.take(line.row[mine]) for piece in self._bodies[k]),
                        *self._arrows.pieces(mine),
                    ],
                )
            parts.append((where, rows))
        return asm.Rows.scattered(len(slices), parts)

    def _fixed(self, part: Part) -> list[asm.Piece]:
        """The pieces of the part's rows that don't depend on where they stand: name, category,
        annotations."""
        name, has = self._names.of(part.array("name"))
        category = encode(3, self._categories.number(interchange.category(part.table.name)))
        pieces = (
            [asm.number(asm.VARINT, name, tag(10, 0), present=has)]
            if part.table.kind is not Kind.COUNTER
            else []
        )
        pieces.append(asm.constant(category))
        for column in interchange.argument_columns(part.table):
            if column.name != "process_id" and not (
                column.name == "thread_id" and "thread_id" in part.table.track
            ):
                piece = self._annotation(part, column)
                if piece is not None:
                    pieces.append(piece)
        args = part.array("args")
        if args.null_count < len(args):
            pieces.append(
                asm.text(args, asm.WRAPPED_SIZED, tag(4, 2), encode(1, self._keys.number("args")) + tag(9, 2))
            )
        return pieces

    def _counter(self, part: Part) -> list[asm.Piece]:
        """The pieces of the values of a counter table."""
        return [
            asm.constant(encode(9, _COUNTER)),
            asm.number(asm.VARINT, self._counter_track(part), tag(11, 0)),
            *self._fixed(part),
            asm.number(asm.FIXED, part.array("value").fill_null(0.0), tag(44, 1)),
        ]

    def _annotation(self, part: Part, column: Column) -> asm.Piece | None:
        """A column as debug annotation; None when all is null."""
        array = part.array(column.name)
        if array.null_count == len(array):
            return None
        key = encode(1, self._keys.number(column.name))
        if column.type == "name":
            number, has = self._strings.of(array)
            return asm.number(asm.WRAPPED_VARINT, number, tag(4, 2), key + tag(17, 0), has)
        if column.type == "text":
            return asm.text(array, asm.WRAPPED_SIZED, tag(4, 2), key + tag(6, 2))
        present = np.asarray(array.is_valid()) if array.null_count else None
        values = np.asarray(
            array.fill_null(False if column.type == "bool" else 0) if array.null_count else array
        )
        if column.type == "float64":
            return asm.number(asm.WRAPPED_FIXED, values, tag(4, 2), key + tag(5, 1), present)
        return asm.number(
            asm.WRAPPED_VARINT, values, tag(4, 2), key + tag(2 if column.type == "bool" else 4, 0), present
        )

    def _counter_track(self, part: Part) -> Int64s:
        """The track of each value of a counter table."""
        code, first = counter_groups(part)
        rows = part.rows.select(_COUNTER_COLUMNS).take(pa.array(first))
        uuids = [
            self._tracks.counter(
                NONE if row["process_id"] is None else row["process_id"],
                row["name"] or "",
                row["unit"],
                ("counter", *row.values()),
            )
            for row in rows.to_pylist()
        ]
        return np.array(uuids, np.int64)[code]

    def _head(self, file: BinaryIO, origin: int) -> None:
        """Clock, defaults, tracks and interned strings."""
        state = (10, _SEQUENCE)
        clocks = message(
            (
                6,
                message(
                    (1, message((1, _BOOTTIME), (2, origin))),
                    (1, message((1, _CLOCK), (2, origin), (3, True))),
                    (2, _BOOTTIME),
                ),
            ),
            state,
            (13, 1),
            (59, message((58, _CLOCK))),
        )
        packets = [clocks, *(packet + message(state) for packet in self._tracks.packets)]
        for field, words in ((1, self._categories), (2, self._names), (3, self._keys), (29, self._strings)):
            entries = [
                message((field, message((1, number), (2, word)))) for word, number in words.numbers.items()
            ]
            packets += [
                message((12, b"".join(entries[at : at + _INTERNED_AT_ONCE])), state, (13, 2))
                for at in range(0, len(entries), _INTERNED_AT_ONCE)
            ]
        file.write(b"".join(encode(1, packet) for packet in packets))


def counter_groups(part: Part) -> tuple[Int64s, Int64s]:
    """(number of the counter of each value, a row of each counter)."""
    columns = []
    for name in _COUNTER_COLUMNS:
        array = part.array(name)
        encoded = (
            array.indices if isinstance(array, pa.DictionaryArray) else array.dictionary_encode().indices
        )
        columns.append(np.asarray(encoded.fill_null(-1)))
    return combine(*columns)
