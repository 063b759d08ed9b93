"""What an operation asks for, and whether its device has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tops_kit.gcu.simulation.operation import Operation

if TYPE_CHECKING:
    from tops_kit.gcu.simulation.device import DeviceSimulation, Engine


def engine_of(operation: Operation) -> Engine | None:
    """The engine it needs, where that takes more than its name."""
    stream, name, peer = operation.stream, operation.engine, operation.peer
    engines = stream.device.engines
    engine = engines.get(name)
    if engine is None and name not in ("host", "none"):
        raise ValueError(f"no engine {name!r}: one of {', '.join(engines)}, host, none")
    if stream.pool is not None and name == "clusters":
        engine = stream.pool
    if peer is not None:
        other = operation._peer_engine = peer.device.engines.get(peer.engine)
        if peer.device is stream.device or engine is None or other is None:
            raise ValueError(f"{operation!r}: a peer is another device, and both give an engine")
        for resource in peer.demand:
            if resource not in peer.device.resources:
                lacks(peer.device, resource)
    return engine


def lacks(device: DeviceSimulation, resource: str) -> NoReturn:
    """Raises ValueError: a resource that a device does not have."""
    if resource in ("l3", "pcie_up", "pcie_down", "link"):
        raise ValueError(f"device {device.index} ({device.spec.name}) has no {resource}")
    raise ValueError(f"no resource {resource!r}: one of {', '.join(device.resources)}")
