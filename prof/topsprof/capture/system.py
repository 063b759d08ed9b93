"""Counters of processes, read from outside ten times a second: processor, memory, threads, context switches.

It is a thread of topsprof's own, beside the one that samples; its values travel in chunks as samples do.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from topstx.recorder import layout

from tops_kit.collect import chunk_format
from topsprof.capture import attached, process_table
from topsprof.capture.chunks import ChunkNumbers

if TYPE_CHECKING:
    from tops_kit.collect.control import Control

PERIOD_S: Final = 0.1
_BATCH_S: Final = 0.5
_LOOK_S: Final = 1.0  # how often to look for processes that left their parents
_SHARE: Final = 20  # reading may take 1/20 of a processor: with very many processes it is done less often
_MOST_TASKS: Final = 64  # threads whose context switches are read each time
_RARELY: Final = 10  # of more threads, each so many times
_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

NAMES: Final = (
    ("CPU", "%"),
    ("Resident memory", "bytes"),
    ("Threads", "threads"),
    ("Context switches", "1/s"),
)
"""The counters, and their units. 100 % is one core."""


@dataclass(slots=True)
class _Watched:
    """A process, from one program that it runs to the next."""

    pid: int
    proc_start: int
    incarnation: int
    executable: str
    begin_ns: int = 0
    cpu_ns: int | None = None
    time_ns: int = 0
    switches: dict[int, int] = field(default_factory=dict)  # by thread
    switched_ns: int = 0
    turn: int = 0
    rows: list[tuple[int, int, float]] = field(default_factory=list)  # time, number of the counter, value


def cpu_time_ns(pid: int) -> int | None:
    """Time that all threads of a process, ended ones included, spent on processors; None: it is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)  # the process's clock, as clock_getcpuclockid gives it
    except OSError:
        return None


