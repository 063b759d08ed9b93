"""Exports Chrome trace JSON as PyTorch's profiler writes it: for Perfetto, chrome://tracing, HTA, and our
importer.

One object with all events in the order of time, closed and valid. Times are microseconds with three decimals,
so exact to the ns. Lines are assembled from columns, a stretch of events at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.arrays import end_of
from tops_kit.session.schema import Kind
from topsprof.exporters import assemble as asm
from topsprof.exporters import chrome_args, links, timeline
from topsprof.exporters.base import Exported, ExportOptions, FileExporter, nothing
from topsprof.exporters.chrome_tracks import Place, Tracks
from topsprof.exporters.output import stream
from topsprof.exporters.timeline import Part
from topsprof.importers.json_columns import floats
from topsprof.importers.kineto_tables import OWN_PROCESS, OWN_THREAD

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session

Int64s = npt.NDArray[np.int64]

STRETCH_EVENTS = 1 << 18
_SECOND = 10**9
_LARGE_NS = 10**15  # eleven days: from here on times are epoch times, and doubles lose nanoseconds


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one form: their times, how long they last (to put the outer before the inner), and the pieces
    of each."""

    time_ns: Int64s
    length_ns: Int64s
    pieces: list[asm.Piece]

    def only(self, rows: npt.NDArray[Any]) -> Events:
        return Events(self.time_ns[rows], self.length_ns[rows], [piece.take(rows) for piece in self.pieces])


class ChromeExporter(FileExporter):
    """Trace Event Format."""

    name = "chrome"
    suffix = ".json"
    help = "Chrome trace JSON as PyTorch writes it, for Perfetto, chrome://tracing, HTA (.json, .json.gz)"
    text = True

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        exported = Exported()
        parts = timeline.load(session, selection, (Kind.INTERVAL, Kind.INSTANT, Kind.COUNTER))
        parts = timeline.without_samples(parts, exported)
        if not parts:
            raise nothing(session, "slice, instant or counter")
        # Most readers count microseconds in doubles, which hold no ns of an epoch's: as PyTorch does, times
        # begin at a base.
        first = min(int(part.start_ns.min()) for part in parts)
        origin = first // _SECOND * _SECOND if first > _LARGE_NS else 0
        parts = [replace(part, start_ns=part.start_ns - origin) for part in parts]
        tracks = Tracks(session, parts)
        complete = [_complete(part) for part in parts]
        places = tracks.spread(parts, complete)
        groups = [
            group for part, place in zip(parts, places, strict=True) for group in _groups(part, place, tracks)
        ]
        groups += _links(session, parts, places, complete, origin, exported=exported)
        with stream(out, options.compress) as file:
            _write(file, tracks, groups, origin + _session_origin(session))
        exported.rows = sum(len(part.start_ns) for part in parts)
        return exported


def _session_origin(session: Session) -> int:
    """From when the session's own times count, ns; 0 when it does not say."""
    attributes = session.info.get("attributes")
    value = attributes.get("time_origin_ns", 0) if isinstance(attributes, dict) else 0
    return value if isinstance(value, int) else 0


