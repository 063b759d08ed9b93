"""The processes of a recording: who they are, when and how they ended, and what of them was lost.

A process has an *incarnation* (a serial, a names file, rings) for each producer: after exec it is another
process to us although its pid stays, while two producers that live in one process (an extension and a C
library, say) are one row.
"""

from __future__ import annotations

import contextlib
import platform
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topstx.recorder import layout

from tops_kit.collect import system
from tops_kit.collect.names import NamesError, ProcessNames, Texts, missing_names
from tops_kit.session import SessionWriter

_BACKENDS = {layout.BACKEND_C: "C", layout.BACKEND_TWIN: "twin", layout.BACKEND_HEADER: "header"}
_PROCESS_COLUMNS = (
    "process_id", "pid", "parent_id", "name", "command", "host", "start_ns", "end_ns", "exit_status",
    "ended_by", "runtime", "recorder",
)  # fmt: skip
_COUNTS = ("dropped", "blocked_ns", "unbalanced")


@dataclass(slots=True, eq=False)
class Row:
    """One process: a row of table `process`, its threads and its counts."""

    process_id: int
    pid: int
    proc_start: int
    parent_id: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    exit_status: int | None = None
    ended_by: str | None = None
    exe: str = ""
    threads: dict[int, list[int | None]] = field(default_factory=dict)  # thread -> [begin, end], ns
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    written: int = 0
    names: list[ProcessNames] = field(default_factory=list)
    watch: system.Watch | None = None
    changed: bool = True  # since its row was written last
    changed_threads: set[int] = field(default_factory=set)
    facts: dict[str, str] = field(default_factory=dict)  # what a sampler found of it: argv, python
    thread_names: dict[int, str] = field(default_factory=dict)  # as a sampler read them
    number: int = 0  # of all processes of the recording, from 1

    @property
    def ended(self) -> bool:
        return self.ended_by is not None

    @property
    def serial(self) -> int:
        """Of its first incarnation; 0 when no names file tells."""
        return self.names[0].serial if self.names else 0

    @property
    def recorder(self) -> str | None:
        known = {_BACKENDS.get(int(names.header["backend"]), "") for names in self.names} - {""}
        return ", ".join(sorted(known)) or None

    def fact(self, key: str) -> str | None:
        """A PROCESS entry of one of its producers, else what a sampler found."""
        said = next((names.process[key] for names in self.names if key in names.process), None)
        return said if said is not None else self.facts.get(key)

    def see_thread(self, tid: int, begin: int | None = None, end: int | None = None) -> None:
        """Take note of a thread; its begin is the earliest that was seen, its end the latest."""
        if tid not in self.threads:
            self.threads[tid] = [None, None]
            self.changed_threads.add(tid)
        times = self.threads[tid]
        if begin is not None and (times[0] is None or begin < times[0]):
            times[0] = begin
            self.changed_threads.add(tid)
        if end is not None and (times[1] is None or end > times[1]):
            times[1] = end
            self.changed_threads.add(tid)


def _over(end_ns: int | None, before_ns: int) -> bool:
    return end_ns is not None and end_ns < before_ns


def _read_headers(row: Row) -> None:
    """Read again what the producers of a process say of themselves; what can't be read stays as it was."""
    for names in row.names:
        if not names.damaged:
            with contextlib.suppress(NamesError):
                names.read_header()


def _read_names(row: Row) -> None:
    """The same, and what they noted since: of a process without records nothing else reads it."""
    for names in row.names:
        if not names.damaged:
            with contextlib.suppress(NamesError, FileNotFoundError):
                names.refresh()


