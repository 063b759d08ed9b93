"""The engine of the chrome and kineto importers: batches of events in, rows of the session's tables out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tops_kit.errors import TraceError
from tops_kit.session.arrays import from_list
from topsprof.importers.base import ImportOptions, Source, Tally
from topsprof.importers.chrome_flows import FlowEvents, FlowPool, identity_of
from topsprof.importers.chrome_meta import KEPT_BYTES, READ_KEYS, Metadata, Track, parse
from topsprof.importers.chrome_pairs import distinct
from topsprof.importers.chrome_profile import Place, Profiles
from topsprof.importers.chrome_ranges import RangePool
from topsprof.importers.chrome_rows import NAMED_BASE, Numbers, Rows
from topsprof.importers.chrome_slices import Slices
from topsprof.importers.chrome_steps import StepWindow
from topsprof.importers.kineto_tables import memory
from topsprof.importers.scan import Batch, Bools, Bytes8, Int64s, Strings, batches, scanner_class
from topsprof.importers.scan_columns import ABSENT, GIVEN, GLOBAL, LOCAL, NONE, STRING

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

BATCH_ROWS = 1 << 17
_WITH_STACK = re.compile(rb'"with_stack"\s*:\s*(?:1|true)')
_FATAL = "no_events"
_DROPPING = frozenset(
    ("malformed_event", "truncated_event", "not_an_object", "malformed_metadata", "truncated_metadata")
)

_MARKS = "iIRnTp"  # instants, marks of user timing, steps of async events
_BEGINS = "BbSN"
_THREAD_RANGES = "BE"
_ID_RANGES = "beSFND"
_FLOWS = "stf"


@dataclass(frozen=True)
class Flavour:
    """What tells the importers over this engine apart."""

    name: str
    keys: dict[str, str]  # args that get columns, see kineto_tables.KEYS
    kineto: bool


def run(source: Source, writer: SessionWriter, options: ImportOptions, flavour: Flavour) -> None:
    """Import a file. TraceError when there are no events in it, or when it needs repair and the user wants
    none.
    """
    tally = Tally(writer.ledger, flavour.name, source, options)
    window = StepWindow.find(source, options.steps, options.shift_ns) if options.steps is not None else None
    late = flavour.kineto and _WITH_STACK.search(source.head()) is not None
    engine = Engine(writer, options, tally, flavour, window, late_functions=late)
    scanner = scanner_class()(list(flavour.keys.items()))
    strict = options.on_error == "strict"
    for batch in batches(source, scanner, engine.strings, BATCH_ROWS, options.shift_ns):
        if strict:
            _issues(scanner.issues(), source, tally)
        engine.batch(batch)
    _issues(scanner.issues(), source, tally)
    if source.damage:
        tally.dropped("damaged_compression", 1, source.damage)
    engine.finish(scanner.metadata())


def _issues(issues: list[tuple[str, int, int]], source: Source, tally: Tally) -> None:
    for code, count, position in issues:
        where = f"first at byte {position}"
        if code == _FATAL:
            if source.damage:
                raise TraceError(f"{source.path}: {source.damage}; fetch the file again")
            raise TraceError(f"{source.path}: no trace events in it ({where}); give a Chrome trace in JSON")
        (tally.dropped if code in _DROPPING else tally.repaired)(code, count, where)


def _codes(letters: str) -> Bools:
    table = np.zeros(256, np.bool_)
    table[[ord(letter) for letter in letters]] = True
    return table


class Engine:
    """One import. `batch` for each batch in turn, then `finish`."""

    def __init__(
        self,
        writer: SessionWriter,
        options: ImportOptions,
        tally: Tally,
        flavour: Flavour,
        window: StepWindow | None,
        *,
        late_functions: bool,
    ) -> None:
        self._writer = writer
        self._options = options
        self._tally = tally
        self._flavour = flavour
        self._window = window
        self.strings = Strings()
        self._numbers = Numbers(options, self.strings)
        self._metadata = Metadata(writer, options, tally, self._numbers)
        self._profiles = Profiles(writer, tally, self._numbers)
        self._flows = FlowPool(writer, tally, self.strings, kineto=flavour.kineto)
        self._slices = Slices(
            writer,
            tally,
            self.strings,
            self._numbers,
            keys=flavour.keys,
            window=window,
            kineto=flavour.kineto,
            late_functions=late_functions,
        )
        self._threads = RangePool(writer, tally, self.strings, style="PushPop")
        self._ids = RangePool(writer, tally, self.strings, style="StartEnd")
        self._dropped = np.zeros(0, np.bool_)  # by string id: a category that is left out
        self._end_ns = -(1 << 62)

    def batch(self, batch: Batch) -> None:
        """Everything of one batch."""
        self._tally.read(batch.rows)
        if not batch.rows:
            return
        phase = batch.column("ph")
        pid = self._numbers.plain(batch.column("pid"), batch.column("pid_kind"), self._numbers.missing)
        tid = self._numbers.plain(batch.column("tid"), batch.column("tid_kind"))
        usable = self._usable(batch, phase)
        seen = np.flatnonzero(np.bincount(phase, minlength=256)).tolist()
        letters = {chr(code) for code in seen}
        if "M" in letters:
            self._names(batch, pid, tid, np.flatnonzero(phase == ord("M")))
        ts = batch.column("ts")
        if usable.any():
            self._end_ns = max(self._end_ns, int(ts[usable].max()))

        def rows(letters_of_group: str) -> Int64s:
            if not letters.intersection(letters_of_group):
                return np.empty(0, np.int64)
            return np.flatnonzero(usable & _codes(letters_of_group)[phase])

        if len(at := rows("X")):
            missing = self._numbers.missing
            self._end_ns = max(self._end_ns, self._slices.add(batch, at, pid, tid))
            if self._numbers.missing != missing:  # the process of what states none is known only now
                pid = self._numbers.plain(
                    batch.column("pid"), batch.column("pid_kind"), self._numbers.missing
                )
            self._add_starts(batch, at, pid, tid)
        if len(at := rows(_THREAD_RANGES)):
            self._threads.add(self._range_events(batch, at, pid, tid, identity_of(pid[at], tid[at])))
        if len(at := rows(_ID_RANGES)):
            self._ids.add(self._range_events(batch, at, pid, tid, self._id_tracks(batch, at, pid)))
        if len(at := rows(_MARKS + "O")):
            self._marks(batch, at, pid, tid)
        if len(at := rows(_FLOWS)):
            self._add_flows(batch, at, pid, tid)
        if len(at := rows("C")):
            self._counters(batch, pid, at)
        if len(at := rows("P")):
            self._samples(batch, at, pid, tid)
        for letter in sorted(letters - set("XMCPO" + _MARKS + _THREAD_RANGES + _ID_RANGES + _FLOWS)):
            self._tally.unsupported(
                _phase_code(letter), len(rows(letter)), "events of a phase that no table holds"
            )

    def finish(self, metadata: list[tuple[bytes, bytes]]) -> None:
        """After the last batch: what waits for the end of the file, and the tables of processes and
        devices.
        """
        top: dict[str, Any] = {}
        for encoded, text in metadata:
            name = encoded.decode()
            if name in READ_KEYS or len(text) <= KEPT_BYTES:
                top[name] = parse(text)
            else:
                self._tally.unsupported(
                    f"metadata_{name}", 1, f"{len(text)} bytes beside the events are too long to keep"
                )
        self._slices.finish()
        self._threads.finish(self._end_ns)
        self._ids.finish(self._end_ns)
        slices = self._slices
        self._flows.finish(self._owners)
        self._profiles.finish(top.get("samples"), top.get("stackFrames"))
        slices.hosts |= self._profiles.processes
        for (pid, tid), name in slices.annotated.items():
            track = self._metadata.threads.setdefault((pid, tid), Track())
            track.name = track.name or name
        self._metadata.finish(top, slices.hosts, slices.devices, slices.host_pid, slices.threads)
        for pid, key in self._options.process_ids.moved:
            if pid < NAMED_BASE:
                self._tally.moved(
                    "process_number_taken", 1, f"process {pid} of this file is {key} in the session"
                )

    def _owners(self, pids: Int64s) -> Int64s:
        """The process_id of each pid; a pid that only stands for a device gives the process that uses it."""
        slices = self._slices
        if slices.host_pid is not None:
            devices = {pid for pid, _, _ in slices.devices} - {slices.host_pid}
            pids = np.where(np.isin(pids, list(devices)), slices.host_pid, pids)
        return self._numbers.keys(pids)

    # ---- which events count ----

    def _usable(self, batch: Batch, phase: Bytes8) -> Bools:
        """Events with a time and of no category that the user left out; counts the others."""
        state = batch.column("ts_state")
        usable: Bools = state == GIVEN
        if not usable.all():
            timeless = ~usable & (phase != ord("M"))
            wrong = int((timeless & (state != ABSENT)).sum())
            self._tally.dropped("event_with_bad_time", wrong)
            self._tally.dropped("event_without_time", int(timeless.sum()) - wrong)
        if self._options.drop:
            new = [
                not self._options.drop.isdisjoint(_categories(self.strings.text(number)))
                for number in range(len(self._dropped), len(self.strings))
            ]
            self._dropped = np.concatenate((self._dropped, np.array(new, np.bool_)))
            self._options.categories.update(
                self.strings.text(number)
                for number in distinct(batch.column("cat").astype(np.int64))
                if number >= 0
            )
            asked = usable & np.append(self._dropped, False)[batch.column("cat")]
            self._tally.asked("category", int(asked.sum()), "left out by --drop")
            usable &= ~asked
        if self._window is not None:
            # slices are judged one by one, by table; all else by its time
            outside = (
                usable & (phase != ord("X")) & (phase != ord("M")) & ~self._window.host(batch.column("ts"))
            )
            self._tally.asked("step", int(outside.sum()), "left out by --steps")
            usable &= ~outside
        return usable

    # ---- phases ----

    def _names(self, batch: Batch, pid: Int64s, tid: Int64s, at: Int64s) -> None:
        name = batch.column("name")[at].tolist()
        texts = batch.rest(at).to_pylist()
        for i, p, t, args in zip(name, pid[at].tolist(), tid[at].tolist(), texts, strict=True):
            self._metadata.event(self.strings.text(i), p, t, args)

    def _process(self, pid: Int64s, at: Int64s, tid: Int64s | None = None) -> Int64s:
        return self._slices.host_keys(pid[at], None if tid is None else tid[at])

    def _range_events(
        self, batch: Batch, at: Int64s, pid: Int64s, tid: Int64s, track: Int64s
    ) -> dict[str, Any]:
        begins = _codes(_BEGINS)[batch.column("ph")[at]]
        self._add_starts(batch, at[begins], pid, tid)
        return {
            "ts": batch.column("ts")[at],
            "track": track,
            "process": self._process(pid, at, tid),
            "thread": tid[at],
            "name": batch.column("name")[at],
            "category": batch.column("cat")[at],
            "begins": begins,
            "args": Rows(batch, at, self.strings).args(self._flavour.keys),
        }

    def _add_starts(self, batch: Batch, at: Int64s, pid: Int64s, tid: Int64s) -> None:
        """Kineto's flows all bind to the slice around them; others may bind to the next one, so its start
        is needed.
        """
        if not self._flavour.kineto:
            self._flows.add_starts(pid[at], tid[at], batch.column("ts")[at])

    def _id_tracks(self, batch: Batch, at: Int64s, pid: Int64s) -> Int64s:
        """Async events belong together by category and id, local ids also by process."""
        kind = batch.column("id_kind")[at]
        phase = batch.column("ph")[at]
        family = np.where(
            np.isin(phase, [ord("N"), ord("D")]), 2, np.where(np.isin(phase, [ord("S"), ord("F")]), 1, 0)
        )
        scope = batch.column("scope")[at]
        return identity_of(
            batch.column("cat")[at], scope, kind, batch.column("id")[at], _owner(kind, pid[at]), family
        )

    def _marks(self, batch: Batch, at: Int64s, pid: Int64s, tid: Int64s) -> None:
        rows = Rows(batch, at, self.strings)
        if self._flavour.kineto and batch.keys.get("Bytes"):
            bytes_there = rows.integers_there("Bytes")[1]
            if bytes_there.any():
                self._memory(batch, at[bytes_there], pid, tid)
                rows = Rows(batch, at[~bytes_there], self.strings)
        if not len(rows):
            return
        at = rows.at
        self._writer.append(
            "tx",
            {
                "start_ns": batch.column("ts")[at],
                "duration_ns": 0,
                "name": self.strings.names(batch.column("name")[at], ""),
                "process_id": self._process(pid, at, tid),
                "thread_id": tid[at],
                "task_id": 0,
                "domain": self.strings.names(batch.column("cat")[at], ""),
                "style": "Mark",
                "args": rows.args(self._flavour.keys),
            },
        )
        self._tally.written(len(at))

    def _memory(self, batch: Batch, at: Int64s, pid: Int64s, tid: Int64s) -> None:
        rows = Rows(batch, at, self.strings)
        self._writer.append(
            "memory",
            {
                "start_ns": batch.column("ts")[at],
                "process_id": self._process(pid, at, tid),
                "thread_id": tid[at],
                **memory(rows),
                "args": rows.args(self._flavour.keys),
            },
        )
        self._tally.written(len(at))

    def _add_flows(self, batch: Batch, at: Int64s, pid: Int64s, tid: Int64s) -> None:
        kind, number = batch.column("id_kind")[at], batch.column("id")[at]
        category, name = batch.column("cat")[at], batch.column("name")[at]
        phase = batch.column("ph")[at]
        follows = (phase == ord("f")) & (batch.column("bp")[at] != ord("e"))
        without = int((kind == NONE).sum())
        self._tally.dropped("flow_without_id", without)
        events = FlowEvents(
            identity=identity_of(category, name, kind, number, _owner(kind, pid[at])),
            link_id=number,
            ts=batch.column("ts")[at],
            pid=pid[at],
            tid=tid[at],
            phase=phase,
            category=np.where(category < 0, name, category).astype(np.int32),
            follows=follows,
        )
        self._flows.add(events.take(kind != NONE) if without else events)

    def _counters(self, batch: Batch, pid: Int64s, at: Int64s) -> None:
        """Each number in a counter's args is a series; a counter with an id has it in its name, as Chrome
        shows it.
        """
        rows = batch.column("series_rows")
        keep = np.zeros(batch.rows, np.bool_)
        keep[at] = True
        chosen = keep[rows]
        rows = rows[chosen].astype(np.int64)
        empty = int(keep.sum()) - len(np.unique(rows))
        self._tally.dropped("counter_without_value", empty)
        if not len(rows):
            return
        kind, number = batch.column("id_kind")[rows], batch.column("id")[rows]
        name: Any = self.strings.names(batch.column("name")[rows], "")
        if (kind != NONE).any():
            texts = [
                text if k == NONE else f"{text}[{self.strings.text(i) if k in _STRING_KINDS else i}]"
                for text, k, i in zip(name.to_pylist(), kind.tolist(), number.tolist(), strict=True)
            ]
            name = from_list(texts, pa.string())
        series = batch.column("series_keys")[chosen]
        self._writer.append(
            "counter",
            {
                "start_ns": batch.column("ts")[rows],
                "name": name,
                "process_id": self._process(pid, rows),
                "series": self.strings.names(series),
                "value": batch.column("series_values")[chosen],
                "domain": self.strings.names(batch.column("cat")[rows], ""),
                "args": Rows(batch, rows, self.strings).args(self._flavour.keys),
            },
        )
        self._tally.written(len(rows))

    def _samples(self, batch: Batch, at: Int64s, pid: Int64s, tid: Int64s) -> None:
        texts = batch.rest(at).to_pylist()
        others: list[int] = []
        for i, args in zip(at.tolist(), texts, strict=True):
            kind, number = int(batch.column("id_kind")[i]), int(batch.column("id")[i])
            profile = f"{kind}:{number}"
            name = self.strings.text(int(batch.column("name")[i]))
            place = Place(int(batch.column("ts")[i]), int(pid[i]), int(tid[i]))
            if not self._profiles.v8_event(name, place, profile, args):
                others.append(i)
        if others:  # samples of no profile: marks
            self._marks(batch, np.array(others, np.int64), pid, tid)


def _categories(text: str) -> list[str]:
    """A category, or all of a comma list of them."""
    return [text, *(part.strip() for part in text.split(","))]


_STRING_KINDS = frozenset((STRING, STRING + LOCAL, STRING + GLOBAL))


def _owner(kind: Bytes8, pid: Int64s) -> Int64s:
    """The process whose id it is; 0 for ids that all processes share."""
    return np.where((kind > STRING) & (kind <= STRING + LOCAL), pid, 0)


def _phase_code(letter: str) -> str:
    if letter == "\0":
        return "event_without_phase"
    return f"phase_{letter}" if letter.isascii() and letter.isalnum() else f"phase_x{ord(letter):02x}"
