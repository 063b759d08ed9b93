"""The flight recorder of a collector: takes requests and triggers, and has snapshots made of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from topstx.recorder import layout

from tops_kit.collect import chunk_format, finishing
from tops_kit.collect.flight import plan as plans
from tops_kit.collect.flight import snapshots
from tops_kit.collect.flight.plan import FlightPlan, Request
from tops_kit.collect.flight.retention import Window
from tops_kit.collect.flight.snapshots import Moment, OpenRanges
from tops_kit.collect.flight.triggers import OpenRange, Triggers
from tops_kit.collect.rings import unfinished_records
from tops_kit.errors import SessionError, UserError

if TYPE_CHECKING:
    from tops_kit.collect.collector import Collector
    from tops_kit.collect.convert import Sink

STREAM: Final = "snapshots"
NOT_MADE: Final = "dropped:failed"
HELD_BACK: Final = "dropped:held_back"

_LOOK_S: Final = 0.05
_SETTLE_S: Final = 0.7  # samples of the last half second come in a chunk of their own
_PATIENCE_S: Final = 2.0  # how long the writing thread may be busy before a snapshot makes us wait for it
_FORGET_S: Final = 2.0
_LISTED: Final = 100  # snapshots, in session.json


@dataclass(frozen=True, slots=True)
class _Wanted:
    request: Request
    since_s: float
    due_s: float


class _Seen:
    """A sink that shows rows to the triggers on their way."""

    def __init__(self, sink: Sink, flight: FlightRecorder) -> None:
        self._sink = sink
        self._flight = flight

    def append(self, table: str, columns: Mapping[str, Any], rows: int | None = None) -> None:
        if self._flight.triggers.see(table, columns):
            self._flight.collector.wake()
        self._sink.append(table, columns, rows)


class FlightRecorder:
    """What a collector does more when it keeps its last seconds only."""

    def __init__(self, collector: Collector, plan: FlightPlan) -> None:
        self.collector = collector
        self.plan = plan
        self.triggers = Triggers(plan)
        self.window = Window(collector.folder, plan.keep_s, plan.keep_bytes, collector.writer.ledger)
        self._wanted: list[_Wanted] = []
        self._last_look = 0.0
        self._asked = 0
        self._tidying = False
        self._told: list[dict[str, Any]] = []
        self._counted = 0

    # ---- hooks of the collector

    def sink(self, sink: Sink) -> Sink:
        """What the rows of a part go to."""
        return _Seen(sink, self) if self.triggers.rules else sink

    def look(self) -> None:
        """In each round of the drain loop."""
        now = time.monotonic()
        if now - self._last_look < _LOOK_S and not self._wanted:
            return
        self._last_look = now
        self.window.clock.run(self.collector.control.recording == layout.RECORDING_ON)
        settle = _SETTLE_S if (self.collector.folder / chunk_format.FOLDER).is_dir() else 0.0
        for request in self._requests():
            self._wanted.append(_Wanted(request, now, now + settle))
        due = [wanted for wanted in self._wanted if wanted.due_s <= now]
        if not due or self.collector.failure is not None:
            return
        if self.collector.writing.pending and now - due[0].due_s < _PATIENCE_S:
            return
        self._wanted = [wanted for wanted in self._wanted if wanted.due_s > now]
        self._take([wanted.request for wanted in due])

    def every_second(self) -> None:
        """About each second, for the drain loop."""
        self.collector.thin_clock(time.monotonic_ns() - round((self.plan.keep_s + _FORGET_S) * 1e9))
        if self.triggers.rules and not self.triggers.over:
            self.triggers.see_open(self._open_ranges())
        if not self._tidying:  # also beside other jobs: there is always one when the machine is busy
            self._tidying = True
            self.collector.writing.submit_job(self._tidy)

    def finish(self) -> None:
        """At the end, when all rows are in segments: make what is wanted still, and count."""
        wanted = [one.request for one in self._wanted] + self._requests()
        self._wanted = []
        if wanted:
            self._write(wanted, self._moment([]))
        with self.collector.part_writer.lock:
            self.window.age()
        self._count()

    def give_up(self, reason: str) -> None:
        """Nothing can be written any more: say so to those who wait."""
        for request in [*(one.request for one in self._wanted), *self._requests()]:
            plans.answer(self.collector.folder, request.key, {"error": reason})
        self._wanted = []

    # ---- what is wanted

    def _requests(self) -> list[Request]:
        found = []
        for request in plans.take_requests(self.collector.folder):
            if request.who == "program":
                self._asked += 1
                if self._asked > self.plan.ask_limit:
                    continue
            found.append(request)
        return found + self.triggers.take()

    def _open_ranges(self) -> list[OpenRange]:
        """What is open longer than the first rule says."""
        collector = self.collector
        now_ns = time.monotonic_ns()
        clock = collector.clock.freeze()
        least = min(rule.over_ns for rule in self.triggers.rules)
        found = []
        for ring in collector.open_rings(collector.table.rings):
            names = collector.processes.names.get(ring.process)
            row = collector.processes.by_serial.get(ring.process)
            if names is None or row is None:
                continue
            for one in ring.open_ranges():
                raw_ns = clock.to_ns(int(one["begin"]), ring.clock) - clock.origin_ns
                if now_ns - raw_ns <= least:
                    break  # they come in order of their begin
                numbers, _ = names.take_text(np.array([one["name"]]))
                attr = int(names.clip(np.array([one["attr"]]))[0])
                domain = int(names.domain[attr]) if attr else 0
                begin_ns = collector.session_ns(raw_ns, row.serial)
                texts = collector.texts
                found.append(
                    OpenRange(
                        row.process_id,
                        begin_ns,
                        now_ns - raw_ns,
                        texts.text(int(numbers[0])),
                        texts.text(domain),
                    )
                )
        return found

    # ---- making snapshots

    def _take(self, requests: Sequence[Request]) -> None:
        """Have all that is known by now in segments, and then snapshots of it. See `finishing` for how what
        is open is told from what has just ended.
        """
        collector = self.collector
        collector.wait_for_writer(len(collector.parts) - 2)
        collector.rotate()  # the active part holds only what comes from here on
        open_now = [(ring, ring.open_ranges()) for ring in collector.open_rings(collector.table.rings)]
        anchor = collector.take_anchor()
        collector.drain(wait=True)
        ended = finishing.begins(collector)
        ticks = {layout.CLOCK_MONOTONIC: anchor.monotonic_ns, layout.CLOCK_TSC: anchor.tsc}
        found = []
        for ring, ranges in open_now:
            still = ranges[~np.isin(ranges["begin"], ended)] if len(ended) else ranges
            if len(still):
                slots = unfinished_records(still, ticks[ring.clock])
                found.append(OpenRanges(collector.table.row(ring).copy(), slots))
        collector.wait_for_writer(len(collector.parts) - 2)
        collector.rotate()
        moment = self._moment(found)
        collector.writing.submit_job(lambda: self._write(requests, moment))

    def _moment(self, found: Sequence[OpenRanges]) -> Moment:
        collector = self.collector
        end_ns = collector.session_ns(time.monotonic_ns(), 0)
        return Moment(found, collector.clock.freeze(), end_ns - round(self.plan.keep_s * 1e9), end_ns)

    def _write(self, requests: Iterable[Request], moment: Moment) -> None:
        collector = self.collector
        with collector.part_writer.lock:
            if collector.part_writer.unflushed is None:
                collector.samples.take()
            self.window.age()
            for request in requests:
                self._write_one(request, moment)

    def _write_one(self, request: Request, moment: Moment) -> None:
        collector = self.collector
        try:
            path, rows = snapshots.write(collector, self.window, request, self.plan.output, moment)
        except (UserError, OSError, MemoryError) as error:  # the recording goes on
            collector.writer.ledger.count(STREAM, NOT_MADE, 1, str(error))
            plans.answer(collector.folder, request.key, {"error": str(error), "by": request.who})
            return
        collector.writer.ledger.count(STREAM, "written", 1)
        told: dict[str, Any] = {
            "path": str(path),
            "by": request.who,
            "why": request.text,
            "label": request.label,
            "rows": rows,
        }
        self._told = [*self._told, told][-_LISTED:]
        collector.writer.set_attribute("snapshots", self._told)
        plans.answer(collector.folder, request.key, told)

    # ---- keeping it small

    def _tidy(self) -> None:
        try:
            self._make_small()
        finally:
            self._tidying = False

    def _make_small(self) -> None:
        collector = self.collector
        if collector.control.recording != layout.RECORDING_ON:
            return
        with collector.part_writer.lock:
            if collector.part_writer.unflushed is not None:
                return
            self.window.age()
            try:
                self.window.merge()
            except SessionError:  # no room to make it smaller
                self.window.make_room()
            self._count()
            self._forget()
            old = self.window.outdated()
            if old:
                with collector.processes.lock:
                    collector.processes.append_to(collector.writer, everything=True)
                collector.part_writer.make_segments({})
                self.window.remove(old)

    def _forget(self) -> None:
        """Processes and threads that ended before the window, with their names, and anchors of the clock."""
        before_ns = time.monotonic_ns() - round((self.plan.keep_s + _FORGET_S) * 1e9)
        before = self.collector.session_ns(before_ns, 0)
        for row in self.collector.processes.forget(before):
            finishing.count_process(self.collector, row, self.collector.writer.ledger, "process:earlier")
            self.collector.samples.forget(row)
            for names in row.names:
                with contextlib.suppress(OSError):
                    names.path.unlink()

    def _count(self) -> None:
        """What was not made of all that was asked for."""
        held = self.triggers.held_back + max(self._asked - self.plan.ask_limit, 0)
        note = "asked for within the cool-down, or past the limit (--when-cooldown, --when-limit)"
        self.collector.writer.ledger.count(STREAM, HELD_BACK, held - self._counted, note)
        self._counted = held
