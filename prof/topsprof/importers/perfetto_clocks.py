"""Clocks of a Perfetto trace: from each packet's time stamp to ns of the trace's own clock.

A snapshot gives the same moment in several clocks. Clocks 64-127 belong to a sequence, and may be
incremental: then a stamp is a difference to the one before on the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6
Key = tuple[int, int]  # (sequence, or 0 for a clock of the whole trace; clock id)


def key_of(sequence: int, clock: int) -> Key:
    """The identity of a packet's clock."""
    return (sequence if 64 <= clock < 128 else 0, clock)


@dataclass(frozen=True, slots=True)
class ClockValue:
    """One clock of a snapshot: its reading in ns, and how its stamps count."""

    ns: int
    multiplier: int = 1
    incremental: bool = False


@dataclass
class Clocks:
    """All snapshots so far."""

    primary: int = BOOTTIME
    snapshots: list[dict[Key, ClockValue]] = field(default_factory=list)

    def add(self, values: dict[Key, ClockValue], primary: int) -> None:
        """One more snapshot; `primary` is the clock of the trace, 0 when the snapshot does not say."""
        if primary:
            self.primary = primary
        self.snapshots.append(values)

    def to_trace(self, ns: Int64s, key: Key) -> Int64s | None:
        """Readings of a clock in the trace's clock, by the latest snapshot before each; None when no snapshot
        relates them."""
        if key == (0, self.primary):
            return ns
        pairs = [
            (shot[key].ns, shot[0, self.primary].ns)
            for shot in self.snapshots
            if key in shot and (0, self.primary) in shot
        ]
        if not pairs:
            return self._by_another(ns, key)
        ours, theirs = (np.array(column, np.int64) for column in zip(*sorted(pairs), strict=True))
        place = np.maximum(np.searchsorted(ours, ns, "right") - 1, 0)
        return ns + (theirs - ours)[place]

    def _by_another(self, ns: Int64s, key: Key) -> Int64s | None:
        """By way of a clock that shares a snapshot with this one, and another with the trace's."""
        trace = {other for shot in self.snapshots if (0, self.primary) in shot for other in shot}
        for shot in self.snapshots:
            if key in shot:
                for other in shot.keys() & trace:
                    return self.to_trace(ns + (shot[other].ns - shot[key].ns), other)
        return None


@dataclass
class SequenceClocks:
    """The clocks of one sequence: what its latest snapshot said, and where its incremental ones stand."""

    values: dict[int, ClockValue] = field(default_factory=dict)

    def define(self, clock: int, value: ClockValue) -> None:
        self.values[clock] = value

    def read(self, clock: int, stamps: npt.NDArray[Any]) -> Int64s:
        """Stamps of consecutive packets as ns of that clock. An incremental clock moves on."""
        value = self.values.get(clock)
        ns = stamps.astype(np.int64)
        if value is None:
            return ns
        ns = ns * value.multiplier
        if value.incremental and len(ns):
            ns = np.cumsum(ns) + value.ns
            self.values[clock] = ClockValue(int(ns[-1]), value.multiplier, True)
        return ns
