"""The file `cuts` of a recording: where session time leaves the raw clock, and the mapping of raw times.

Rows that the runtime writes have session time already; ranges, marks and counters have raw time. A record may
be mapped only once all cuts before it are in the file, that is, after it was copied out of its ring.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from topstx.recorder import cuts as shared
from topstx.recorder import layout

from tops_kit.collect.arrays import Int64

FILE = shared.FILE
_ENTRY = np.dtype([(name, "<i8") for name in layout.CUT_FIELDS])
_STUCK_S = 0.1  # longer than a writer takes: it was killed or stopped, and the entries say how far it came
_HIDDEN_SHARE = 0.01


class Entries(NamedTuple):
    """Columns of entries, in order of begin_raw."""

    begin: Int64
    end: Int64
    session_begin: Int64
    session_end: Int64


_NO_ENTRIES = Entries(*(np.empty(0, np.int64) for _ in range(4)))


@dataclass(frozen=True, slots=True)
class Cuts:
    """What the file said at one moment. `tables`: by process serial in model mode, else of the key 0."""

    model: bool = False
    used: bool = False  # by any process
    tables: Mapping[int, Entries] = field(default_factory=dict)
    open_begin: int = 0  # of a cut that is not over; 0: none
    open_session: int = 0
    facts: Mapping[str, int] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether session time is anything else than raw time."""
        return self.model or bool(self.tables) or self.open_begin != 0

    def map(self, raw: Int64, serial: int) -> Int64:
        """Times of CLOCK_MONOTONIC to session time, ns; `serial` is the process's. Monotone."""
        if not self.changes:
            return raw
        table = self.tables.get(serial if self.model else 0, _NO_ENTRIES)
        mapped: Int64 = _by_entries(raw, table, 0 if self.model else 1)
        if self.open_begin and not self.model:
            mapped = np.where(raw >= self.open_begin, self.open_session, mapped)
        return mapped


def _by_entries(raw: Int64, table: Entries, slope: int) -> Int64:
    if not len(table.begin):
        return raw * slope
    at = np.searchsorted(table.begin, raw, "right") - 1
    before, at = at < 0, np.maximum(at, 0)
    past = raw - table.end[at]
    mapped: Int64 = table.session_end[at] + np.maximum(past, 0) * slope
    within = np.flatnonzero((past < 0) & ~before)
    if len(within):
        entry, time_ns = at[within], raw[within]
        low, high = table.session_begin[entry], table.session_end[entry]
        length = np.maximum(table.end[entry] - table.begin[entry], 1)
        share = (time_ns - table.begin[entry]) / length
        mapped[within] = low + np.floor(share * (high - low)).astype(np.int64)
    mapped[before] = raw[before] * slope
    return mapped


class _Table:
    """Entries that grow; what was given out stays as it was."""

    def __init__(self) -> None:
        self._size = 0
        self._columns = np.empty((4, 1024), np.int64)

    def add(self, entries: Any) -> None:
        count = len(entries)
        if self._size + count > self._columns.shape[1]:
            grown = np.empty((4, max(2 * self._columns.shape[1], self._size + count)), np.int64)
            grown[:, : self._size] = self._columns[:, : self._size]
            self._columns = grown
        for row, name in enumerate(layout.CUT_FIELDS[:4]):
            self._columns[row, self._size : self._size + count] = entries[name]
        self._size += count

    def view(self) -> Entries:
        return Entries(*self._columns[:, : self._size])


