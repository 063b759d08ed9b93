"""How processes that share a device see each other's use of its engines: a calendar of reservations."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Reservation:
    """So many units of an engine, from `start_ns` to `end_ns`; `holder` is which process."""

    engine: str
    units: int
    start_ns: int
    end_ns: int
    holder: int = 0


class Occupancy(Protocol):
    """One device's engines, as all processes that use it see them.

    Session time; processes that share a device share a time base. Engine names are those of operations.
    """

    def reserve(self, engine: str, units: int, ready_ns: int, duration_ns: int) -> Reservation:
        """Takes units of an engine from the first time, not before `ready_ns`, at which they are free for so
        long."""

    def begin(self, reservation: Reservation, now_ns: int) -> int:
        """The holder wants to start at `now_ns`: then, or later where others took longer than they said."""

    def change_end(self, reservation: Reservation, end_ns: int) -> None:
        """It takes longer, or less long, than reserved: sharing of bandwidth."""


class LocalOccupancy:
    """The calendar within one process: for several simulations of one device that one thread moves."""

    KEPT = 4096  # reservations an engine remembers

    def __init__(self, clusters: int) -> None:
        self._clusters = clusters
        self._engines: dict[str, list[Reservation]] = {}  # in order of start

    def reserve(self, engine: str, units: int, ready_ns: int, duration_ns: int) -> Reservation:
        held = self._engines.setdefault(engine, [])
        start_ns = _first_free(held, units, self._capacity(engine), ready_ns, duration_ns)
        out = Reservation(engine, units, start_ns, start_ns + duration_ns)
        bisect.insort(held, out, key=lambda r: r.start_ns)
        if len(held) > self.KEPT:
            del held[0]
        return out

    def begin(self, reservation: Reservation, now_ns: int) -> int:
        held = self._engines[reservation.engine]
        others = [r for r in held if r is not reservation and r.start_ns <= now_ns]
        duration_ns = reservation.end_ns - reservation.start_ns
        # who comes later in the calendar gives way; who has begun does not
        start_ns = _first_free(others, reservation.units, self._capacity(reservation.engine), now_ns, 1)
        reservation.start_ns, reservation.end_ns = start_ns, start_ns + duration_ns
        held.sort(key=lambda r: r.start_ns)
        return start_ns

    def change_end(self, reservation: Reservation, end_ns: int) -> None:
        reservation.end_ns = end_ns

    def _capacity(self, engine: str) -> int:
        return self._clusters if engine == "clusters" else 1


def _first_free(held: list[Reservation], units: int, capacity: int, ready_ns: int, duration_ns: int) -> int:
    """When `units` are free for `duration_ns`, at the earliest at `ready_ns`."""
    start_ns = ready_ns
    while True:
        end_ns = start_ns + max(duration_ns, 1)
        over = [r for r in held if r.start_ns < end_ns and r.end_ns > start_ns]
        # use only changes where a reservation begins: the times at which it can be too much
        for at_ns in sorted({start_ns, *(r.start_ns for r in over if r.start_ns > start_ns)}):
            at = [r for r in over if r.start_ns <= at_ns < r.end_ns]
            if sum(r.units for r in at) + units > capacity:
                start_ns = min(r.end_ns for r in at)
                break
        else:
            return start_ns
