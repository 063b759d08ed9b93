"""Operations in flight that move bytes: how fast each is while they share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tops_kit.gcu.simulation.operation import Operation
from tops_kit.gcu.simulation.sharing import Flow, Resource, fair_rates

if TYPE_CHECKING:
    from tops_kit.gcu.simulation.device import DeviceSimulation

_ROUNDING = 1e-6  # ns: what sums of floats may be off, and no reason for another ns


class Bandwidth:
    """Who moves bytes now.

    A flow is made only where there are two, or where one asks for more than there is: `lone` has none.
    """

    __slots__ = ("changed", "flows", "lone", "sharing")

    def __init__(self) -> None:
        self.lone: Operation | None = None
        self.flows: dict[Operation, Flow] = {}  # all others, in order of their begin
        self.sharing = False  # somebody gets less than full speed
        self.changed = False  # so that rates are to be found anew

    def join(self, operation: Operation) -> None:
        """An operation begins, at its start_ns."""
        lone, self.lone = self.lone, None
        if lone is not None:
            self._track(lone)
        self._track(operation)

    def leave(self, operation: Operation, now_ns: int) -> None:
        """An operation that is not `lone` ends: what it moved has been moved."""
        flow = self.flows.pop(operation)
        flow.leave()
        for resource, _, size in flow.needs:
            resource.moved_bytes += size
        assert operation.duration_ns is not None
        operation.contention_ns = now_ns - operation.start_ns - operation.duration_ns
        if self.sharing:
            self.changed = True

    def drop(self, operation: Operation) -> None:
        """An operation is no more, if it moved bytes at all."""
        if self.lone is operation:
            self.lone = None
        flow = self.flows.pop(operation, None)
        if flow is not None:
            flow.leave()
            self.changed |= self.sharing

    def share(self, now_ns: int) -> list[tuple[Operation, int]]:
        """New rates for all; who ends at another time than was thought, and when."""
        self.changed = False
        self.sharing = False
        out = []
        rates = fair_rates(list(self.flows.values()))
        for (operation, flow), rate in zip(self.flows.items(), rates, strict=True):
            if rate < 1.0:
                self.sharing = True
            if rate != flow.rate:
                flow.remaining -= flow.rate * (now_ns - flow.since_ns)
                flow.since_ns = now_ns
                flow.rate = rate
                out.append((operation, now_ns + max(0, math.ceil(flow.remaining / rate - _ROUNDING))))
        return out

    def _track(self, operation: Operation) -> None:
        duration_ns = operation.duration_ns or 1
        needs = _needs(operation.stream.device, operation.demand, duration_ns)
        if operation.peer is not None:
            needs += _needs(operation.peer.device, operation.peer.demand, duration_ns)
        self.flows[operation] = flow = Flow(needs, duration_ns, operation.start_ns)
        if flow.join() or self.sharing:
            self.changed = True


def _needs(
    device: DeviceSimulation, demand: Mapping[str, int], duration_ns: int
) -> list[tuple[Resource, float, int]]:
    resources = device.resources
    return [(resources[name], size / duration_ns, size) for name, size in demand.items() if size]
