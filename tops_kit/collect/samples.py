"""Samples of Python programs into tables of the session: the collector's end of `chunk_format`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from topstx.recorder import layout

from tops_kit.collect import chunk_format
from tops_kit.collect.arrays import Array, Int64
from tops_kit.collect.chunk_format import Chunk
from tops_kit.collect.clock import Clock
from tops_kit.collect.cuts import Cuts

if TYPE_CHECKING:
    from tops_kit.collect.collector import Collector
    from tops_kit.collect.processes import Row
    from tops_kit.session import Ledger, SessionWriter

META: Final = "samples"
"""Key of a segment's meta: its table holds the chunks up to this number."""
TABLES: Final = ("sample", "stack", "gc", "counter")
SYSTEM: Final = "system"
"""Domain of counters that are read from outside."""
SIMULATOR: Final = "simulator"
CUT_OFF: Final = "[more frames]"

FIRST_TREE: Final = 1 << 20  # ids of stacks of runtime calls begin with numbers of processes, which are less
_EARLIER: Final = -1  # processes that are told no more
_PATIENCE_S: Final = 1.0  # how long a recorder may take to say that it is in a process
_DTYPES: Final = {"q": "<i8", "i": "<i4", "h": "<i2", "B": "u1"}


def held(user: Mapping[str, Any]) -> int:
    """The chunk up to which a segment's meta says that its table holds all; 0: none."""
    merged = user.get("merged", [])
    return max([int(user.get(META, 0)), *(held(part) for part in merged if isinstance(part, Mapping))])


