"""When a device has room for an operation, beside what has been promised to others: engines and bandwidth.

What was promised stays: who comes later gets the engine when it is free for long enough, and of each
bandwidth what is left. So use can never add up to more than there is, whoever asks in which order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

RESOURCES = ("l3", "pcie_up", "pcie_down", "link")
OWN = "own clusters"
Rates = tuple[float, float, float, float]  # bytes/ns of each of RESOURCES

NO_RATES: Rates = (0.0, 0.0, 0.0, 0.0)
_LEAST = 1e-6  # of a bandwidth: less that is left is nothing
_CLUSTERS = ("clusters", OWN)
_ROUNDING = 1e-6  # ns: what sums of floats may be off, and no reason for another ns


class Use(NamedTuple):
    """So many units of an engine ("": none), and so much bandwidth, from begin to end; `holder`: whose."""

    begin_ns: int
    end_ns: int
    engine: str
    units: int
    rates: Rates
    holder: int = 0


class Capacity(NamedTuple):
    """What a device has: SIPs, bandwidths, and how many of the SIPs nobody has for himself.

    Units of clusters are SIPs (those that a kernel does not use, too), other engines have one. Kernels on
    clusters of a stream's own have the engine "own clusters".
    """

    sips: int
    rates: Rates
    common: int

    def units(self, engine: str) -> int:
        """Units of an engine."""
        return self.common if engine == "clusters" else self.sips if engine == OWN else 1


class Side(NamedTuple):
    """What an operation wants of one device: `demand` is bytes by resource."""

    uses: Sequence[Use]
    capacity: Capacity
    engine: str
    units: int
    demand: Mapping[str, int]


class Place(NamedTuple):
    """When an operation is done: from begin to end, and at which part of its full speed in between."""

    begin_ns: int
    end_ns: int
    parts: list[tuple[int, int, float]]


def place(sides: Sequence[Side], ready_ns: int, duration_ns: int) -> Place:
    """The first place, not before `ready_ns`, for an operation that takes so long alone.

    Of a copy between two devices both sides are given.
    """
    needs = [needs_of(side.demand, duration_ns) for side in sides]
    moves = any(map(any, needs))
    points = sorted({at for side in sides for use in side.uses for at in use[:2] if at > ready_ns})
    begin_ns = ready_ns
    while True:
        if moves:
            parts = _move(sides, needs, points, begin_ns, max(duration_ns, 1))
            begin_ns, end_ns = parts[0][0], parts[-1][1]
        else:
            end_ns = begin_ns + duration_ns
            parts = [(begin_ns, end_ns, 1.0)]
        later_ns = max((_blocked(side, begin_ns, end_ns) for side in sides), default=0)
        if not later_ns:
            return Place(begin_ns, end_ns, parts)
        begin_ns = later_ns


def uses_of(side: Side, found: Place, duration_ns: int, holder: int = 0) -> list[Use]:
    """What an operation that was placed uses of a side's device."""
    needs = needs_of(side.demand, duration_ns)
    begin_ns, end_ns, parts = found
    if len(parts) == 1 or not any(needs):
        rates = _times(needs, parts[0][2])
        return [Use(begin_ns, end_ns, side.engine, side.units, rates, holder)]
    out = [Use(begin_ns, end_ns, side.engine, side.units, NO_RATES, holder)] if side.units else []
    return out + [Use(begin, end, "", 0, _times(needs, part), holder) for begin, end, part in parts if part]


def needs_of(demand: Mapping[str, int], duration_ns: int) -> Rates:
    """Bytes/ns at full speed."""
    if not demand:
        return NO_RATES
    l3, up, down, link = (demand.get(name, 0) / (duration_ns or 1) for name in RESOURCES)
    return l3, up, down, link


def _times(needs: Rates, part: float) -> Rates:
    return needs[0] * part, needs[1] * part, needs[2] * part, needs[3] * part


def _move(
    sides: Sequence[Side], needs: Sequence[Rates], points: Sequence[int], begin_ns: int, duration_ns: int
) -> list[tuple[int, int, float]]:
    """From when to when at which part of its speed, without what it would stand still at the beginning."""
    parts: list[tuple[int, int, float]] = []
    at_ns, remaining = begin_ns, float(duration_ns)
    for point_ns in (*(point for point in points if point > begin_ns), None):
        part = _part(sides, needs, at_ns)
        # beyond the last point nothing is promised to anybody, so that it goes on
        if part and (point_ns is None or remaining <= part * (point_ns - at_ns) + _ROUNDING):
            end_ns = at_ns + max(1, math.ceil(remaining / part - _ROUNDING))
            parts.append((at_ns, end_ns, part))
            break
        assert point_ns is not None
        if part or parts:
            parts.append((at_ns, point_ns, part))
        remaining -= part * (point_ns - at_ns)
        at_ns = point_ns
    return parts


def _part(sides: Sequence[Side], needs: Sequence[Rates], at_ns: int) -> float:
    """At which part of full speed it can move its bytes at a moment."""
    out = 1.0
    for side, need in zip(sides, needs, strict=True):
        for k, rate in enumerate(need):
            if rate:
                most = side.capacity.rates[k]
                left = most - sum(use.rates[k] for use in side.uses if use.begin_ns <= at_ns < use.end_ns)
                out = min(out, left / rate if left > most * _LEAST else 0.0)
    return out


def _blocked(side: Side, begin_ns: int, end_ns: int) -> int:
    """Where the engine is not free all the time: when to try next; else 0."""
    engine, units = side.engine, side.units
    if not units:
        return 0
    end_ns = max(end_ns, begin_ns + 1)
    over = [u for u in side.uses if u.begin_ns < end_ns and u.end_ns > begin_ns]
    capacity = side.capacity
    if engine in _CLUSTERS:
        # what is common is divided among kernels that have none of their own; all together have what there is
        own = engine == OWN
        later_ns = 0 if own else _over(over, ("clusters",), capacity.common, begin_ns, units)
        return later_ns or _over(over, _CLUSTERS, capacity.sips, begin_ns, units)
    return _over(over, (engine,), 1, begin_ns, units)


def _over(over: list[Use], engines: tuple[str, ...], capacity: int, begin_ns: int, units: int) -> int:
    """When to try next, where uses of some engines leave fewer units at some time; else 0."""
    over = [use for use in over if use.engine in engines]
    # use only changes where somebody begins: the times at which it can be too much
    for at_ns in sorted({begin_ns, *(u.begin_ns for u in over if u.begin_ns > begin_ns)}):
        at = [u for u in over if u.begin_ns <= at_ns < u.end_ns]
        if sum(u.units for u in at) + units > capacity:
            return min((u.end_ns for u in at), default=0)
    return 0
