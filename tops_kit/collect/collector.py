"""The collector: takes records out of the rings of a session folder, and makes segments of them, until it
is told to stop.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from topstx.recorder import layout

from tops_kit.collect import chunk_format, finishing, journal, state
from tops_kit.collect.arrays import Array
from tops_kit.collect.backend import Loops
from tops_kit.collect.clock import Anchor, ClockFile, ClockTable, take_anchor
from tops_kit.collect.control import Control
from tops_kit.collect.convert import Converter
from tops_kit.collect.cuts import CutFile
from tops_kit.collect.discovery import Discovery
from tops_kit.collect.flight import plan as plans
from tops_kit.collect.journal import Part
from tops_kit.collect.names import ProcessNames, Texts
from tops_kit.collect.processes import Processes, Row
from tops_kit.collect.rings import Ring, RingTable, unfinished_records
from tops_kit.collect.samples import SampleTables
from tops_kit.collect.sweeping import Sweeper
from tops_kit.collect.writing import PartWriter, WritingThread
from tops_kit.session import SessionWriter

if TYPE_CHECKING:
    from tops_kit.collect.flight.plan import FlightPlan
    from tops_kit.collect.flight.recorder import FlightRecorder

STOPPED_EARLY = "dropped:stopped_early"  # code of the ledger
FLUSH_S = 1.0
_ANCHOR_NS = 900_000_000
_LIFECYCLE_S = 0.1  # how often states of rings are looked at
_IDLE_S = 0.01  # a fresh burst fills the largest ring in about this time
_QUIET_S = 0.05  # ... and when nothing came for a while
_QUIET_AFTER_S = 2.0
_HEARTBEAT_S = 0.05
_BUSY_SLOTS = 512
_OWN_TABLE_STATES = (layout.RING_LIVE, layout.RING_IDLE, layout.RING_RETIRED)


class Collector:
    """One recording. `run` drains until `should_stop`; `finish` takes all that is left and closes the
    session.

    Two threads share the work: this one moves records from rings to the active journal part, the other one
    makes segments of full parts. When all parts are full the rings fill, and the producers' policy decides:
    memory is bounded.
    """

    def __init__(
        self,
        folder: Path,
        *,
        control: Control,
        writer: SessionWriter,
        loops: Loops,
        parts: list[Part],
        clock: ClockTable,
    ) -> None:
        self.folder = folder
        self.control = control
        self.writer = writer
        # Each segment says which part of the journal it holds. One that came in between wouldn't, and its
        # rows would be there twice after a crash. A part bounds how many rows there are.
        writer.flushes_itself = False
        self.loops = loops
        self.clock = clock
        self.clock_file = ClockFile(folder)
        self.texts = Texts(loops)
        self.processes = Processes(folder, self.texts)
        self.table = RingTable()
        self.processes.has_rings = lambda serial: any(ring.process == serial for ring in self.table.rings)
        self.discovery = Discovery(
            folder, self.processes, self.table, note=self.note, start_ns=self._start_ns
        )
        self.cut_file = CutFile(folder)
        self.converter = Converter(loops, self.processes, self.texts, self.cut_file)
        self.converter.devices.from_json(writer.attributes.get("devices"))
        if control.rows_off >> layout.KIND_RANGE & 1:
            self.converter.unwanted = frozenset({"tx", "counter"})
        self.parts = parts
        self.active = 0
        generation = max(part.generation for part in parts) + 1
        self.part_writer = PartWriter(writer, self.converter, self.processes, generation)
        self.samples = SampleTables(self)
        self._last_samples = time.monotonic()
        self.sweeper = Sweeper()
        self.flight: FlightRecorder | None = None
        self.failure: Exception | None = None
        self._failure_noted = False
        self.state = state.State()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self.poller = select.poll()
        self.poller.register(self._wake_read, select.POLLIN)
        self.leash: int | None = None
        slots = len(parts[0].memory) // layout.RECORD_BYTES
        self.writing = WritingThread(self.part_writer, self.wake, lambda: self.part_writer.warm_up(slots))
        self.every_second: Callable[[], None] = lambda: None
        self._next_ring = 0
        self._last_second = 0.0
        self._last_flush = self._last_lifecycle = self._last_data = time.monotonic()

    # ---- small things

    def note(self, stream: str, what: str, count: int, text: str) -> None:
        """A ledger entry."""
        # Names of files that are no UTF-8 can't go into JSON as they are.
        self.state.notes.append([stream, what, count, text.encode("utf-8", "backslashreplace").decode()])

    def wake(self) -> None:
        """Interrupt the sleep of `run`; for signal handlers and other threads."""
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"x")

    @property
    def part(self) -> Part:
        """The part that takes records now."""
        return self.parts[self.active]

    def _start_ns(self, names: ProcessNames) -> int:
        return self.session_ns(int(names.header["start_monotonic_ns"]), names.serial)

    def session_ns(self, monotonic_ns: int, serial: int) -> int:
        """CLOCK_MONOTONIC to session time, ns, for the process of that serial."""
        cuts = self.cut_file.read()
        if not cuts.changes:
            return self.clock.session_ns(monotonic_ns)
        mapped = int(cuts.map(np.array([monotonic_ns], np.int64), serial)[0])
        return mapped if cuts.model else self.clock.session_ns(mapped)

    def beat(self) -> None:
        """Tell the producers that their records are being taken."""
        self.control.heartbeat = time.monotonic_ns()

    def take_anchor(self) -> Anchor:
        anchor = take_anchor(self.loops)
        if self.clock.add(anchor):
            self.clock_file.append(anchor)
        return self.clock.last

    def fly(self, plan: FlightPlan) -> None:
        """Keep the last seconds only, as planned. UserError for a rule that is none."""
        from tops_kit.collect.flight.recorder import FlightRecorder

        self.flight = self.part_writer.flight = FlightRecorder(self, plan)

    def thin_clock(self, before_ns: int) -> None:
        """Forget what the clock was before that time of CLOCK_MONOTONIC: no record from then will come."""
        if self.clock.thin(before_ns):
            with contextlib.suppress(OSError):  # a full disk: the file goes on as it is
                self.clock_file.rewrite(self.clock.anchors)

    # ---- the loop

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Drain until `should_stop` says so (asked at least every 50 ms) or writing fails (see `failure`)."""
        while not should_stop() and self.failure is None:
            try:
                copied = self.round()
            except Exception as error:  # a full disk, or a fault of ours: nothing that was published is lost
                self.failure = error
                break
            self._sleep(copied)

    def round(self) -> int:
        """One look at everything; returns how many slots were taken."""
        self.beat()
        now = time.monotonic()
        if time.monotonic_ns() - self.clock.last.monotonic_ns > _ANCHOR_NS:
            self.take_anchor()
        self._watch(self.discovery.look())
        copied = self.drain(wait=False)
        if now - self._last_lifecycle > _LIFECYCLE_S:
            self._last_lifecycle = now
            self.end_processes()
            self.retire_rings()
        if now - self._last_flush > FLUSH_S and self.part.used and not self.writing.pending:
            self.rotate()
        if now - self._last_samples > FLUSH_S and not self.writing.busy:
            self._last_samples = now
            if chunk_format.pending(self.folder):
                self.writing.submit_job(self._take_samples)
        if self.flight is not None:
            self.flight.look()
        if self.writing.failure is not None:
            self.failure = self.writing.failure
        if now - self._last_second > 1.0:
            self._last_second = now
            self.every_second()
        return copied

    def look(self, *, last: bool = False) -> None:
        """Take up all files that are new by now. `last`: what is unfinished stays so."""
        self._watch(self.discovery.look(force=True, last=last))

    def note_failure(self) -> None:
        """Say in the ledger that recording stopped early, also to a later recovery where there is room for
        that.
        """
        if self.failure is None or self._failure_noted:
            return
        self._failure_noted = True
        self.note("collector", STOPPED_EARLY, 1, f"recording stopped early: {self.failure}")
        with contextlib.suppress(OSError):
            self.save_state()

    def idle(self, should_stop: Callable[[], bool]) -> None:
        """Wait until `should_stop`, taking nothing and without a heartbeat: the disk is full."""
        while not should_stop():
            self._look_at_ends()
            self._pause(_QUIET_S)

    def _look_at_ends(self) -> None:
        """Note which processes ended, so that their exit statuses are known; what they left stays where it
        is.
        """
        for row in self.processes.rows.values():
            if row.watch is not None and not row.watch.alive():
                row.watch.exit_status()

    def _sleep(self, copied: int) -> None:
        now = time.monotonic()
        if copied:
            self._last_data = now
        if copied > _BUSY_SLOTS:
            pause = 0.0005
        else:
            pause = _IDLE_S if now - self._last_data < _QUIET_AFTER_S else _QUIET_S
        self._pause(pause)

    def _pause(self, pause: float) -> None:
        for descriptor, _ in self.poller.poll(max(1, round(pause * 1000))):
            if descriptor == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            elif descriptor != self.leash:
                self._last_lifecycle = 0.0  # a process ended: look at once
                self.poller.unregister(descriptor)

    def _watch(self, rows: list[Row]) -> None:
        for row in rows:
            if row.watch is not None and row.watch.fd is not None:
                self.poller.register(row.watch.fd, select.POLLIN)
        if rows:
            self.save_state()

    def drain(self, *, wait: bool, final: bool = False) -> int:
        """Copy what the rings have into the journal; with `wait`, all of it, however long the other part
        takes.
        """
        total = 0
        while self.failure is None:
            count = len(self.table)
            start = self._next_ring if self._next_ring < count else 0
            index, copied = self.loops.copy(
                self.table.memories, self.table.table, self.part.memory, start, final
            )
            total += copied
            for ring in self.table.take_bad():
                self.note(
                    "collector",
                    "dropped:ring_file",
                    1,
                    f"ring file {ring.path.name}: its counters make no sense; skipped",
                )
            if index >= count:
                # The next round begins where this one did not: no ring is served last for ever.
                self._next_ring = 0
                if start == 0:
                    break
                continue
            self._next_ring = index
            if not self.rotate():
                if not wait:
                    break
                self.wait_for_writer(len(self.parts) - 2)
        return total

    def rotate(self) -> bool:
        """Give the active part to the writer and go on with the next; False while that is not free."""
        if self.writing.pending > len(self.parts) - 2 or self.failure is not None:
            return False
        self._last_flush = time.monotonic()
        if self.part.used == 0:
            return True
        if self.processes.changed:
            self.save_state()
        self.take_anchor()  # later than all that is in the part
        self.writing.submit(self.part, self.clock.freeze())
        self.active = (self.active + 1) % len(self.parts)
        return True

    def wait_for_writer(self, pending: int = 0) -> None:
        """Wait until at most so many parts are pending, with the heart beating. The writer's failure
        becomes ours.
        """
        while not self.writing.wait(pending, _HEARTBEAT_S):
            self.beat()
        if self.writing.failure is not None:
            self.failure = self.writing.failure

    def _take_samples(self) -> None:
        with self.part_writer.lock:
            if self.part_writer.unflushed is None:
                self.samples.take()

    def save_state(self) -> None:
        with self.processes.lock:
            self.state.processes = self.processes.to_json()
            self.processes.changed = False
        self.state.save(self.folder)

    # ---- ends of rings and of processes

    def retire_rings(self) -> None:
        """Delete drained rings that their producers left."""
        gone: list[Ring] = []
        for ring in self.table.rings:
            state_ = ring.field("state")
            if state_ in (layout.RING_SUPERSEDED, layout.RING_RETIRED) and self.table.drained(ring):
                gone.append(ring)
        if gone:
            self.finish_rings(gone, lambda ring: finishing.last_tick(self, ring.process, [ring]))

    def end_processes(self) -> None:
        """Find processes that ended, and take what they left; all at once, as a look costs more with each."""
        ended = self._ended()
        if not ended:
            return
        self.look()  # what they made since the last look
        mine = {names.serial for row in ended for names in row.names}
        rings = [ring for ring in self.table.rings if ring.process in mine]
        if rings:
            self.drain(wait=True, final=True)
        if self.failure is not None:
            return
        anchor = self.take_anchor()
        for row in ended:
            self._unwatch(row)
            with self.processes.lock:
                self.processes.end(row, self.session_ns(anchor.monotonic_ns, row.serial))
        ticks = {layout.CLOCK_MONOTONIC: anchor.monotonic_ns, layout.CLOCK_TSC: anchor.tsc}
        self.finish_rings(rings, lambda ring: ticks[ring.clock])
        self.save_state()

    def _ended(self) -> list[Row]:
        """Rows of processes whose end has not been dealt with."""
        with self.processes.lock:
            return [
                row
                for row in self.processes.rows.values()
                if row.watch is not None and (row.ended or not row.watch.alive())
            ]

    def _unwatch(self, row: Row) -> None:
        if row.watch is not None and row.watch.fd is not None:
            with contextlib.suppress(KeyError):  # it woke us already
                self.poller.unregister(row.watch.fd)

    def finish_rings(self, rings: list[Ring], end_tick: Callable[[Ring], int]) -> None:
        """Record what drained rings left open as unfinished, keep their counts, and delete them."""
        for ring in self.open_rings(rings):
            self.take_open(ring, ring.open_ranges(), end_tick(ring))
        if self.failure is not None:
            return
        for ring in rings:
            row = self.processes.by_serial.get(ring.process)
            if row is not None:
                for key in row.counts:
                    row.counts[key] += ring.field(key)
        if not rings:
            return
        # Their counts are in the state now, with their names: a recovery leaves those alone that are still
        # there.
        self.state.rings_done = sorted({ring.path.name for ring in rings} | self.sweeper.pending)
        self.save_state()
        self.table.remove(set(rings))
        for ring in rings:
            # Unmapped first: the blocks of a file are freed by whoever lets go of it last, and that takes
            # long.
            with contextlib.suppress(BufferError):
                ring.memory.close()
        self.sweeper.remove(ring.path for ring in rings)

    def open_rings(self, rings: Iterable[Ring]) -> list[Ring]:
        """Those whose open table counts: it wasn't taken yet, and no successor has taken it over."""
        taken_over = self.table.predecessors()
        return [
            ring
            for ring in rings
            if not ring.open_taken
            and ring.field("state") in _OWN_TABLE_STATES
            and (ring.process, ring.serial) not in taken_over
        ]

    def take_open(self, ring: Ring, ranges: Array, end_tick: int) -> None:
        """Put ranges that were left open into the journal, once."""
        row = self.table.row(ring)
        for begin in range(0, len(ranges), 4096):
            slots = unfinished_records(ranges[begin : begin + 4096], end_tick)
            while not self.part.append_open(row, slots):
                if not self.rotate():
                    self.wait_for_writer(len(self.parts) - 2)
                if self.failure is not None:
                    return
        ring.mark_open_taken()

    def anyone_left(self) -> bool:
        """Whether a recorded process runs, one that has only just begun included."""
        self.look()
        return self.processes.any_alive()

    def hold_leash(self, descriptor: int) -> None:
        """Wake when the other end of this pipe is closed; the caller asks `should_stop`."""
        self.leash = descriptor
        self.poller.register(descriptor, select.POLLIN)

    def drop_leash(self) -> None:
        """Look at it no longer: it was closed."""
        if self.leash is not None:
            self.poller.unregister(self.leash)
            self.leash = None

    def close_pipes(self) -> None:
        os.close(self._wake_read)
        # A signal may still come, and the number may belong to another file by then.
        closed, self._wake_write = self._wake_write, -1
        os.close(closed)


def begin(folder: Path, control: Control, writer: SessionWriter, loops: Loops) -> Collector:
    """A collector for a new recording. SessionError or OSError when its files can't be made."""
    file = ClockFile(folder)
    file.create()
    anchor = take_anchor(loops)
    file.append(anchor)
    parts = journal.create_parts(folder, loops)
    collector = Collector(
        folder, control=control, writer=writer, loops=loops, parts=parts, clock=ClockTable([anchor])
    )
    plan = plans.load(folder)
    if plan is not None:
        collector.fly(plan)
    return collector