class SampleTables:
    """Takes chunks, in order, into the session. All methods are for whoever holds the part writer's lock."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._rows: dict[int, Row] = {}  # incarnation -> process
        self._since: dict[int, float] = {}
        self.counts: dict[int, dict[str, int]] = {}  # process_id -> what the ledger tells
        self._collections: dict[int, list[int]] = {}  # incarnation -> garbage collections of each generation
        self._last_ns: dict[int, int] = {}  # process_id -> CLOCK_MONOTONIC of its last sample
        self.killed_ns = 0
        """When topsprof, which takes the samples, was seen to have been killed: CLOCK_MONOTONIC; 0: never."""
        self.have: dict[str, int] = dict.fromkeys(TABLES, 0)
        """Table -> the chunk up to which segments hold it already; of a recovery."""

    def take(self, *, final: bool = False) -> bool:
        """Segments of all chunks that are there; whether there were any. Chunks of a process that may yet say
        that it is recorded wait for that, but not when it is `final`. Raises SessionError, OSError.
        """
        folder = self._collector.folder
        numbers = chunk_format.pending(folder)
        taken: list[int] = []
        for number in numbers:
            try:
                chunk = chunk_format.read(folder, number)
            except FileNotFoundError:
                continue
            except ValueError as error:
                note = f"a file of samples is of no use: {error}"
                self._collector.note("collector", "dropped:samples_file", 1, note)
                taken.append(number)
                continue
            row = self._process_of(chunk, final)
            if row is None:
                break
            self._take_chunk(chunk, row, self._collector.writer)
            taken.append(number)
        if not taken:
            return False
        with self._collector.processes.lock:
            self._collector.processes.append_to(self._collector.writer)
        self._collector.part_writer.make_segments({META: taken[-1]})
        for number in taken:
            with contextlib.suppress(OSError):
                chunk_format.chunk_path(folder, number).unlink()
        return True

    def _process_of(self, chunk: Chunk, final: bool) -> Row | None:
        """The process that a chunk is of; None: not known yet."""
        found = self._rows.get(chunk.incarnation)
        if found is not None:
            return found
        collector = self._collector
        processes = collector.processes
        with processes.lock:
            mine = [
                row
                for row in processes.rows.values()
                if row.pid == chunk.pid and row.proc_start in (0, chunk.proc_start)
            ]
            begin = collector.clock.session_ns(chunk.begin_ns) if chunk.begin_ns else None
            later = [row for row in mine if begin is None or row.start_ns is None or row.start_ns >= begin]
            found = next(iter(later), None)
            if found is None and not final:
                since = self._since.setdefault(chunk.incarnation, time.monotonic())
                if time.monotonic() - since < _PATIENCE_S:
                    return None
            if found is None:
                first = int(np.frombuffer(chunk.columns["time_ns"], "<i8")[0]) if chunk.rows else 0
                start = collector.clock.session_ns(first or chunk.begin_ns or time.monotonic_ns())
                found = processes.add_sampled(chunk.pid, chunk.proc_start, start, chunk.facts)
        self._rows[chunk.incarnation] = found
        return found

    def _take_chunk(self, chunk: Chunk, row: Row, writer: SessionWriter) -> None:
        names = {name: dict(table) for name, table in chunk.tables.items()}
        tree = (FIRST_TREE + chunk.incarnation) << 32
        if self._collector.flight is not None:
            self._collector.flight.window.see_samples(tree >> 32)
        if chunk.number > self.have["stack"] and chunk.stacks:
            writer.append("stack", _stack_columns(chunk, tree, names.get("codes", {})))
        counts = self.counts.setdefault(row.process_id, {})
        if chunk.rows:
            last = int(np.frombuffer(chunk.columns["time_ns"], "<i8").max())
            self._last_ns[row.process_id] = max(last, self._last_ns.get(row.process_id, 0))
        for key, value in chunk.facts.get("counts", {}).items():
            counts[key] = counts.get(key, 0) + int(value)
        if chunk.facts.get("counters"):
            self._take_counters(chunk, row, writer)
        self._take_pauses(chunk, row, tree, writer)
        if not chunk.rows:
            return
        columns = {
            name: np.frombuffer(chunk.columns[name], _DTYPES[kind])
            for name, kind in chunk_format.COLUMNS.items()
        }
        cuts = self._collector.cut_file.read()
        start, weight, simulated = _times(
            columns, self._collector.clock.freeze(), cuts, row.serial, chunk.period_ns
        )
        if chunk.number > self.have["sample"]:
            writer.append(
                "sample",
                _sample_columns(chunk, row.process_id, tree, names, _Rows(columns, start, weight, simulated)),
            )
            counts["written"] = counts.get("written", 0) + chunk.rows
        with self._collector.processes.lock:
            self._see_threads(row, columns["tid"], start, columns["weight_ns"], names.get("threads", {}))

    def _take_counters(self, chunk: Chunk, row: Row, writer: SessionWriter) -> None:
        """Counters of a process that were read from outside. Those that make no sense are left out, and
        counted.
        """
        if chunk.number <= self.have["counter"]:
            return
        try:
            told = chunk.facts["counters"]
            names = [(_text(name), _text(unit)) for name, unit in told["names"]]
            rows = [(int(time_ns), int(number), float(value)) for time_ns, number, value in told["rows"]]
            kinds = [names[number] for _, number, _ in rows]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            note = f"a file of counters is of no use: {error}"
            self._collector.note("collector", "dropped:samples_file", 1, note)
            return
        raw = np.array([time_ns for time_ns, _, _ in rows], np.int64)
        clock, cuts = self._collector.clock.freeze(), self._collector.cut_file.read()
        one = np.full(len(raw), chunk.period_ns, np.int64)
        start, _, _ = _times({"time_ns": raw, "weight_ns": one}, clock, cuts, row.serial, chunk.period_ns)
        columns = {
            "start_ns": start,
            "process_id": row.process_id,
            "name": [name for name, _ in kinds],
            "value": np.array([value for _, _, value in rows], np.float64),
            "unit": [unit for _, unit in kinds],
            "domain": SYSTEM,
        }
        writer.append("counter", columns, len(rows))
        row.written += len(rows)

    def _take_pauses(self, chunk: Chunk, row: Row, tree: int, writer: SessionWriter) -> None:
        """Garbage collections: pauses as ranges, and how many there were since the process began."""
        told = chunk.facts.get("gc")
        if not isinstance(told, Mapping):
            return
        try:
            pauses = np.array(told["pauses"], np.int64).reshape(-1, 5)
            counted = [int(number) for number in told["collections"]][:3]
        except (KeyError, TypeError, ValueError) as error:
            note = f"a file of samples has no garbage collections that make sense: {error}"
            self._collector.note("collector", "dropped:samples_file", 1, note)
            return
        clock, cuts = self._collector.clock.freeze(), self._collector.cut_file.read()
        if len(pauses) and chunk.number > self.have["gc"]:
            begin, end = (_placed(pauses[:, k], clock, cuts, row.serial) for k in (0, 1))
            writer.append("gc", _gc_columns(row.process_id, tree, begin, end, pauses))
        before = self._collections.get(chunk.incarnation, [0, 0, 0])
        changed = [number for number in range(len(counted)) if counted[number] != before[number]]
        if not changed or not chunk.rows:
            return
        self._collections[chunk.incarnation] = counted
        if chunk.number > self.have["counter"]:
            now = np.frombuffer(chunk.columns["time_ns"], "<i8").max(keepdims=True)
            writer.append(
                "counter",
                {
                    "start_ns": np.repeat(_placed(now, clock, cuts, row.serial), len(changed)),
                    "name": ["garbage collections"] * len(changed),
                    "process_id": row.process_id,
                    "series": [f"generation {number}" for number in changed],
                    "value": [float(counted[number]) for number in changed],
                    "unit": "collections",
                    "domain": "",
                },
            )

    def _see_threads(self, row: Row, tid: Array, start: Int64, weight: Int64, names: dict[int, Any]) -> None:
        tids, inverse = np.unique(tid, return_inverse=True)
        first = np.full(len(tids), np.iinfo(np.int64).max)
        last = np.full(len(tids), np.iinfo(np.int64).min)
        np.minimum.at(first, inverse, start - weight)
        np.maximum.at(last, inverse, start)
        for one, begin, end in zip(tids.tolist(), first.tolist(), last.tolist(), strict=True):
            row.see_thread(one, begin, end)
            if one in names and row.thread_names.get(one) != _text(names[one]):
                row.thread_names[one] = _text(names[one])
                row.changed_threads.add(one)

    def forget(self, row: Row) -> None:
        """A process that is told no more: its counts become part of those of all of these."""
        counts = self.counts.setdefault(_EARLIER, {})
        for key, value in self.counts.pop(row.process_id, {}).items():
            counts[key] = counts.get(key, 0) + value
        for incarnation in [number for number, one in self._rows.items() if one is row]:
            del self._rows[incarnation]
            self._since.pop(incarnation, None)

    def tell(self, ledger: Ledger) -> None:
        """What the ledger says of samples, all in all."""
        for process_id, counts in self.counts.items():
            stream = f"samples:{process_id if process_id != _EARLIER else 'earlier'}"
            lost = counts.get("rows_lost", 0)
            ledger.count(stream, "requested", counts.get("written", 0) + lost)
            ledger.count(stream, "written", counts.get("written", 0))
            unresolved = counts.get("unresolved", 0)
            ledger.count(
                stream, "written:unresolved", unresolved, "samples whose frames changed too fast to be read"
            )
            ledger.count(stream, "dropped:sampler_memory", lost, "samples that nobody took in time")
            pauses = counts.get("pauses_lost", 0)
            ledger.count(
                stream, "dropped:gc_pauses", pauses, "garbage collections that there was no memory for"
            )
            if self.killed_ns:
                ledger.count(stream, "repaired:samples_end", 1, self._gap(process_id))

    def _gap(self, process_id: int) -> str:
        """How much of a process there are no samples of, as topsprof was killed."""
        last = self._last_ns.get(process_id, self.killed_ns)
        rows = self._collector.processes.rows.values()
        ends = [row.end_ns for row in rows if row.process_id == process_id and row.end_ns is not None]
        text = f"topsprof was killed, and samples end {max(self.killed_ns - last, 0) / 1e9:.3f} s before that"
        gap = max(ends) - self._collector.clock.session_ns(last) if ends else 0
        return f"{text}: none are of the last {gap / 1e9:.3f} s of the process" if gap > 0 else text


def _text(value: object) -> str:
    """A name as it can be stored: what is no UTF-8 gets escapes."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _placed(raw_ns: Array, clock: Clock, cuts: Cuts, serial: int) -> Int64:
    """CLOCK_MONOTONIC to session time, ns."""
    raw = raw_ns.astype(np.int64)
    if cuts.model:
        # the model's clocks begin at 0; samples stay on the machine's, from the recording's begin on
        return np.asarray(raw - clock.pieces(layout.CLOCK_MONOTONIC).ticks[0])
    return np.asarray((cuts.map(raw, serial) if cuts.changes else raw) + clock.origin_ns)