class CutFile:
    """Reads the cuts of a session folder, as far as they are, again and again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._tables: dict[int, _Table] = {}
        self._read = 0
        self._header: mmap.mmap | None = None
        self._last = Cuts()
        self._lock = threading.Lock()

    def read(self) -> Cuts:
        """The cuts so far; none when the session has no such file, or a damaged one."""
        with self._lock:
            return self._read_on()

    def _read_on(self) -> Cuts:
        header = self._mapped()
        if header is None:
            return self._last
        facts = self._facts(header)
        count = facts["entries"]
        if count > self._read:
            self._take(count)
        model = facts["mode"] == layout.CUTS_MODEL
        begin = facts["open_begin"]
        tables = {serial: table.view() for serial, table in self._tables.items()}
        if begin and not model and tables and tables[0].begin[-1] == begin:
            begin = 0  # it is over: its writer was killed before it could say so
        self._last = Cuts(model, facts["processes"] > 0, tables, begin, facts["open_session"], facts)
        return self._last

    def _mapped(self) -> mmap.mmap | None:
        if self._header is None:
            try:
                with self._path.open("rb") as file:
                    header = mmap.mmap(file.fileno(), layout.PAGE, prot=mmap.PROT_READ)
            except (OSError, ValueError):
                return None
            magic, version, mode = struct.unpack_from("<8sII", header)
            if magic != layout.CUTS_MAGIC or version != layout.LAYOUT_VERSION or mode > layout.CUTS_MODEL:
                return None
            self._header = header
        return self._header

    def _facts(self, header: mmap.mmap) -> dict[str, int]:
        """The header at a moment when nobody changes it."""
        at = layout.CUTS_OFFSET["sequence"]
        until = time.monotonic() + _STUCK_S
        while True:
            before = header[at : at + 8]
            data = header[: layout.PAGE]
            settled = header[at : at + 8] == before and not before[0] & 1
            if settled or time.monotonic() > until:
                values = struct.unpack_from(layout.CUTS_FORMAT, data)
                return dict(zip(layout.CUTS_FIELDS[1:-1], values[1:-1], strict=True))
            time.sleep(0)

    def _take(self, count: int) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(
                descriptor,
                (count - self._read) * layout.CUT_BYTES,
                layout.CUTS_ENTRIES_OFFSET + self._read * layout.CUT_BYTES,
            )
        finally:
            os.close(descriptor)
        entries = np.frombuffer(data[: len(data) - len(data) % layout.CUT_BYTES], _ENTRY)
        self._read += len(entries)
        serials = entries["process_serial"].view(np.uint64)
        for serial in np.unique(serials).tolist():
            table = self._tables.setdefault(serial, _Table())
            table.add(entries[serials == serial])


def summary(
    cuts: Cuts, wall_ns: int, waiting_ns: int, profiler_ns: int = 0, saving_ns: int = 0
) -> dict[str, Any]:
    """How the time of a recording divides, for session.json: wall = host + waiting + simulator + profiler.

    `waiting_ns` is session time that programs waited for a device; of it, what was jumped over took none of
    the wall. `profiler_ns` is what recording cost the programs, as far as that was measured; of it
    `saving_ns` lay within cuts. The sums are of all processes.
    """
    jumped = cuts.facts["jumped_ns"]
    simulator = max(cuts.facts["simulator_ns"] - saving_ns, 0)
    waited = 0 if cuts.model else max(waiting_ns - jumped, 0)
    rest = max(wall_ns - waited - simulator, 0)
    profiler = min(profiler_ns, rest)
    return {
        "mode": shared.MODES[cuts.model],
        "wall_ns": wall_ns,
        "host_ns": rest - profiler,
        "waiting_ns": waited,
        "simulator_ns": simulator,
        "profiler_ns": profiler,
        "jumped_ns": jumped,
        "hidden_ns": cuts.facts["hidden_ns"],
        "order": "measured" if cuts.facts["order_measured"] else "exact" if cuts.model else "",
    }


def marks(cuts: Cuts, wall_ns: int) -> list[tuple[str, int, str]]:
    """(code, count, note) for the ledger of what makes session time less than exact."""
    found = []
    hidden = cuts.facts["hidden_ns"]
    if hidden > _HIDDEN_SHARE * wall_ns:
        share = 100 * hidden / max(wall_ns, 1)
        found.append(
            (
                "repaired:hidden_host_time",
                1,
                f"other threads and processes used {hidden / 1e6:.3f} ms of processor time ({share:.1f} % of "
                "the wall time) while the simulator stopped session time: that much of them is not seen",
            )
        )
    if cuts.facts["lost_entries"]:
        note = "the disk was full: session times are off by these cuts"
        found.append(("dropped:cuts", cuts.facts["lost_entries"], note))
    if cuts.facts["order_measured"]:
        note = "several threads moved the model's clock: their order is as measured, not repeatable"
        found.append(("repaired:order_measured", 1, note))
    if cuts.model and len(cuts.tables) > 1:
        note = (
            "in TOPS_CLOCK=model each process has a clock of its own, from 0, and each device for itself: "
            "their times are not to be compared"
        )
        found.append(("repaired:own_clocks", len(cuts.tables), note))
    return found
