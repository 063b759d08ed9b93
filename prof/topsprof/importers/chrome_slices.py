"""Complete events (X): to the table of their category, or to TX ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.arrays import as_numpy, from_numpy
from topsprof.importers.base import Tally
from topsprof.importers.chrome_flows import identity_of
from topsprof.importers.chrome_pairs import distinct, track_numbers
from topsprof.importers.chrome_rows import Numbers, Rows
from topsprof.importers.chrome_steps import StepWindow
from topsprof.importers.kineto_annotations import (
    ANNOTATION,
    annotation_place,
    annotation_thread_name,
    annotation_threads,
)
from topsprof.importers.kineto_stacks import LateOperators, OperatorStacks
from topsprof.importers.kineto_tables import (
    DEVICE_TABLES,
    MAKERS,
    OWN_PROCESS,
    OWN_THREAD,
    STEP,
    Columns,
    table_of,
)
from topsprof.importers.nesting import ROUNDING_NS, Nested, nest
from topsprof.importers.scan import Batch, Bools, Int32s, Int64s, Strings
from topsprof.importers.scan_columns import ABSENT, GIVEN

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

_TABLES: Final = (
    "tx",
    "op",
    "api",
    "kernel",
    "memcpy",
    "memset",
    "sync",
    "python",
    "overhead",
    "step",
    ANNOTATION,
)
_STEP: Final = _TABLES.index("step")
_TX: Final = _TABLES.index("tx")
_ANNOTATION: Final = _TABLES.index(ANNOTATION)
_OP: Final = _TABLES.index("op")
_PYTHON: Final = _TABLES.index("python")
_PENDING_ROWS: Final = 1 << 20
_LAST_NS: Final = (1 << 63) - 1


@dataclass(frozen=True)
class _Events:
    """A batch with what has been made of its columns: numbers of processes and threads, durations."""

    batch: Batch
    pid: Int64s
    tid: Int64s
    duration: Int64s


class Slices:
    """Writes X events, and remembers which processes, threads and devices have rows."""

    def __init__(
        self,
        writer: SessionWriter,
        tally: Tally,
        strings: Strings,
        numbers: Numbers,
        *,
        keys: dict[str, str],
        window: StepWindow | None,
        kineto: bool,
        late_functions: bool = False,
    ) -> None:
        self._writer = writer
        self._tally = tally
        self._strings = strings
        self._numbers = numbers
        self._keys = keys
        self._window = window
        self._kineto = kineto
        self._class = np.zeros(0, np.int8)  # by string id, as a category: index into _TABLES
        self._step = np.full(0, -1, np.int64)  # by string id, as a name: number of the step it names, else -1
        self._device_annotation = np.zeros(0, np.bool_)  # by string id, as a category
        self._stacks = OperatorStacks(strings)
        self._late = LateOperators(self._stacks) if late_functions else None
        self._pending: list[tuple[str, Rows, _Events]] = []  # device rows that came before any host row
        self._pending_rows = 0
        self.host_pid: int | None = None  # the process that device rows belong to: the first with host rows
        self.hosts: set[int] = set()  # pids with host rows
        self.threads: set[tuple[int, int]] = set()
        self.devices: set[tuple[int, int, int]] = set()  # pid, device, stream of device rows
        self.annotated: dict[tuple[int, int], str] = {}  # (pid, tid) -> name of threads of annotations

    def host_keys(self, pid: Int64s, tid: Int64s | None) -> Int64s:
        """The process_id of each pid, which from now on counts as a process with rows."""
        self.hosts.update(distinct(pid))
        if tid is not None and len(pid):
            heads = np.flatnonzero(
                (np.diff(pid, prepend=~pid[:1]) != 0) | (np.diff(tid, prepend=~tid[:1]) != 0)
            )
            self.threads.update(zip(pid[heads].tolist(), tid[heads].tolist(), strict=True))
        return self._numbers.keys(pid)

    def add(self, batch: Batch, at: Int64s, pid: Int64s, tid: Int64s) -> int:
        """The X events `at` of a batch, whose pids and tids are numbers by now. Returns the end of the
        last, ns.
        """
        self._learn()
        ts, duration = batch.column("ts"), self._durations(batch, at)
        classes = np.append(self._class, np.int8(0))[batch.column("cat")[at]]
        if self._kineto:
            device = np.append(self._device_annotation, False)[batch.column("cat")[at]]
            number = np.append(self._step, -1)[batch.column("name")[at]]
            classes = np.where((number >= 0) & ~device & np.isin(classes, _STEPPABLE), _STEP, classes)
            classes = np.where(device & (classes == _TX), _ANNOTATION, classes)
        events = _Events(batch, pid, tid, duration)
        paths = self._paths(events, at, classes)
        for index in np.flatnonzero(np.bincount(classes, minlength=len(_TABLES))).tolist():
            table = _TABLES[index]
            rows = at[classes == index]
            if self._window is not None:
                rows = self._inside(table, batch, rows)
            if not len(rows):
                continue
            if table in DEVICE_TABLES or table == ANNOTATION:
                self._device(table, Rows(batch, rows, self._strings), events)
            else:
                self._host(table, Rows(batch, rows, self._strings), events, paths)
        return int((ts[at] + duration[at]).max())

    def finish(self) -> None:
        """Device rows that still wait for a host process to belong to, operators for their functions."""
        self._flush_pending()
        if self._late is not None:
            self._resolve(self._late)

    def _learn(self) -> None:
        """Look at the strings that are new."""
        if not self._kineto:
            self._class = np.zeros(len(self._strings), np.int8)
            return
        first = len(self._class)
        texts = [self._strings.text(number) for number in range(first, len(self._strings))]
        if not texts:
            return
        classes = [_TABLES.index(table_of(text) or "tx") for text in texts]
        steps = [
            int(found[1]) if text.startswith("ProfilerStep") and (found := STEP.match(text)) else -1
            for text in texts
        ]
        self._class = np.concatenate((self._class, np.array(classes, np.int8)))
        self._step = np.concatenate((self._step, np.array(steps, np.int64)))
        self._device_annotation = np.concatenate(
            (self._device_annotation, np.array([text.startswith("gpu_") for text in texts], np.bool_))
        )

    def _durations(self, batch: Batch, at: Int64s) -> Int64s:
        """Durations of the whole batch, at least 0. Counts those that are missing, wrong or negative."""
        duration, state = batch.column("dur"), batch.column("dur_state")
        ok = (state[at] == GIVEN) & (duration[at] >= 0)
        if ok.all():
            return self._fitting(batch, at, duration)
        states = state[at]
        self._tally.repaired("duration_missing", int((states == ABSENT).sum()), "taken as 0")
        self._tally.repaired(
            "duration_no_number", int(((states != ABSENT) & (states != GIVEN)).sum()), "taken as 0"
        )
        self._tally.repaired(
            "duration_negative", int(((states == GIVEN) & (duration[at] < 0)).sum()), "taken as 0"
        )
        return self._fitting(batch, at, np.where((state == GIVEN) & (duration >= 0), duration, 0))

    def _fitting(self, batch: Batch, at: Int64s, duration: Int64s) -> Int64s:
        """Durations cut so that the ends fit int64."""
        room = _LAST_NS - np.maximum(batch.column("ts"), 0)
        beyond = int((duration[at] > room[at]).sum())
        if not beyond:
            return duration
        self._tally.clipped("end_beyond_int64", beyond, "such times are no more than 292 years from 0")
        fitting: Int64s = np.minimum(duration, room)
        return fitting

    def _inside(self, table: str, batch: Batch, rows: Int64s) -> Int64s:
        """The rows that belong to the chosen steps."""
        assert self._window is not None
        ts = batch.column("ts")[rows]
        inside: Bools
        if table in DEVICE_TABLES:
            inside = self._window.device(ts, *batch.values("correlation", rows))
        else:
            inside = self._window.host(ts)
        self._tally.asked("step", int((~inside).sum()), "left out by --steps")
        return rows[inside]

    def _paths(self, events: _Events, at: Int64s, classes: Int64s) -> Int32s | None:
        """By row of the batch the path of Python functions around it; None when no Python functions are
        traced.
        """
        if not self._kineto:
            return None
        python = classes == _PYTHON
        if self._late is not None:
            at = at[python]
            self._late.add_functions(
                identity_of(events.pid[at], events.tid[at]),
                events.batch.column("ts")[at],
                events.duration[at],
                events.batch.column("name")[at],
            )
            return None
        both = python | (classes == _OP)
        chosen = at[both]
        found = self._stacks.walk(
            self._stacks.tracks(identity_of(events.pid[chosen], events.tid[chosen])),
            events.batch.column("ts")[chosen],
            events.duration[chosen],
            np.where(python, events.batch.column("name")[at], -1)[both].astype(np.int32),
        )
        if found is None:
            return None
        paths = np.full(events.batch.rows, -1, np.int32)
        paths[chosen] = found
        return paths

    def _host(self, table: str, rows: Rows, events: _Events, paths: Int32s | None) -> None:
        pids, tids = events.pid[rows.at], events.tid[rows.at]
        name = rows.column("name")
        columns: dict[str, Any] = {
            "start_ns": rows.column("ts"),
            "duration_ns": self._nested(rows.column("ts"), events.duration[rows.at], pids, tids),
            "name": self._strings.names(name, ""),
            **self._place(rows, pids, tids),
        }
        if table == "tx":
            columns |= {"domain": self._category(rows, ""), "style": "PushPop", "task_id": 0}
        elif table == "step":
            columns["step"] = self._step[name]
        else:
            columns |= MAKERS[table](rows, self._category)
        columns["args"] = rows.args(self._keys)
        if table == "op" and self._late is not None:
            self._late.add(columns, identity_of(pids, tids), rows.column("ts"), events.duration[rows.at])
            if self._late.full:
                self._resolve(self._late)
                self._late = None
        else:
            if table == "op" and paths is not None:
                self._enclose(columns, paths[rows.at])
            self._append(table, columns, len(rows))
        if self.host_pid is None and table != "tx":
            self.host_pid = self._numbers.missing = int(pids[0])
            self._flush_pending()

    def _enclose(self, columns: Columns, paths: Int32s) -> None:
        """Stack and module of operators by the functions around them, where the trace states none."""
        if columns.get("stack") is None:
            columns["stack"] = self._stacks.texts(paths)
        if columns.get("module") is None:
            columns["module"] = self._stacks.modules(paths)

    def _resolve(self, late: LateOperators) -> None:
        """Write the operators that waited."""
        full = late.full
        for columns, paths in late.resolve():
            if paths is not None:
                self._enclose(columns, paths)
            rows = len(columns["start_ns"])
            if full:
                self._tally.unsupported(
                    "operator_before_functions", rows, "too many to wait for the Python functions around them"
                )
            self._append("op", columns, rows)

    def _place(self, rows: Rows, pids: Int64s, tids: Int64s) -> Columns:
        tids = self._threads(rows, tids)
        return {"process_id": self.host_keys(pids, tids), "thread_id": tids}

    def _threads(self, rows: Rows, tids: Int64s) -> Int64s:
        """Threads; a slice that our export moved away from others gets its own thread back."""
        if OWN_THREAD not in self._keys:
            return tids
        thread, there = rows.integers_there(OWN_THREAD)
        return np.where(there, thread, tids)

    def _nested(self, start: Int64s, duration: Int64s, pid: Int64s, tid: Int64s) -> Int64s:
        """Durations with what rounding made overlap trimmed (not under --on-error strict)."""
        track = track_numbers(pid, tid) if len(start) > 1 else np.zeros(len(start), np.int64)
        found = nest(track, start, duration, trim=not self._tally.strict)
        self._tally.clipped("overlap_by_rounding", found.trimmed, f"at most {ROUNDING_NS} ns cut off a slice")
        self._overlapping(found)
        return found.duration

    def _overlapping(self, found: Nested) -> None:
        self._tally.moved(
            "overlapping", found.overlapping, "slices of one thread or stream overlap: they get further lanes"
        )

    def _category(self, rows: Rows, default: str | None = None) -> pa.DictionaryArray:
        return self._strings.names(rows.column("cat"), default)

    def _device(self, table: str, rows: Rows, events: _Events) -> None:
        if self.host_pid is None:
            self._pending.append((table, rows, events))
            self._pending_rows += len(rows)
            if self._pending_rows > _PENDING_ROWS:
                self._flush_pending()
            return
        self._write_device(table, rows, events)

    def _flush_pending(self) -> None:
        pending, self._pending, self._pending_rows = self._pending, [], 0
        for table, rows, events in pending:
            self._write_device(table, rows, events)

    def _write_device(self, table: str, rows: Rows, events: _Events) -> None:
        """Device rows belong to the host process of the file; without one, to what the trace says."""
        if table == ANNOTATION:
            self._write_annotations(rows, events)
            return
        pids = events.pid[rows.at]
        host = self.host_pid
        columns = {
            "start_ns": rows.column("ts"),
            "duration_ns": events.duration[rows.at],
            "name": self._strings.names(rows.column("name"), ""),
            "process_id": self._numbers.keys(pids) if host is None else self._numbers.key(host),
            **MAKERS[table](rows, self._category),
        }
        if OWN_PROCESS in self._keys:
            process, there = rows.integers_there(OWN_PROCESS)
            if there.any():
                owners = np.broadcast_to(np.asarray(columns["process_id"]), pids.shape).copy()
                owners[there] = self._numbers.keys(process[there])
                columns["process_id"] = owners
        device, stream = columns["device_id"], columns["stream_id"]
        devices = as_numpy(pc.coalesce(device, from_numpy(np.array([-1]))[0]))
        track = track_numbers(devices, stream)
        self._overlapping(nest(track, columns["start_ns"], columns["duration_ns"], trim=False))
        places = _places(pids, devices, stream)
        self.devices.update((int(p), int(d), int(s)) for p, d, s in places.T if d >= 0)
        columns["args"] = rows.args(self._keys)
        self._append(table, columns, len(rows))

    def _write_annotations(self, rows: Rows, events: _Events) -> None:
        """Ranges of the host as the device saw them: ranges of the host process too, on a thread of their own
        for each stream, as several streams can be in the same range at a time.
        """
        pids, tids = events.pid[rows.at], self._threads(rows, events.tid[rows.at])
        device, stream = annotation_place(rows, pids, tids)
        owners = pids if self.host_pid is None else np.full(len(rows), self.host_pid)
        threads = annotation_threads(tids, device, stream)
        for pid, number, d, s in _places(owners, threads, device, stream).T.tolist():
            self.annotated.setdefault((pid, number), annotation_thread_name(d, s))
        columns: dict[str, Any] = {
            "start_ns": rows.column("ts"),
            "duration_ns": events.duration[rows.at],
            "name": self._strings.names(rows.column("name"), ""),
            "process_id": self.host_keys(owners, threads),
            "thread_id": threads,
            "domain": self._category(rows, ""),
            "style": "PushPop",
            "task_id": 0,
        }
        track = track_numbers(owners, threads)
        self._overlapping(nest(track, columns["start_ns"], columns["duration_ns"], trim=False))
        columns["args"] = rows.args(self._keys)
        self._append("tx", columns, len(rows))

    def _append(self, table: str, columns: dict[str, Any], rows: int) -> None:
        self._writer.append(
            table, {name: column for name, column in columns.items() if column is not None}, rows
        )
        self._tally.written(rows)


_STEPPABLE: Final = [_TABLES.index("tx"), _TABLES.index("op")]


def _places(*columns: Int64s) -> Int64s:
    """The distinct columns of a matrix whose columns seldom change from one to the next."""
    matrix = np.stack(columns)
    heads = np.flatnonzero(np.append(True, (np.diff(matrix, axis=1) != 0).any(axis=0)))
    return np.unique(matrix[:, heads], axis=1)