def _write(file: BinaryIO, tracks: Tracks, groups: list[Events], origin: int) -> None:
    from topstx._version import VERSION

    head = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        **({"baseTimeNanoseconds": origin} if origin else {}),
        **tracks.top(),
        "otherData": {"writer": f"topsprof {VERSION}"},
    }
    file.write(json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "traceEvents": [\n')
    lines = [json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in tracks.metadata()]
    file.write(",\n".join(lines).encode())
    first = not lines
    for data in _lines(groups):
        file.write((data[2:] if first else data).data)
        first = False
    file.write(b"\n]}\n")


def _lines(groups: list[Events]) -> Iterable[npt.NDArray[np.uint8]]:
    """All events in the order of time, of one time the longer before the shorter; each begins with a comma
    and a newline."""
    if not groups:
        return
    time = np.concatenate([group.time_ns for group in groups])
    length = np.concatenate([group.length_ns for group in groups])
    group = np.concatenate([np.full(len(one.time_ns), k, np.int32) for k, one in enumerate(groups)])
    row = np.concatenate([np.arange(len(one.time_ns)) for one in groups])
    order = np.lexsort((-length, time))
    del time, length
    for at in range(0, len(order), STRETCH_EVENTS):
        mine = order[at : at + STRETCH_EVENTS]
        parts = []
        for k in np.unique(group[mine]).tolist():
            where = np.flatnonzero(group[mine] == k)
            chosen = row[mine[where]]
            rows = asm.assemble(len(where), [piece.take(chosen) for piece in groups[k].pieces])
            parts.append((where, rows))
        rows = asm.Rows.scattered(len(mine), parts)
        yield asm.assemble(len(mine), [rows.piece(asm.BYTES, b",\n")]).data


def _complete(part: Part) -> npt.NDArray[np.bool_]:
    """Which rows become complete events (X)."""
    if part.table.kind is not Kind.INTERVAL:
        return np.zeros(len(part.start_ns), bool)
    if part.table.name != "tx":
        return np.ones(len(part.start_ns), bool)
    style = part.array("style")
    mark = np.asarray(pc.equal(style, "Mark").fill_null(False)) & (part.duration_ns == 0)
    ranges: npt.NDArray[np.bool_] = ~mark & ~np.asarray(pc.equal(style, "StartEnd").fill_null(False))
    return ranges


def _groups(part: Part, where: Place, tracks: Tracks) -> list[Events]:
    """The events of one table."""
    if part.table.kind is Kind.COUNTER:
        return [_counters(part, where)]
    place = [asm.number(asm.INTEGER, where.pid, b',"pid":'), asm.number(asm.INTEGER, where.tid, b',"tid":')]
    name = chrome_args.quoted(_filled(chrome_args.names(part)))
    category = chrome_args.categories(part)
    head = [asm.text(name, asm.BYTES, b',"name":')]
    if isinstance(category, str):
        head.insert(0, asm.constant(f',"cat":{json.dumps(category)}'.encode()))
    elif category is not None:
        head.insert(0, asm.text(chrome_args.quoted(category), asm.BYTES, b',"cat":'))
    args = chrome_args.args(part, _own_members(part, where, tracks))
    start = asm.number(asm.MICROS, part.start_ns, b',"ts":')
    zero = np.zeros(len(part.start_ns), np.int64)
    if part.table.kind is Kind.INSTANT:
        return [
            Events(
                part.start_ns,
                zero,
                [asm.constant(b'{"ph":"i","s":"t"'), *head, *place, start, *args, asm.constant(b"}")],
            )
        ]
    complete = Events(
        part.start_ns,
        part.duration_ns,
        [
            asm.constant(b'{"ph":"X"'),
            *head,
            *place,
            start,
            asm.number(asm.MICROS, part.duration_ns, b',"dur":'),
            *args,
            asm.constant(b"}"),
        ],
    )
    if part.table.name != "tx":
        return [complete]
    return _ranges(part, complete, head, place, start, args=args)


def _ranges(
    part: Part,
    complete: Events,
    head: list[asm.Piece],
    place: list[asm.Piece],
    start: asm.Piece,
    *,
    args: list[asm.Piece],
) -> list[Events]:
    """TX rows: marks as instants, ranges that may cross threads as async pairs, all others as slices."""
    crossing = np.asarray(pc.equal(part.array("style"), "StartEnd").fill_null(False))
    slices = _complete(part)
    mark = ~slices & ~crossing
    zero = np.zeros(len(part.start_ns), np.int64)
    number = asm.number(asm.INTEGER, np.arange(len(zero)), b',"id":"tx', b'"')
    end_ns = end_of(part.start_ns, part.duration_ns)
    marks = Events(
        part.start_ns,
        zero,
        [asm.constant(b'{"ph":"i","s":"t"'), *head, *place, start, *args, asm.constant(b"}")],
    )
    begins = Events(
        part.start_ns,
        zero,
        [asm.constant(b'{"ph":"b"'), *head, *place, number, start, *args, asm.constant(b"}")],
    )
    ends = Events(
        end_ns,
        zero - 1,
        [
            asm.constant(b'{"ph":"e"'),
            *head,
            *place,
            number,
            asm.number(asm.MICROS, end_ns, b',"ts":'),
            asm.constant(b"}"),
        ],
    )
    return [
        one.only(rows)
        for one, rows in (
            (complete, np.flatnonzero(slices)),
            (marks, np.flatnonzero(mark)),
            (begins, np.flatnonzero(crossing)),
            (ends, np.flatnonzero(crossing)),
        )
        if len(rows)
    ]


def _own_members(part: Part, where: Place, tracks: Tracks) -> list[chrome_args.Member]:
    """Args by which our importer puts rows back where they belong."""
    out = []
    device = part.table.name in timeline.DEVICE_TABLES
    if not device and where.moved.any():
        key = f'"{OWN_THREAD}":'.encode()
        out.append(
            chrome_args.Member(asm.number(asm.INTEGER, where.thread, key, present=where.moved), where.moved)
        )
    process = part.integers("process_id")
    known = process != timeline.NONE
    if device and tracks.several_owners and known.any():
        key = f'"{OWN_PROCESS}":'.encode()
        out.append(chrome_args.Member(asm.number(asm.INTEGER, process, key, present=known), known))
    return out


def _counters(part: Part, where: Place) -> Events:
    pid = where.pid
    series = chrome_args.quoted(_filled(part.array("series"), "value"))
    value = part.array("value").fill_null(0.0)
    pieces = [
        asm.constant(b'{"ph":"C"'),
        asm.text(chrome_args.quoted(_filled(part.array("name"))), asm.BYTES, b',"name":'),
        asm.text(chrome_args.quoted(part.array("domain")), asm.BYTES, b',"cat":'),
        asm.number(asm.INTEGER, pid, b',"pid":'),
        asm.number(asm.MICROS, part.start_ns, b',"ts":'),
        asm.text(series, asm.BYTES, b',"args":{', b":"),
        asm.text(floats(value)),
        asm.constant(b"}}"),
    ]
    return Events(part.start_ns, np.zeros(len(pid), np.int64), pieces)


def _filled(array: pa.DictionaryArray, word: str = "") -> pa.DictionaryArray:
    """A name column with a word for null."""
    if not array.null_count:
        return array
    words = pa.concat_arrays([array.dictionary, pa.array([word], array.dictionary.type)])
    return pa.DictionaryArray.from_arrays(array.indices.fill_null(len(words) - 1), words)


def _links(
    session: Session,
    parts: list[Part],
    places: list[Place],
    complete: list[npt.NDArray[np.bool_]],
    origin: int,
    *,
    exported: Exported,
) -> list[Events]:
    """Links as pairs of flow events, each pair with a number of its own, at the slices that they leave and
    arrive at."""
    slices = [
        (part, place, mask) for part, place, mask in zip(parts, places, complete, strict=True) if mask.any()
    ]
    line = timeline.lay_out([part for part, _, _ in slices])
    *found, rows = links.ends(session, line, origin)
    if not rows.num_rows:
        return []
    both = (found[0] >= 0) & (found[1] >= 0)
    exported.leave_out(int((~both).sum()), "links that leave or arrive where no slice is")
    columns = {
        name: timeline.whole(rows[name]).take(pa.array(np.flatnonzero(both))) for name in rows.column_names
    }
    kind = chrome_args.quoted(_filled(columns["kind"], "flow"))
    name = [asm.text(kind, asm.BYTES, b',"cat":'), asm.text(kind, asm.BYTES, b',"name":')]
    out = []
    for side, start, ends in (
        ("source", b'{"ph":"s"', found[0]),
        ("target", b'{"ph":"f","bp":"e"', found[1]),
    ):
        time = np.asarray(columns[f"{side}_ns"]) - origin
        at = ends[both]
        pid, tid = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        for k, (_, place, _) in enumerate(slices):
            here = np.flatnonzero(line.part[at] == k)
            pid[here], tid[here] = place.pid[line.row[at[here]]], place.tid[line.row[at[here]]]
        pieces = [
            asm.constant(start),
            *name,
            asm.number(asm.INTEGER, _numbers(columns), b',"id":'),
            asm.number(asm.INTEGER, pid, b',"pid":'),
            asm.number(asm.INTEGER, tid, b',"tid":'),
            asm.number(asm.MICROS, time, b',"ts":'),
            asm.constant(b"}"),
        ]
        # After the slices that begin at the same time, the sources before the targets.
        out.append(Events(time, np.full(len(time), -2 if side == "source" else -3), pieces))
    return out


def _numbers(links: dict[str, pa.Array]) -> Int64s:
    """The links' own numbers where each is one link's of its kind, else new ones."""
    number = links["link_id"]
    codes = np.asarray(links["kind"].indices.fill_null(-1))
    if not number.null_count:
        own = np.asarray(number)
        order = np.lexsort((own, codes))
        same = (np.diff(own[order]) == 0) & (np.diff(codes[order]) == 0)
        if not same.any() and bool((own >= 0).all()):
            return own
    return np.arange(1, len(number) + 1)
