"""Exports Chrome trace JSON as PyTorch's profiler writes it: for Perfetto, chrome://tracing, HTA, and our importer.

One object with all events in the order of time, closed and valid. Times are microseconds with three decimals, so exact to
the ns. Lines are assembled from columns, a stretch of events at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.schema import Kind
from topsprof.exporters import assemble as asm
from topsprof.exporters import chrome_args, timeline
from topsprof.exporters.base import Exported, ExportOptions, nothing
from topsprof.exporters.chrome_tracks import Tracks
from topsprof.exporters.output import stream
from topsprof.exporters.timeline import Part
from topsprof.importers.json_columns import floats

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session

Int64s = npt.NDArray[np.int64]

STRETCH_EVENTS = 1 << 18


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one form: their times, how long they last (to put the outer before the inner), and the pieces of each."""

    time_ns: Int64s
    length_ns: Int64s
    pieces: list[asm.Piece]

    def only(self, rows: npt.NDArray[Any]) -> Events:
        return Events(self.time_ns[rows], self.length_ns[rows], [piece.take(rows) for piece in self.pieces])


class ChromeExporter:
    """Trace Event Format."""

    name = "chrome"
    suffix = ".json"
    help = "Chrome trace JSON as PyTorch writes it, for Perfetto, chrome://tracing, HTA (.json, .json.gz)"
    text = True

    def folder(self, options: ExportOptions) -> bool:
        return False

    def export(self, session: Session, selection: Selection | None, out: Path, options: ExportOptions) -> Exported:
        parts = timeline.load(session, selection, (Kind.INTERVAL, Kind.INSTANT, Kind.COUNTER))
        exported = Exported()
        exported.leave_out(sum(len(part.start_ns) for part in parts if part.table.name == "sample"),
                           "call stack samples: export them as speedscope or collapsed")
        parts = [part for part in parts if part.table.name != "sample"]
        if not parts:
            raise nothing(session, "slice, instant or counter")
        tracks = Tracks(session, parts)
        groups = [group for part in parts for group in _groups(part, tracks)] + _links(session, tracks, selection, exported)
        with stream(out, options.compress) as file:
            _write(file, session, tracks, groups)
        exported.rows = sum(len(part.start_ns) for part in parts)
        return exported