def _gc_columns(process_id: int, tree: int, begin: Int64, end: Int64, pauses: Int64) -> dict[str, Any]:
    tid, stack, generation = pauses[:, 2], pauses[:, 3], pauses[:, 4]
    names = ["GC" if number < 0 else f"GC generation {number}" for number in generation.tolist()]
    return {
        "start_ns": begin,
        "duration_ns": np.maximum(end - begin, 0),
        "name": names,
        "process_id": process_id,
        "thread_id": pa.array(tid, mask=tid <= 0),
        "generation": pa.array(generation, mask=generation < 0),
        "stack_id": pa.array(tree + stack, mask=stack < 0),
    }


def _times(
    columns: Mapping[str, Array], clock: Clock, cuts: Cuts, serial: int, period_ns: int
) -> tuple[Int64, Int64, Array]:
    """(session time, weight in ns, whether the simulator ran).

    A sample in a cut stands for the simulator's time, which session time leaves out. The weight of a row
    that stands for a long time (a thread that slept) is what of it passed in session time.
    """
    raw, weight = columns["time_ns"].astype(np.int64), columns["weight_ns"].astype(np.int64)
    session = _placed(raw, clock, cuts, serial)
    if cuts.model or not cuts.changes:
        return session, weight, np.zeros(len(raw), bool)
    simulated = np.zeros(len(raw), bool)
    table = cuts.tables.get(0)
    if table is not None and len(table.begin):
        at = np.searchsorted(table.begin, raw, "right") - 1
        simulated = (at >= 0) & (raw < table.end[np.maximum(at, 0)])
    if cuts.open_begin:
        simulated |= raw >= cuts.open_begin
    long = (weight > 2 * period_ns) & ~simulated
    if long.any():
        begin = _placed((raw - weight)[long], clock, cuts, serial)
        weight = weight.copy()
        weight[long] = np.maximum(session[long] - begin, 0)
    return session, weight, simulated


