"""Bandwidth that operations in flight share: max-min fairly, by what each would take alone."""

from __future__ import annotations

from collections.abc import Sequence

_MORE = 1 + 1e-9  # times as much is no more: sums of rates have noise


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
        return self.load > self.capacity * _MORE


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

    Only what is short slows anybody. All flows through it grow alike, counted in its bytes/ns, until one has
    all it asks for or nothing is left. With several such resources a flow counts by the one it needs most of.
    """
    out = [1.0] * len(flows)
    users: dict[Resource, list[tuple[float, int]]] = {}
    for i, flow in enumerate(flows):
        for resource, rate, _ in flow.needs:
            if resource.load > resource.capacity * _MORE:
                users.setdefault(resource, []).append((rate, i))
    if len(users) == 1:
        for resource, asked in users.items():
            left, count = resource.capacity, len(asked)
            for rate, i in sorted(asked):
                share = left / count
                if rate > share:
                    out[i] = share / rate
                    left -= share
                else:
                    left -= rate
                count -= 1
    elif users:
        _fill(users, out)
    return out


def _fill(users: dict[Resource, list[tuple[float, int]]], out: list[float]) -> None:
    """Rates where several resources are short."""
    most: dict[int, float] = {}
    for asked in users.values():
        for rate, i in asked:
            most[i] = max(rate, most.get(i, 0.0))
    left = {resource: resource.capacity for resource in users}
    growing = set(most)
    level = 0.0
    while growing:
        # how fast each resource is used up as the level grows, and the level at which nothing is left of it
        weights = {r: sum(rate / most[i] for rate, i in users[r] if i in growing) for r in users}
        full = {r: level + left[r] / weight for r, weight in weights.items() if weight > 0}
        new_level = min(*full.values(), *(most[i] for i in growing))
        for resource, weight in weights.items():
            left[resource] = max(0.0, left[resource] - weight * (new_level - level))
        level = new_level
        growing -= {i for i in growing if most[i] <= level}
        for resource, at in full.items():
            if at <= level * _MORE:
                for _, i in users[resource]:
                    if i in growing:
                        out[i] = level / most[i]
                        growing.remove(i)