def _write(file: BinaryIO, session: Session, tracks: Tracks, groups: list[Events]) -> None:
    from topstx._version import VERSION

    head = {"schemaVersion": 1, "displayTimeUnit": "ns", **tracks.top(), "otherData": {"writer": f"topsprof {VERSION}"}}
    file.write(json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "traceEvents": [\n')
    lines = [json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in tracks.metadata()]
    file.write(",\n".join(lines).encode())
    first = not lines
    for data in _lines(groups):
        file.write(data[2:] if first else data)
        first = False
    file.write(b"\n]}\n")


def _lines(groups: list[Events]) -> Iterable[npt.NDArray[np.uint8]]:
    """All events in the order of time, of one time the longer before the shorter; each begins with a comma and a newline."""
    if not groups:
        return
    time = np.concatenate([group.time_ns for group in groups])
    length = np.concatenate([group.length_ns for group in groups])
    group = np.concatenate([np.full(len(one.time_ns), k, np.int32) for k, one in enumerate(groups)])
    row = np.concatenate([np.arange(len(one.time_ns)) for one in groups])
    order = np.lexsort((-length, time))
    del time, length
    for at in range(0, len(order), STRETCH_EVENTS):
        mine = order[at:at + STRETCH_EVENTS]
        starts, ends = np.zeros(len(mine), np.int64), np.zeros(len(mine), np.int64)
        parts, size = [], 0
        for k in np.unique(group[mine]).tolist():
            where = np.flatnonzero(group[mine] == k)
            chosen = row[mine[where]]
            rows = asm.assemble(len(where), [piece.take(chosen) for piece in groups[k].pieces])
            starts[where], ends[where] = rows.starts + size, rows.ends + size
            size += len(rows.data)
            parts.append(rows)
        data = asm.Rows.concat(parts).data
        yield asm.assemble(len(mine), [asm.Piece(asm.BYTES, b",\n", data=data, starts=starts, ends=ends)]).data


def _groups(part: Part, tracks: Tracks) -> list[Events]:
    """The events of one table."""
    if part.table.kind is Kind.COUNTER:
        return [_counters(part, tracks)]
    pid, tid = tracks.of(part)
    place = [asm.number(asm.INTEGER, pid, b',"pid":'), asm.number(asm.INTEGER, tid, b',"tid":')]
    name = chrome_args.quoted(chrome_args.names(part).fill_null("") if not isinstance(chrome_args.names(part), pa.DictionaryArray)
                              else _filled(chrome_args.names(part)))
    category = chrome_args.categories(part)
    head = [asm.text(name, asm.BYTES, b',"name":')]
    if isinstance(category, str):
        head.insert(0, asm.constant(f',"cat":{json.dumps(category)}'.encode()))
    elif category is not None:
        head.insert(0, asm.text(chrome_args.quoted(category), asm.BYTES, b',"cat":'))
    args = chrome_args.args(part)
    start = asm.number(asm.MICROS, part.start_ns, b',"ts":')
    zero = np.zeros(len(part.start_ns), np.int64)
    if part.table.kind is Kind.INSTANT:
        return [Events(part.start_ns, zero, [asm.constant(b'{"ph":"i","s":"t"'), *head, *place, start, *args, asm.constant(b"}")])]
    complete = Events(part.start_ns, part.duration_ns, [
        asm.constant(b'{"ph":"X"'), *head, *place, start, asm.number(asm.MICROS, part.duration_ns, b',"dur":'), *args,
        asm.constant(b"}")])
    if part.table.name != "tx":
        return [complete]
    return _ranges(part, complete, head, place, start, args)


def _ranges(part: Part, complete: Events, head: list[asm.Piece], place: list[asm.Piece], start: asm.Piece,
            args: list[asm.Piece]) -> list[Events]:
    """TX rows: marks as instants, ranges that may cross threads as async pairs, all others as slices."""
    style = part.array("style")
    mark = np.asarray(pc.equal(style, "Mark").fill_null(False)) & (part.duration_ns == 0)
    crossing = np.asarray(pc.equal(style, "StartEnd").fill_null(False))
    zero = np.zeros(len(part.start_ns), np.int64)
    number = asm.number(asm.INTEGER, np.arange(len(zero)), b',"id":"tx', b'"')
    end_ns = part.start_ns + part.duration_ns
    marks = Events(part.start_ns, zero, [asm.constant(b'{"ph":"i","s":"t"'), *head, *place, start, *args, asm.constant(b"}")])
    begins = Events(part.start_ns, zero, [asm.constant(b'{"ph":"b"'), *head, *place, number, start, *args, asm.constant(b"}")])
    ends = Events(end_ns, zero - 1, [asm.constant(b'{"ph":"e"'), *head, *place, number,
                                     asm.number(asm.MICROS, end_ns, b',"ts":'), asm.constant(b"}")])
    plain = np.flatnonzero(~mark & ~crossing)
    return [one.only(rows) for one, rows in ((complete, plain), (marks, np.flatnonzero(mark)),
                                             (begins, np.flatnonzero(crossing)), (ends, np.flatnonzero(crossing))) if len(rows)]


def _counters(part: Part, tracks: Tracks) -> Events:
    pid, _ = tracks.of(part)
    series = chrome_args.quoted(_filled(part.array("series"), "value"))
    value = part.array("value").fill_null(0.0)
    pieces = [asm.constant(b'{"ph":"C"'), asm.text(chrome_args.quoted(_filled(part.array("name"))), asm.BYTES, b',"name":'),
              asm.text(chrome_args.quoted(part.array("domain")), asm.BYTES, b',"cat":'),
              asm.number(asm.INTEGER, pid, b',"pid":'), asm.number(asm.MICROS, part.start_ns, b',"ts":'),
              asm.text(series, asm.BYTES, b',"args":{', b":"), asm.text(floats(value)), asm.constant(b"}}")]
    return Events(part.start_ns, np.zeros(len(pid), np.int64), pieces)


def _filled(array: pa.DictionaryArray, word: str = "") -> pa.DictionaryArray:
    """A name column with a word for null."""
    if not array.null_count:
        return array
    words = pa.concat_arrays([array.dictionary, pa.array([word], array.dictionary.type)])
    return pa.DictionaryArray.from_arrays(array.indices.fill_null(len(words) - 1), words)


def _links(session: Session, tracks: Tracks, selection: Selection | None, exported: Exported) -> list[Events]:
    """Links as pairs of flow events, each pair with a number of its own."""
    rows = session.table("link")
    if not rows.num_rows:
        return []
    if selection is not None and not selection.empty:
        exported.leave_out(rows.num_rows, "links: a selection has none")
        return []
    whole = {name: timeline.whole(rows[name]) for name in rows.column_names}
    known = np.asarray(pc.and_(whole["source_ns"].is_valid(), whole["target_ns"].is_valid()))
    exported.leave_out(int((~known).sum()), "links without a time")
    kind = chrome_args.quoted(_filled(whole["kind"], "flow"))
    name = [asm.text(kind, asm.BYTES, b',"cat":'), asm.text(kind, asm.BYTES, b',"name":')]
    out = []
    for side, start in (("source", b'{"ph":"s"'), ("target", b'{"ph":"f","bp":"e"')):
        time = np.asarray(whole[f"{side}_ns"].fill_null(0))
        pid, tid = (np.asarray(whole[f"{side}_{key}"].fill_null(0)) for key in ("process_id", "thread_id"))
        pieces = [asm.constant(start), *name, asm.number(asm.INTEGER, _numbers(whole), b',"id":'),
                  asm.number(asm.INTEGER, pid, b',"pid":'), asm.number(asm.INTEGER, tid, b',"tid":'),
                  asm.number(asm.MICROS, time, b',"ts":'), asm.constant(b"}")]
        out.append(Events(time, np.full(len(time), -2 if side == "source" else -3), pieces).only(np.flatnonzero(known)))
    del tracks
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