class Processes:
    """All processes of a recording, by id and by serial of their incarnations."""

    def __init__(self, folder: Path, texts: Texts) -> None:
        self.folder = folder
        self.texts = texts
        self.rows: dict[int, Row] = {}
        self.by_serial: dict[int, Row] = {}
        self._numbers = 0
        self.names: dict[int, ProcessNames] = {}
        self.changed = False  # since the collector saved its state
        self.has_rings: Callable[[int], bool] = lambda serial: False  # of an incarnation, by serial
        # Held by whoever reads or changes rows, threads of rows, or names: the drain loop and the writing
        # thread.
        self.lock = threading.RLock()

    def add(self, names: ProcessNames, start_ns: int | None, *, watch: bool = True) -> Row:
        """Take up an incarnation whose names file has been opened."""
        header = names.header
        serial, pid, proc_start = names.serial, int(header["pid"]), int(header["proc_start"])
        self.names[serial] = names
        row = self.by_serial.get(serial)
        if row is None:
            row = self._same_process(serial, pid, proc_start)
        if row is None:
            row = self._new(pid, proc_start, start_ns)
            row.parent_id = self._parent(header)
        row.names.append(names)
        row.changed = True
        self.by_serial[serial] = row
        if watch and not row.ended and row.watch is None:
            row.watch = system.Watch(pid, proc_start)
            row.exe = system.executable(pid)
        self.changed = True
        return row

    def add_unknown(self, serial: int, pid: int) -> Row:
        """Take up an incarnation whose names file is missing or damaged."""
        return self.add(
            missing_names(self.folder / layout.names_file_name(serial), self.texts, serial, pid), None
        )

    def add_sampled(self, pid: int, proc_start: int, start_ns: int, facts: Mapping[str, Any]) -> Row:
        """Take up a process that nobody records but a sampler; `facts` may have its argv and python."""
        row = self._new(pid, proc_start, start_ns)
        row.facts = {key: str(facts[key]) for key in ("argv", "python", "executable") if facts.get(key)}
        parent = system.stat(pid)
        living = [
            one for one in self.rows.values() if parent and one.pid == parent.parent_pid and not one.ended
        ]
        row.parent_id = next((one.process_id for one in reversed(living) if one is not row), None)
        row.watch = system.Watch(pid, proc_start)
        row.exe = system.executable(pid)
        self.changed = True
        return row

    def _new(self, pid: int, proc_start: int, start_ns: int | None) -> Row:
        self._numbers += 1
        row = Row(self._free_id(pid), pid, proc_start, start_ns=start_ns, number=self._numbers)
        self.rows[row.process_id] = row
        return row

    def _free_id(self, pid: int) -> int:
        process_id, again = pid, 0
        while process_id in self.rows:
            again += 1
            process_id = pid + (again << 32)
        return process_id

    def _same_process(self, serial: int, pid: int, proc_start: int) -> Row | None:
        """The living row that a new incarnation belongs to; None when there is none. One that went by exec
        is ended here.
        """
        for row in self.rows.values():
            if row.ended or row.pid != pid or row.proc_start != proc_start or proc_start == 0:
                continue
            # Rings stay mapped as long as their program runs; one without rings has at least said that it
            # execs.
            rings = [f"{names.serial:016x}-" for names in row.names if self.has_rings(names.serial)]
            mapped = system.maps_any(pid, rings) if rings else None
            _read_headers(row)
            execs = bool(row.names) and all(int(names.header["exit_known"]) == 2 for names in row.names)
            if mapped is False or (mapped is None and execs):
                row.ended_by = "exec"
                row.changed = True
                return None
            return row
        return None

    def _parent(self, header: dict[str, Any]) -> int | None:
        parent = self.by_serial.get(int(header["parent_serial"]))
        if parent is not None:
            return parent.process_id
        pid = int(header["parent_pid"])
        for _ in range(32):  # processes between that are not recorded, e.g. shells
            found = [row for row in self.rows.values() if row.pid == pid]
            if found:
                return next((row for row in found if not row.ended), found[-1]).process_id
            status = system.stat(pid)
            if status is None or status.parent_pid <= 1:
                return None
            pid = status.parent_pid
        return None

    def end(self, row: Row, end_ns: int | None) -> None:
        """Find out how a process ended, from the kernel or from what it said itself."""
        _read_names(row)
        said = [names.header for names in row.names]
        exit_ = row.watch.exit_status() if row.watch is not None else None
        if row.ended_by is None:
            if said and all(int(header["exit_known"]) == 2 for header in said):
                row.ended_by = "exec"  # what its successor's exit status was is not its own
            elif exit_ is not None:
                row.exit_status = exit_
                row.ended_by = "signal" if exit_ < 0 else "exit"
            else:
                known = [int(header["exit_status"]) for header in said if int(header["exit_known"]) == 1]
                row.exit_status = known[0] if known else None
                row.ended_by = (
                    "exit"
                    if known
                    else "exec"
                    if any(int(header["exit_known"]) == 2 for header in said)
                    else "unknown"
                )
        row.end_ns = end_ns
        row.changed = True
        if row.watch is not None:
            row.watch.close()
            row.watch = None
        self.changed = True

    def forget(self, before_ns: int) -> list[Row]:
        """Take out those that ended before this session time, and threads that did; the processes. Whose
        names a living process began with, stays.
        """
        with self.lock:
            wanted = {
                int(names.header["parent_serial"])
                for row in self.rows.values()
                if not _over(row.end_ns if row.ended else None, before_ns)
                for names in row.names
            }
            gone = [
                row
                for row in self.rows.values()
                if row.ended
                and _over(row.end_ns, before_ns)
                and not any(names.serial in wanted or self.has_rings(names.serial) for names in row.names)
            ]
            for row in gone:
                del self.rows[row.process_id]
                for names in row.names:
                    self.by_serial.pop(names.serial, None)
                    self.names.pop(names.serial, None)
            for row in self.rows.values():
                for tid in [tid for tid, times in row.threads.items() if _over(times[1], before_ns)]:
                    del row.threads[tid]
                    row.thread_names.pop(tid, None)
                    for names in row.names:
                        names.threads.pop(tid, None)
            self.changed = self.changed or bool(gone)
        return gone

    def any_alive(self) -> bool:
        """Whether a recorded process still runs."""
        return any(row.watch is not None and row.watch.alive() for row in self.rows.values())

    def append_to(self, writer: SessionWriter, *, everything: bool = False, mark: bool = True) -> None:
        """Write the rows of processes and threads that changed since the last call, or all. Without `mark`
        the next call writes what changed all the same.
        """
        changed = [(row, row.changed, set(row.changed_threads)) for row in self.rows.values()]
        tables = [
            ("process", self._process_table(everything)),
            ("thread", self._thread_table(everything)),
        ]
        if not mark:
            for row, was_changed, threads in changed:
                row.changed = was_changed
                row.changed_threads |= threads
        for table, columns in tables:
            if columns["process_id"]:
                writer.append(table, columns)

    def _process_table(self, everything: bool) -> dict[str, list[Any]]:
        """Columns of table `process`: rows that changed since the last call, or all."""
        host = platform.node()
        columns: dict[str, list[Any]] = {key: [] for key in _PROCESS_COLUMNS}
        for row in self.rows.values():
            if not row.changed and not everything:
                continue
            row.changed = False
            executable = row.fact("executable") or row.exe
            values = (
                row.process_id, row.pid, row.parent_id, row.fact("name") or Path(executable).name or None,
                row.fact("argv"), host, row.start_ns, row.end_ns, row.exit_status, row.ended_by,
                row.fact("python"), row.recorder,
            )  # fmt: skip
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        return columns

    def _thread_table(self, everything: bool) -> dict[str, list[Any]]:
        """Columns of table `thread`: rows that changed since the last call, or all."""
        columns: dict[str, list[Any]] = {
            key: [] for key in ("process_id", "thread_id", "name", "start_ns", "end_ns")
        }
        for row in self.rows.values():
            titles: dict[int, str] = dict(row.thread_names)
            for names in row.names:
                titles |= names.threads
            tids = sorted({*row.threads, *titles}) if everything else sorted(row.changed_threads)
            row.changed_threads.clear()
            for tid in tids:
                begin, end = row.threads.get(tid, [None, None])
                values = (row.process_id, tid, titles.get(tid), begin, row.end_ns if end is None else end)
                for column, value in zip(columns.values(), values, strict=True):
                    column.append(value)
        return columns

    def to_json(self) -> list[dict[str, Any]]:
        """What recovery needs to go on, as JSON values."""
        return [
            {
                "process_id": row.process_id, "pid": row.pid, "proc_start": row.proc_start,
                "parent_id": row.parent_id, "start_ns": row.start_ns, "end_ns": row.end_ns,
                "exit_status": row.exit_status, "ended_by": row.ended_by, "exe": row.exe,
                "counts": row.counts, "facts": row.facts, "number": row.number,
                "serials": [names.serial for names in row.names],
            }
            for row in self.rows.values()
        ]  # fmt: skip

    def from_json(self, values: list[dict[str, Any]]) -> None:
        """Restore what `to_json` gave; their names files come by `add`. KeyError, TypeError or ValueError
        when malformed.
        """
        for value in values:
            row = Row(
                int(value["process_id"]), int(value["pid"]), int(value["proc_start"]), value["parent_id"],
                value["start_ns"], value["end_ns"], value["exit_status"], value["ended_by"],
                str(value["exe"]),
            )  # fmt: skip
            row.facts = {str(key): str(fact) for key, fact in value.get("facts", {}).items()}
            row.number = int(value.get("number", len(self.rows) + 1))
            self._numbers = max(self._numbers, row.number)
            row.counts.update({key: int(count) for key, count in value["counts"].items()})
            self.rows[row.process_id] = row
            for serial in value["serials"]:
                self.by_serial[int(serial)] = row
