"""Shares of bandwidth: timing_shares.c in Python, with the same numbers to the bit."""

from __future__ import annotations

from tops_kit.engine.timing_parameters import Parameters

_ALIKE = 1.0 + 1e-12  # shares that differ by less are one

# by route: how often a byte passes the port, the cluster's L2, its link to L3, and L3
USES = {
    "L1-L3": (1, 0, 1, 1),
    "L1-L2": (1, 1, 0, 0),
    "L2-L3": (0, 1, 1, 1),
    "L1": (1, 0, 0, 0),
    "L3-L3": (0, 0, 2, 2),
    "L2-L2": (0, 2, 0, 0),
    "fill L3": (0, 0, 1, 1),
    "fill L2": (0, 1, 0, 0),
    "atomic L3": (1, 0, 2, 2),
    "atomic L2": (1, 2, 0, 0),
    "atomic L1": (2, 0, 0, 0),
}
ROUTES = tuple(USES)
_WEIGHTS = tuple(tuple(float(n) for n in uses) for uses in USES.values())
_PORT, _L2, _LINK, _L3 = range(4)
_ROUTE_BITS = 4

# a class of SIPs: its cluster, and the routes that its transfers flow on, in order
Class = tuple[int, tuple[int, ...]]
State = tuple[tuple[Class, int], ...]  # classes and how many SIPs each has, sorted


def route_of(source: int, to: int, atomic: bool) -> int:
    """The number of a route between memories (none, L1, L2, L3)."""
    near, far = min(source, to), max(source, to)
    if atomic:
        return ROUTES.index(f"atomic L{far}")
    if far == 1:
        return ROUTES.index("L1")
    return ROUTES.index(f"L{near}-L{far}" if near else f"fill L{far}")


class Shares:
    """Rates of what flows, from how many SIPs have which transfers under way."""

    def __init__(self, parameters: Parameters) -> None:
        self.p = parameters
        self.solves = 0
        self.cluster_of = [k // parameters.sips_per_cluster for k in range(parameters.sips)]
        self.flows: list[tuple[int, ...]] = [()] * parameters.sips
        self.members: dict[Class, int] = {}
        self.rates: dict[Class, list[float]] = {}
        self._solutions: dict[State, dict[Class, list[float]]] = {}

    def change(self, sip: int, new: tuple[int, ...]) -> None:
        """A SIP's transfers flow on these routes now, the first before the others."""
        old = self.flows[sip]
        cluster = self.cluster_of[sip]
        self.flows[sip] = new
        if old:
            left = self.members[cluster, old] - 1
            if left:
                self.members[cluster, old] = left
            else:
                del self.members[cluster, old]
        if new:
            self.members[cluster, new] = self.members.get((cluster, new), 0) + 1

    def share(self, sip: int, route: int) -> float:
        """Bytes a cycle that the transfer of a SIP on a route has."""
        return self.rates[self.cluster_of[sip], self.flows[sip]][route]

    def solve(self) -> None:
        """Work the rates out anew."""
        if not self.members:
            return
        self.solves += 1
        state = tuple(sorted(self.members.items(), key=lambda of: (of[0][0], _in_c(of[0][1]))))
        rates = self._solutions.get(state)
        if rates is None:
            rates = self._solutions[state] = self._fill(state)
        self.rates = rates

    def _fill(self, state: State) -> dict[Class, list[float]]:
        """All SIPs' first transfers share what there is, then the second ones what is left, and so on."""
        p, classes = self.p, len(state)
        l2, link, l3 = classes, classes + p.clusters, classes + 2 * p.clusters
        left = [p.port] * classes + [p.l2] * p.clusters + [p.link] * p.clusters + [p.l3]
        rates = {of: [0.0] * len(ROUTES) for of, _ in state}
        for rank in range(max(len(flows) for (_, flows), _ in state)):
            kinds: list[_Kind] = []
            for at, ((cluster, flows), members) in enumerate(state):
                if rank >= len(flows):
                    continue
                weights, every = _WEIGHTS[flows[rank]], float(members)
                uses = [
                    (at, weights[_PORT]),
                    (l2 + cluster, weights[_L2] * every),
                    (link + cluster, weights[_LINK] * every),
                    (l3, weights[_L3] * every),
                ]
                kinds.append((rates[cluster, flows], flows[rank], [use for use in uses if use[1]]))
            _rise(kinds, left)
        return rates


# the rates of a class, the route of one, and what it loads how much
_Kind = tuple[list[float], int, list[tuple[int, float]]]


def _rise(kinds: list[_Kind], left: list[float]) -> None:
    """Rates rise together; a full resource stops the flows that use it, and the others rise on."""
    load = [0.0] * len(left)
    for _, _, uses in kinds:
        for resource, used in uses:
            load[resource] += used
    while kinds:
        levels = [a / b if b > 0.0 else float("inf") for a, b in zip(left, load, strict=True)]
        level = min(levels)
        full = [at <= level * _ALIKE for at in levels]
        rest = []
        for kind in kinds:
            rates, route, uses = kind
            if not any(full[resource] for resource, _ in uses):
                rest.append(kind)
                continue
            rates[route] = level
            for resource, used in uses:
                load[resource] -= used
                left[resource] = max(left[resource] - used * level, 0.0)
        for resource, is_full in enumerate(full):
            if is_full:
                left[resource] = 0.0  # whatever roundings say: nothing for later ranks
        kinds = rest


def _in_c(flows: tuple[int, ...]) -> int:
    """The number that stands for them in C, whose order is the order of the sums."""
    return sum((route + 1) << (_ROUTE_BITS * rank) for rank, route in enumerate(flows))
