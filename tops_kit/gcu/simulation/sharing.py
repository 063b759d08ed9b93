"""Bandwidth that operations in flight share: max-min fairly, by what each would take alone."""

from __future__ import annotations

from collections.abc import Sequence

_NOISE = 1e-9  # relative: of sums of rates


class Resource:
    """A bandwidth, in bytes/ns (so GB/s), and who uses it now."""

    __slots__ = ("capacity", "load", "moved_bytes", "name", "users")

    def __init__(self, name: str, capacity: float) -> None:
        self.name = name
        self.capacity = capacity
        self.load = 0.0  # what the users would take if each were alone
        self.users = 0
        self.moved_bytes = 0  # by operations that are done

    @property
    def short(self) -> bool:
        """Whether the users have to share."""
        return self.load > self.capacity * (1 + _NOISE)


class Flow:
    """What an operation in flight moves, and how far it is.

    `needs`: each resource, bytes/ns at full speed, and bytes in all.
    """

    __slots__ = ("needs", "rate", "remaining", "since_ns")

    def __init__(self, needs: list[tuple[Resource, float, int]], duration_ns: int, now_ns: int) -> None:
        self.needs = needs
        self.rate = 1.0  # of full speed
        self.remaining = float(duration_ns)  # at full speed, from since_ns
        self.since_ns = now_ns

    def join(self) -> bool:
        """Begins to use its resources; whether one of them is short now."""
        short = False
        for resource, rate, _ in self.needs:
            resource.load += rate
            resource.users += 1
            short |= resource.short
        return short

    def leave(self) -> None:
        """Ends to use them."""
        for resource, rate, _ in self.needs:
            resource.users -= 1
            # not what subtraction leaves: after the last user nothing is loaded
            resource.load = resource.load - rate if resource.users else 0.0


def fair_rates(flows: Sequence[Flow]) -> list[float]:
    """Which part of its full speed each flow gets.

    All flows grow alike, counted in bytes/ns at the resource they need most of; one stops where it has all it
    asks for, or where one of its resources has no more.
    """
    tops = [max((rate for _, rate, _ in flow.needs), default=0.0) for flow in flows]
    left: dict[Resource, float] = {r: r.capacity for flow in flows for r, _, _ in flow.needs}
    out = [1.0] * len(flows)
    growing = [i for i, top in enumerate(tops) if top > 0]
    level = 0.0
    while growing:
        weights: dict[Resource, float] = {}
        for i in growing:
            for resource, rate, _ in flows[i].needs:
                weights[resource] = weights.get(resource, 0.0) + rate / tops[i]
        full = {resource: level + left[resource] / weight for resource, weight in weights.items()}
        least = min(full.values())
        new_level = min(least, *(tops[i] for i in growing))
        for resource, weight in weights.items():
            left[resource] = max(0.0, left[resource] - weight * (new_level - level))
        level = new_level
        still = []
        for i in growing:
            if tops[i] <= level:
                continue  # has all it asks for: 1.0
            if any(full[resource] <= level * (1 + _NOISE) for resource, _, _ in flows[i].needs):
                out[i] = level / tops[i]
            else:
                still.append(i)
        growing = still
    return out
