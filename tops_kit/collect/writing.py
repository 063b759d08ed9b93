"""The writing side of the collector: a thread that makes segments of journal parts, one part at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tops_kit.collect.clock import Clock
from tops_kit.collect.convert import Converter, Sink
from tops_kit.collect.journal import Part
from tops_kit.collect.processes import Processes
from tops_kit.errors import SessionError
from tops_kit.session import SessionWriter

if TYPE_CHECKING:
    from tops_kit.collect.flight.recorder import FlightRecorder

META = "journal"  # key of a segment's meta: its table holds the journal up to this generation


def journal_of(user: Mapping[str, Any]) -> int:
    """The generation that a segment's meta tells; of a merged segment the highest of its parts. 0: none."""
    merged = user.get("merged", [])
    return max([int(user.get(META, 0)), *(journal_of(part) for part in merged if isinstance(part, Mapping))])


class TableFilter:
    """A sink that passes on only some tables: those that don't yet hold the part that is converted again."""

    def __init__(self, writer: SessionWriter, leave_out: set[str]) -> None:
        self._writer = writer
        self._leave_out = leave_out

    def append(self, table: str, columns: Mapping[str, Any], rows: int | None = None) -> None:
        if table not in self._leave_out:
            self._writer.append(table, columns, rows)


class PartWriter:
    """Converts a part, flushes, and gives the part back empty. All use of the SessionWriter goes through
    `lock`.
    """

    def __init__(
        self, writer: SessionWriter, converter: Converter, processes: Processes, generation: int
    ) -> None:
        self.writer = writer
        self.lock = threading.Lock()
        self._converter = converter
        self._processes = processes
        self._next_generation = generation
        self.parts_written = 0
        self.flight: FlightRecorder | None = None
        self.unflushed: Part | None = None  # converted, but not in segments yet: the disk was full

    def warm_up(self, slots: int) -> None:
        """Get memory for parts of this many slots, so that the first one is as quick as the later ones."""
        with self.lock:
            self._converter.warm_up(slots)

    def write(self, part: Part, clock: Clock, leave_out: set[str] | None = None) -> None:
        """Segments of one part. Once they have their names the part is emptied, under a new generation.

        Each segment's meta says which generation it holds, so a kill at any moment neither loses nor
        repeats rows.
        """
        with self.lock:
            generation = part.generation
            sink: Sink = TableFilter(self.writer, leave_out or set())
            if self.flight is not None:
                sink = self.flight.sink(sink)
            self._converter.convert(part.memory, part.blocks(), clock, sink)
            self._append_processes()
            if self._converter.devices.changed:
                self.writer.set_attribute("devices", self._converter.devices.to_json())
                self._converter.devices.changed = False
            self.unflushed = part
            self._flush(part, generation)

    def flush(self, part: Part) -> None:
        """Flush again after `write` failed for this part: its rows are still buffered."""
        with self.lock:
            self._flush(part, part.generation)

    def _flush(self, part: Part, generation: int) -> None:
        self.make_segments({META: generation})
        self.unflushed = None
        self._converter.reset()
        part.restart(self._next_generation)
        self._next_generation += 1
        self.parts_written += 1

    def make_segments(self, meta: Mapping[str, Any]) -> None:
        """Segments of what the session's writer has buffered. For whoever holds the lock. SessionError."""
        window = self.flight.window if self.flight is not None else None
        while True:
            try:
                names = self.writer.flush(level="raw", meta=meta)
                break
            except SessionError:
                # Of a session that keeps its last seconds only, the newest are worth more than the oldest.
                if window is None or not window.make_room():
                    raise
                window.add(window.unknown())  # some tables may have been written before the disk was full
        if window is not None:
            window.add(names)

    def restart_all(self, parts: Sequence[Part], generation: int) -> None:
        """Give all (empty) parts new generations, in order, none below this one."""
        self._next_generation = max(self._next_generation, generation)
        for part in parts:
            part.restart(self._next_generation)
            self._next_generation += 1

    def _append_processes(self) -> None:
        """Rows of processes and threads that changed; a reader merges them by key, later ones win."""
        with self._processes.lock:
            self._processes.append_to(self.writer)


class WritingThread:
    """Runs PartWriter.write beside the drain loop, part by part in the order in which they were handed
    over.
    """

    def __init__(
        self, part_writer: PartWriter, wake: Callable[[], None], warm_up: Callable[[], None]
    ) -> None:
        self._part_writer = part_writer
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pending = 0
        self._jobs = 0
        self._wake = wake
        self._warm_up = warm_up
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="tops-collect-write", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Parts that were handed over and are not empty yet."""
        return self._pending

    def wait(self, pending: int, timeout_s: float) -> bool:
        """Wait until at most this many parts are pending; False at the time limit."""
        with self._changed:
            return self._changed.wait_for(lambda: self._pending <= pending, timeout_s)

    def submit(self, part: Part, clock: Clock) -> None:
        """Hand over a part; it is no longer the caller's until it isn't pending."""
        with self._changed:
            self._pending += 1
        self._queue.put(lambda: self._write(part, clock))

    def submit_job(self, job: Callable[[], None]) -> None:
        """Do something else between parts. What it raises is a failure to write."""
        with self._changed:
            self._jobs += 1
        self._queue.put(lambda: self._do(job))

    @property
    def busy(self) -> bool:
        """Whether a job of `submit_job` is not done yet."""
        return self._jobs > 0

    def stop(self) -> None:
        """End the thread when it has done what it was given."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._warm_up()
        except Exception as error:  # no memory: told like a part that can't be written
            self.failure = error
        while (job := self._queue.get()) is not None:
            try:
                job()
            except Exception as error:  # whatever it is, the drain loop must hear of it and stop
                self.failure = error
            self._wake()

    def _write(self, part: Part, clock: Clock) -> None:
        try:
            if self.failure is None:
                self._part_writer.write(part, clock)
        except Exception as error:  # before anybody hears that the part is done
            self.failure = error
        finally:
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()

    def _do(self, job: Callable[[], None]) -> None:
        try:
            if self.failure is None:
                job()
        finally:
            with self._changed:
                self._jobs -= 1
