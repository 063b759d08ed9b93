"""How processes that share a device see each other's use of it: a calendar of what was promised to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from tops_kit.gcu.simulation.calendar import Capacity, Side, Use, place, uses_of
from tops_kit.gcu.specification import Specification

R = TypeVar("R")


@dataclass(slots=True)
class Reservation:
    """An operation's place in time, in this process's session ns: it does not change any more."""

    start_ns: int
    end_ns: int


class Want(NamedTuple):
    """What an operation wants of one device: units of an engine, and bytes by resource."""

    occupancy: Occupancy
    engine: str
    units: int
    demand: Mapping[str, int]


class Occupancy(Protocol):
    """One device as all processes that use it see it. Times are this process's session ns.

    `watched` and `slot` are addresses for _quick.c, which asks as `alone` does (0: it can't).
    """

    watched: int
    slot: int

    @property
    def order(self) -> int:
        """Of two that are changed together, the lower comes first."""

    @property
    def capacity(self) -> Capacity:
        """What the device has."""

    @property
    def shared(self) -> bool:
        """Whether other processes use the device, as far as is known without asking."""

    def renew(self) -> None:
        """This process has another session time from now on."""

    def alone(self, until_ns: int) -> bool:
        """Whether no other process uses the device; this one does, until then, without a reservation."""

    def publish(self, uses: Sequence[Use]) -> None:
        """What this process has in flight without reservations: it is not alone any more."""

    def locked(self, function: Callable[[], R]) -> R:
        """Calls a function while no other process can change what was promised."""

    def change(self, ready_ns: int, function: Callable[[list[Use], int], R]) -> R:
        """Calls `function(uses, ready_ns)`, when locked, with what was promised and from when on room may be
        looked for; uses that it appends are promised then."""

    def drop(self, begin_ns: int) -> None:
        """What this process has from then on is not needed: it was reset."""


def reserve(wants: Sequence[Want], ready_ns: int, duration_ns: int) -> Reservation:
    """Finds and takes a place for an operation, on one device or (a copy between two) on both."""
    if len(wants) == 2 and wants[0].occupancy.order > wants[1].occupancy.order:
        wants = (wants[1], wants[0])

    def choose(k: int, ready_ns: int, sides: tuple[Side, ...]) -> Reservation:
        if k < len(wants):
            want = wants[k]

            def with_uses(uses: list[Use], ready_ns: int) -> Reservation:
                capacity = want.occupancy.capacity
                units = min(want.units, capacity.units(want.engine))
                side = Side(uses, capacity, want.engine, units, want.demand)
                return choose(k + 1, ready_ns, (*sides, side))

            return want.occupancy.change(ready_ns, with_uses)
        # clusters that it lacks (somebody reserved them meanwhile) it makes up for by time
        lacks = max(
            (-(-want.units // side.units) for want, side in zip(wants, sides, strict=True) if side.units),
            default=1,
        )
        longer_ns = duration_ns * lacks
        found = place(sides, ready_ns, longer_ns)
        for side in sides:
            assert isinstance(side.uses, list)
            side.uses.extend(uses_of(side, found, longer_ns))
        return Reservation(found.begin_ns, found.end_ns)

    def hold(k: int) -> Reservation:
        if k == len(wants):
            return choose(0, ready_ns, ())
        occupancy = wants[k].occupancy
        if k and occupancy.order == wants[k - 1].occupancy.order:  # slices of one device
            return hold(k + 1)
        return occupancy.locked(lambda: hold(k + 1))

    return hold(0)


def capacity_of(spec: Specification, common: int | None = None) -> Capacity:
    """What a part has; `common`: how many SIPs nobody has for himself (None: all)."""
    pcie = spec.pcie_bytes_per_s / 1e9
    return Capacity(
        spec.sips,
        (spec.l3_bytes_per_s / 1e9, pcie, pcie, spec.link_bytes_per_s / 1e9),
        spec.sips if common is None else common,
    )


class LocalOccupancy:
    """The calendar within one process: for several simulations of one device that one thread moves."""

    KEPT = 4096  # uses that it remembers

    def __init__(self, spec: Specification) -> None:
        self.capacity = capacity_of(spec)
        self.watched = self.slot = 0
        self.order = id(self)
        self.uses: list[Use] = []
        self.shared = True

    def renew(self) -> None:
        """All here have one time."""

    def alone(self, until_ns: int) -> bool:
        return False

    def publish(self, uses: Sequence[Use]) -> None:
        self.uses += uses

    def locked(self, function: Callable[[], R]) -> R:
        return function()

    def change(self, ready_ns: int, function: Callable[[list[Use], int], R]) -> R:
        out = function(self.uses, ready_ns)
        if len(self.uses) > self.KEPT:
            self.uses.sort(key=lambda use: use.end_ns)
            del self.uses[: -self.KEPT // 2]
        return out

    def drop(self, begin_ns: int) -> None:
        """Nobody's, as all here are one process."""
