"""Ticks of recorded programs to session time.

Session time is ns since the Unix epoch: the real time at which the recording began plus the progress of
CLOCK_MONOTONIC since, so that setting the machine's clock while recording moves nothing. Rings carry
CLOCK_MONOTONIC itself or the time stamp counter; for the counter the collector takes anchors (tsc,
monotonic, realtime) at least each second, and between two anchors time is linear.

Anchors go to the file `clock` of the session folder as they are taken, so that a crashed recording can be
converted later.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from topstx.recorder import layout

from tops_kit.collect.arrays import Array, Int64
from tops_kit.collect.backend import Loops

FILE = "clock"
_MAGIC = b"TOPSCLK1"
_HEADER_BYTES = 64
_TRIES = 5
_WORTH_THINNING = 600


@dataclass(frozen=True, slots=True)
class Anchor:
    """One moment on three clocks. `tsc` is 0 where the counter can't be read; the others are ns."""

    tsc: int
    monotonic_ns: int
    realtime_ns: int


def take_anchor(loops: Loops) -> Anchor:
    """Read the clocks as close together as a few tries allow."""
    best: tuple[int, Anchor] | None = None
    for _ in range(_TRIES):
        try:
            before = loops.read_tsc()
        except OSError:
            return Anchor(0, time.monotonic_ns(), time.time_ns())
        monotonic = time.monotonic_ns()
        after = loops.read_tsc()
        anchor = Anchor((before + after) // 2, monotonic, time.time_ns())
        if best is None or after - before < best[0]:
            best = (after - before, anchor)
    assert best is not None
    return best[1]


def invariant_tsc(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the time stamp counter runs at one rate in all states of the processor, on all cores."""
    try:
        with cpuinfo.open(encoding="ascii", errors="replace") as file:
            lines = [set(line.split(":", 1)[1].split()) for line in file if line.startswith("flags")]
    except OSError:
        return False
    return bool(lines) and all({"constant_tsc", "nonstop_tsc"} <= flags for flags in lines)


def best_clock(loops: Loops) -> int:
    """The clock that a new session should use: CLOCK_TSC when it is invariant and we can read it, else
    CLOCK_MONOTONIC.
    """
    try:
        loops.read_tsc()
    except OSError:
        return layout.CLOCK_MONOTONIC
    return layout.CLOCK_TSC if invariant_tsc() else layout.CLOCK_MONOTONIC


def boot_id() -> str:
    """Names the present run of the system: anchors of another one don't fit. Empty when unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Pieces(NamedTuple):
    """From `ticks[i]` on, session time is ns[i] + (tick - ticks[i]) * slope[i], and at most ns[i + 1]."""

    ticks: Int64
    ns: Int64
    slope: Array


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock table that no longer changes: its pieces by clock (CLOCK_MONOTONIC, CLOCK_TSC)."""

    by_clock: dict[int, Pieces]
    origin_ns: int = 0  # session time less CLOCK_MONOTONIC, cuts aside

    def pieces(self, clock: int) -> Pieces:
        """The pieces of one clock. KeyError for an unknown one."""
        return self.by_clock[clock]

    def to_ns(self, tick: int, clock: int) -> int:
        """One tick to session time, ns."""
        from tops_kit.collect.drain import to_ns

        return int(to_ns(np.array([tick], np.uint64), *self.pieces(clock))[0])


class ClockTable:
    """Anchors, and the pieces made of them."""

    def __init__(self, anchors: list[Anchor]) -> None:
        if not anchors:
            raise ValueError("a clock table needs an anchor")
        self.first = anchors[0]
        self._rows: list[Anchor] = []
        for anchor in anchors:
            self.add(anchor)

    def add(self, anchor: Anchor) -> bool:
        """Take up an anchor; False when it isn't later than the last one (it would bend time)."""
        if self._rows:
            last = self._rows[-1]
            if anchor.monotonic_ns <= last.monotonic_ns or (anchor.tsc <= last.tsc and anchor.tsc != 0):
                return False
        self._rows.append(anchor)
        return True

    def __len__(self) -> int:
        return len(self._rows)

    def thin(self, before_ns: int) -> bool:
        """Forget anchors from before a time of CLOCK_MONOTONIC, the first aside; whether it was worth it."""
        old = sum(1 for row in self._rows if row.monotonic_ns < before_ns) - 2  # one ends the first piece
        if old < _WORTH_THINNING:
            return False
        # A new list: another thread may be making pieces of the old one.
        self._rows = [self._rows[0], *self._rows[1 + old :]]
        return True

    @property
    def anchors(self) -> list[Anchor]:
        """All anchors, oldest first."""
        return list(self._rows)

    @property
    def last(self) -> Anchor:
        return self._rows[-1]

    def freeze(self) -> Clock:
        """The present pieces of both clocks."""
        monotonic = Pieces(
            np.array([self.first.monotonic_ns], np.int64),
            np.array([self.first.realtime_ns], np.int64),
            np.array([1.0]),
        )
        return Clock(
            {layout.CLOCK_MONOTONIC: monotonic, layout.CLOCK_TSC: self._counter() or monotonic},
            self.first.realtime_ns - self.first.monotonic_ns,
        )

    def _counter(self) -> Pieces | None:
        rows = np.array([(row.tsc, row.monotonic_ns) for row in self._rows if row.tsc], np.int64).reshape(
            -1, 2
        )
        if len(rows) == 0:
            return None
        ticks, monotonic = rows[:, 0].copy(), rows[:, 1].copy()
        ns = monotonic - self.first.monotonic_ns + self.first.realtime_ns
        if len(rows) == 1:
            return Pieces(ticks, ns, np.array([1.0]))
        slope = np.diff(monotonic) / np.diff(ticks)
        # Past the last anchor time goes on at the mean rate: a single short piece would be less exact.
        mean = (monotonic[-1] - monotonic[0]) / (ticks[-1] - ticks[0])
        return Pieces(ticks, ns, np.append(slope, mean))

    def session_ns(self, monotonic_ns: int) -> int:
        """CLOCK_MONOTONIC to session time, ns."""
        return monotonic_ns - self.first.monotonic_ns + self.first.realtime_ns

    def to_json(self) -> dict[str, Any]:
        """The table as kept in session.json (attribute `clock`): thinned to one anchor a second."""
        rows, last = [], 0
        for index, row in enumerate(self._rows):
            if index in (0, len(self._rows) - 1) or row.monotonic_ns - last >= 1_000_000_000:
                rows.append([row.tsc, row.monotonic_ns, row.realtime_ns])
                last = row.monotonic_ns
        return {"columns": ["tsc", "monotonic_ns", "realtime_ns"], "anchors": rows}


class ClockFile:
    """The anchors on disk: 64 bytes of header, then three int64 each."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def create(self) -> None:
        """Begin the file. Raises OSError."""
        self.path.write_bytes((_MAGIC + boot_id().encode()[:48]).ljust(_HEADER_BYTES, b"\0"))

    def append(self, anchor: Anchor) -> None:
        """Add an anchor. One small write: a kill leaves all of it or nothing that a reader takes. Raises
        OSError.
        """
        row = np.array([anchor.tsc, anchor.monotonic_ns, anchor.realtime_ns], np.int64).tobytes()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, row)
        finally:
            os.close(descriptor)

    def rewrite(self, anchors: list[Anchor]) -> None:
        """Have only these anchors in the file, at once. Raises OSError."""
        temporary = self.path.with_suffix(".new")
        rows = [(row.tsc, row.monotonic_ns, row.realtime_ns) for row in anchors]
        head = (_MAGIC + boot_id().encode()[:48]).ljust(_HEADER_BYTES, b"\0")
        temporary.write_bytes(head + np.array(rows, np.int64).tobytes())
        temporary.replace(self.path)

    def read(self) -> tuple[list[Anchor], bool]:
        """(anchors, whether they are of the present run of the system); no anchors when the file is missing
        or damaged.
        """
        try:
            data = self.path.read_bytes()
        except OSError:
            return [], False
        if data[:8] != _MAGIC:
            return [], False
        same_boot = data[8:_HEADER_BYTES].rstrip(b"\0").decode("ascii", "replace") == boot_id() != ""
        body = data[_HEADER_BYTES : len(data) - (len(data) - _HEADER_BYTES) % 24]
        return [Anchor(*row) for row in np.frombuffer(body, "<i8").reshape(-1, 3).tolist()], same_boot
