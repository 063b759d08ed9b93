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
from topsprof.exporters.base import Exported, ExportOptions, nothing
from topsprof.exporters.codes import combine
from topsprof.exporters.links import Arrow, attach
from topsprof.exporters.output import stream
from topsprof.exporters.perfetto_tracks import Descriptors
from topsprof.exporters.protobuf import encode, message, tag, varint
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


class PerfettoExporter:
    """`.pftrace`, for ui.perfetto.dev and Perfetto's trace processor."""

    name = "perfetto"
    suffix = ".pftrace"
    help = "Perfetto's protobuf format, for ui.perfetto.dev (.pftrace)"
    text = False

    def folder(self, options: ExportOptions) -> bool:
        return False

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        parts = timeline.load(session, selection, (Kind.INTERVAL, Kind.INSTANT))
        samples = sum(len(part.start_ns) for part in parts if part.table.name == "sample")
        parts = [part for part in parts if part.table.name != "sample"]
        counters = timeline.load(session, selection, (Kind.COUNTER,))
        if not parts and not counters:
            raise nothing(session, "slice, instant or counter")
        exported = Exported()
        exported.leave_out(samples, "call stack samples: export them as speedscope or collapsed")
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
        self._counters = [(part, self._counter_track(part), self._fixed(part)) for part in counters]
        self._arrows: Arrow = attach(session, self._line, exported)

    def write(self, file: BinaryIO) -> None:
        """Write the whole trace."""
        line = self._line
        slices, begins, time = timeline.switches(line.start_ns, line.end_ns)
        instant = np.array(self._instant or [False])[line.part[slices]] if len(slices) else np.empty(0, bool)
        kept = begins | ~instant
        slices, begins, time, instant = slices[kept], begins[kept], time[kept], instant[kept]
        self._tracks.threads()
        first = [
            int(array.min())
            for array in (time, *(part.start_ns for part, _, _ in self._counters))
            if len(array)
        ]
        origin = min(first, default=0)
        self._head(file, origin)
        ordered = [
            (part, track, body, np.argsort(part.start_ns, kind="stable"))
            for part, track, body in self._counters
        ]
        last, done = origin, [0] * len(ordered)
        for a in range(0, max(len(slices), 1), STRETCH_EVENTS):
            b = a + STRETCH_EVENTS
            until = int(time[b]) if b < len(time) else None
            rows = [self._events(slices[a:b], begins[a:b], instant[a:b])]
            times = [time[a:b]]
            for k, (part, track, body, order) in enumerate(ordered):
                stop = len(order) if until is None else int(np.searchsorted(part.start_ns[order], until))
                mine = order[done[k] : stop]
                done[k] = max(stop, done[k])
                rows.append(
                    _assembled(
                        [
                            asm.constant(b"\x48" + varint(_COUNTER)),
                            asm.number(asm.VARINT, track[mine], tag(11, 0)),
                            *self._pieces(part, body, mine),
                            asm.number(
                                asm.FIXED, np.asarray(part.array("value").fill_null(0.0))[mine], tag(44, 1)
                            ),
                        ],
                        len(mine),
                    )
                )
                times.append(part.start_ns[mine])
            last = self._packets(file, asm.Rows.concat(rows), np.concatenate(times), last)
        self._exported.rows += len(line) + sum(len(part.start_ns) for part, _, _ in self._counters)

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
        n = len(slices)
        starts, ends = np.zeros(n, np.int64), np.zeros(n, np.int64)
        parts: list[asm.Rows] = []
        size = 0
        groups = [(np.flatnonzero(~begins), None)] + [
            (np.flatnonzero(begins & (line.part[slices] == k)), k) for k in range(len(line.parts))
        ]
        for where, k in groups:
            if not len(where):
                continue
            mine = slices[where]
            track = asm.number(asm.VARINT, self._uuid[line.track[mine]], tag(11, 0))
            if k is None:
                rows = _assembled([asm.constant(encode(9, _END)), track], len(where))
            else:
                type_ = asm.constant(encode(9, _INSTANT if self._instant[k] else _BEGIN))
                rows = _assembled(
                    [
                        type_,
                        track,
                        *self._pieces(line.parts[k], self._bodies[k], line.row[mine]),
                        *self._arrows.pieces(mine),
                    ],
                    len(where),
                )
            starts[where], ends[where] = rows.starts + size, rows.ends + size
            size += len(rows.data)
            parts.append(rows)
        return asm.Rows(asm.Rows.concat(parts).data, starts, ends)

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
                column.name == "thread_id" and part.table.kind is not Kind.COUNTER
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

    def _pieces(self, part: Part, fixed: list[asm.Piece], rows: Int64s) -> list[asm.Piece]:
        del part
        return [piece.take(rows) for piece in fixed]

    def _counter_track(self, part: Part) -> Int64s:
        """The track of each value of a counter table."""
        code, first = counter_groups(part)
        rows = part.rows.select(
            ["process_id", "thread_id", "device_id", "domain", "name", "series", "unit"]
        ).take(pa.array(first))
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
    for name in ("process_id", "thread_id", "device_id", "domain", "name", "series", "unit"):
        array = part.array(name)
        encoded = (
            array.indices if isinstance(array, pa.DictionaryArray) else array.dictionary_encode().indices
        )
        columns.append(np.asarray(encoded.fill_null(-1)))
    return combine(*columns)


def _assembled(pieces: list[asm.Piece], rows: int) -> asm.Rows:
    return asm.assemble(rows, pieces)
