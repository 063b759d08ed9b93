"""A device for tests: its final operations are kept, and there are short ways to give it some."""

from __future__ import annotations

from typing import Any

from tops_kit import gcu
from tops_kit.gcu.simulation import DeviceSimulation, Operation, StreamQueue

SPEC = gcu.load("s60")  # 2 clusters
L3 = SPEC.l3_bytes_per_s // 10**9  # bytes/ns
PCIE = SPEC.pcie_bytes_per_s // 10**9


class Device:
    """A device whose final operations are kept, and short ways to give it some."""

    def __init__(self, **options: Any) -> None:
        self.final: list[Operation] = []
        self.simulation = DeviceSimulation(SPEC, sink=self.final.append, **options)
        self.timeline = self.simulation.timeline

    def stream(self, **options: Any) -> StreamQueue:
        return StreamQueue(self.simulation, **options)

    def give(
        self, stream: StreamQueue, kind: str, engine: str, ns: int | None, at: int = 0, **options: Any
    ) -> Operation:
        operation = Operation(kind, stream, engine, ns, submit_ns=at, **options)
        self.simulation.submit(operation)
        return operation

    def kernel(self, stream: StreamQueue, ns: int | None, at: int = 0, **options: Any) -> Operation:
        return self.give(stream, "kernel", "clusters", ns, at, **options)

    def up(self, stream: StreamQueue, ns: int, at: int = 0, **options: Any) -> Operation:
        return self.give(stream, "copy", "cdma_up", ns, at, **options)

    def down(self, stream: StreamQueue, ns: int, at: int = 0, **options: Any) -> Operation:
        return self.give(stream, "copy", "cdma_down", ns, at, **options)

    def marker(self, stream: StreamQueue, at: int = 0, **options: Any) -> Operation:
        return self.give(stream, "marker", "none", 0, at, **options)


def spans(*operations: Operation) -> list[tuple[int, int]]:
    return [(operation.start_ns, operation.end_ns) for operation in operations]