class SystemService:
    """Reads counters of what `roots` gives, and of what they start, until `stop`."""

    def __init__(
        self, folder: Path, control: Control, roots: Callable[[], list[int]], numbers: ChunkNumbers
    ) -> None:
        self.failure = ""
        self._folder = folder
        self._control = control
        self._roots = roots
        self._numbers = numbers
        self._watched: dict[tuple[int, int], _Watched] = {}
        self._incarnations = 0
        self._ours = process_table.command_line(os.getpid())
        self._apart: set[int] = set()  # that record, and need not be descendants
        self._next_look = self._next_batch = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topsprof-system", daemon=True)

    def start(self) -> None:
        """Begin. Signals are for the other threads."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self) -> None:
        """Hand over what was read, and end."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            (self._folder / chunk_format.FOLDER).mkdir(exist_ok=True)
            due = time.monotonic()
            while not self._end.is_set():
                begin, cost = time.monotonic(), time.thread_time()
                if self._control.recording == layout.RECORDING_ON:
                    self._read_all(begin)
                else:
                    self._watched = {key: one for key, one in self._watched.items() if one.rows}
                    for one in self._watched.values():
                        one.cpu_ns = None
                if begin >= self._next_batch:
                    self._next_batch = begin + _BATCH_S
                    self._hand_over()
                now = time.monotonic()
                cost = time.thread_time() - cost
                due = max(due + PERIOD_S, begin + cost * _SHARE)
                if now > due + PERIOD_S:  # we were late: no hurry to catch up
                    due = now
                self._end.wait(max(due - now, 0.001))
            if self._control.recording == layout.RECORDING_ON:
                self._read_all(time.monotonic())
            self._hand_over()
        except Exception as error:  # of whatever kind: the program and its recording go on, and it is told
            self.failure = f"system counters ended: {type(error).__name__}: {error}"

    def _read_all(self, now: float) -> None:
        if now >= self._next_look:
            self._next_look = now + _LOOK_S
            self._apart = attached.living(self._folder)
        pids = dict.fromkeys(self._roots())
        for root in list(pids):
            pids |= dict.fromkeys(process_table.descendants(root))
        pids |= dict.fromkeys(self._apart)
        for pid in pids:
            self._read(pid)

    def _read(self, pid: int) -> None:
        try:
            text = Path(f"/proc/{pid}/stat").read_bytes()
            pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
        except (OSError, IndexError):
            return  # it ended
        fields = text[text.rindex(b")") + 2 :].split()
        if fields[0] in (b"Z", b"X"):
            return
        now_ns = time.monotonic_ns()
        if (pid, int(fields[19])) not in self._watched and process_table.command_line(pid) == self._ours:
            return  # it is to become the program
        one = self._known(pid, int(fields[19]), now_ns)
        cpu_ns = cpu_time_ns(pid)
        if cpu_ns is None:
            return
        if one.cpu_ns is not None and now_ns > one.time_ns:
            # the value holds from a row on: what the last interval had stands at its begin
            share = (cpu_ns - one.cpu_ns) / (now_ns - one.time_ns) * 100
            one.rows.append((one.time_ns, 0, max(share, 0.0)))
        one.cpu_ns, one.time_ns = cpu_ns, now_ns
        one.rows.append((now_ns, 1, float(pages * _PAGE)))
        threads = int(fields[17])
        one.rows.append((now_ns, 2, float(threads)))
        if threads <= _MOST_TASKS or one.turn % _RARELY == 0:
            self._read_switches(one, now_ns)
        one.turn += 1

    def _known(self, pid: int, start: int, now_ns: int) -> _Watched:
        executable = process_table.executable(pid)
        one = self._watched.get((pid, start))
        if one is not None and one.executable == executable:
            return one
        self._incarnations += 1
        if one is not None:
            self._put(one)
        # Samplers number theirs from 1 on: these are the negative ones.
        found = _Watched(pid, start, -self._incarnations, executable, 0 if one is None else now_ns)
        if one is not None:
            found.begin_ns = one.time_ns
        self._watched[pid, start] = found
        return found

    @staticmethod
    def _read_switches(one: _Watched, now_ns: int) -> None:
        switches: dict[int, int] = {}
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one.pid}/task").iterdir():
                with contextlib.suppress(OSError, ValueError):
                    text = (task / "status").read_bytes()
                    at = text.index(b"voluntary_ctxt_switches:")
                    words = text[at:].split()
                    switches[int(task.name)] = int(words[1]) + int(words[3])
        if one.switched_ns and switches:
            new = sum(max(count - one.switches.get(task, 0), 0) for task, count in switches.items())
            one.rows.append((one.switched_ns, 3, new / (now_ns - one.switched_ns) * 1e9))
        one.switches, one.switched_ns = switches, now_ns

    def _hand_over(self) -> None:
        for key, one in list(self._watched.items()):
            self._put(one)
            if process_table.start_time(one.pid) != one.proc_start:
                del self._watched[key]

    def _put(self, one: _Watched) -> None:
        if not one.rows:
            return
        rows, one.rows = one.rows, []
        words = process_table.command_line(one.pid).rstrip(b"\0").split(b"\0")
        facts = {
            "argv": json.dumps([word.decode("utf-8", "backslashreplace") for word in words]),
            "executable": one.executable,
            "host": platform.node(),
            "counters": {"names": NAMES, "rows": rows},
        }
        with self._numbers.next() as number:
            chunk = chunk_format.Chunk(
                incarnation=one.incarnation,
                pid=one.pid,
                proc_start=one.proc_start,
                begin_ns=one.begin_ns,
                period_ns=round(PERIOD_S * 1e9),
                facts=facts,
                rows=0,
                columns=dict.fromkeys(chunk_format.COLUMNS, b""),
                first_stack=0,
                stacks=b"",
                number=number,
            )
            try:
                chunk_format.write(self._folder, chunk)
            except OSError as error:
                self.failure = f"system counters: some could not be written: {error.strerror or error}"