def _stack_columns(chunk: Chunk, tree: int, codes: Mapping[int, Any]) -> dict[str, Any]:
    triples = np.frombuffer(chunk.stacks, "<i4").reshape(-1, 3).astype(np.int64)
    ids = tree + chunk.first_stack + np.arange(len(triples), dtype=np.int64)
    parent, code, line = triples.T
    numbers, inverse = np.unique(code, return_inverse=True)
    known = [
        codes.get(number) or (CUT_OFF if number == 0 else "?", None, None) for number in numbers.tolist()
    ]
    index = pa.array(inverse.astype(np.int32))
    first = pa.array([None if not entry[2] else int(entry[2]) for entry in known], pa.int64())
    return {
        "stack_id": ids,
        "parent_id": pa.array(tree + parent, mask=parent < 0),
        "name": _coded(index, [_text(entry[0]) for entry in known]),
        "file": _coded(index, [None if entry[1] is None else _text(entry[1]) for entry in known]),
        "line": pa.array(line, mask=line <= 0),
        "first_line": first.take(index),
    }


def _coded(index: pa.Array, words: Sequence[str | None]) -> pa.DictionaryArray:
    """Words by their place in a list; what is None there is null."""
    places: dict[str, int] = {}
    codes = [None if word is None else places.setdefault(word, len(places)) for word in words]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32()).take(index), pa.array(list(places), pa.string())
    )


def _named(column: Array, table: Mapping[int, Any], none: str | None = None) -> pa.DictionaryArray:
    """The names of numbers; those without one, and empty ones, get `none`."""
    numbers, inverse = np.unique(column, return_inverse=True)
    words = [_text(table.get(number) or "") or none for number in numbers.tolist()]
    return _coded(pa.array(inverse.astype(np.int32)), words)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a chunk, placed: session time, weight in ns, whether the simulator ran."""

    columns: Mapping[str, Array]
    start: Int64
    weight: Int64
    simulated: Array


def _sample_columns(
    chunk: Chunk, process_id: int, tree: int, names: Mapping[str, Mapping[int, Any]], rows: _Rows
) -> dict[str, Any]:
    columns, simulated = rows.columns, rows.simulated
    states = [*chunk.facts["states"], SIMULATOR]
    state = np.where(simulated, len(states) - 1, columns["state"]).astype(np.int64)
    waits = dict(enumerate(chunk.facts["waits"]))
    blocked = np.where(simulated, 0, columns["wait"])
    native = np.where(simulated, 0, columns["native"])
    stack = columns["stack"].astype(np.int64)
    task, holder = columns["task"].astype(np.int64), columns["holder"].astype(np.int64)
    return {
        "start_ns": rows.start,
        "process_id": process_id,
        "thread_id": columns["tid"].astype(np.int64),
        "task_id": task,
        "stack_id": pa.array(tree + stack, mask=stack < 0),
        "state": _named(state, dict(enumerate(states))),
        "weight": rows.weight.astype(np.float64),
        "unit": "ns",
        "wait": _named(blocked, waits),
        "native": _named(native, {**names.get("natives", {}), -1: "[native]"}),
        "holder_id": pa.array(holder, mask=(holder <= 0) | simulated),
        "task": _named(columns["task"], names.get("tasks", {})),
        "syscall": _named(np.where(simulated, -1, columns["syscall"]), names.get("syscalls", {})),
        "gc": pa.array((columns["flags"] & chunk_format.GC) != 0),
        "holds_gil": pa.array((columns["flags"] & chunk_format.HOLDS_GIL) != 0),
    }


def have_of_segments(session: Any) -> dict[str, int]:
    """Table -> the chunk up to which a session's segments hold it."""
    return {table: max((held(s.user) for s in session.segments(table)), default=0) for table in TABLES}
