"""Operations on a device that other processes use, too: each has its place in the calendar of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tops_kit.gcu.simulation.calendar import OWN, Use, needs_of
from tops_kit.gcu.simulation.occupancy import Want, reserve
from tops_kit.gcu.simulation.operation import Operation

if TYPE_CHECKING:
    from tops_kit.gcu.simulation.device import DeviceSimulation
    from tops_kit.gcu.simulation.timeline import Timeline


def reserved(timeline: Timeline, operation: Operation) -> bool:
    """Finds a place for an operation that is ready. False: no other process is there, it may begin."""
    device, peer = operation.stream.device, operation.peer
    devices = [device] if peer is None else [device, peer.device]
    duration_ns = operation.duration_ns
    assert duration_ns is not None
    alone = [_alone(d, timeline.now_ns + duration_ns) for d in devices]  # of each is said until when
    if all(alone):
        return False
    wants = []
    for d in devices:
        if d.occupancy is None:
            continue
        if not d.published:
            d.published = True
            d.occupancy.publish(_in_flight(timeline, d))
        if d is device:
            wants.append(Want(d.occupancy, _engine(operation), _units(operation), operation.demand))
        else:
            assert peer is not None
            wants.append(Want(d.occupancy, peer.engine, 1, peer.demand))
    operation._reservation = reserve(wants, timeline.now_ns, duration_ns)
    for d in devices:
        d.reserved += 1
    return True


def end_reserved(operation: Operation) -> None:
    """An operation that had a place ends: what it moved has been moved."""
    device, peer, found = operation.stream.device, operation.peer, operation._reservation
    assert found is not None
    assert operation.duration_ns is not None
    operation.contention_ns = found.end_ns - found.start_ns - operation.duration_ns
    device.reserved -= 1
    for name, size in operation.demand.items():
        device.resources[name].moved_bytes += size
    if peer is not None:
        peer.device.reserved -= 1
        for name, size in peer.demand.items():
            peer.device.resources[name].moved_bytes += size


def give_up(operation: Operation, now_ns: int) -> None:
    """An operation that has a place is dropped."""
    devices = [operation.stream.device] if operation.peer is None else [
        operation.stream.device, operation.peer.device
    ]  # fmt: skip
    for device in devices:
        device.reserved -= 1
        if device.occupancy is not None and not device.reserved:
            device.occupancy.drop(now_ns)


def _alone(device: DeviceSimulation, until_ns: int) -> bool:
    occupancy = device.occupancy
    if occupancy is None:
        return True
    if device.reserved:
        return False
    alone = occupancy.alone(until_ns)
    device.watched, device.slot = occupancy.watched, occupancy.slot
    if not alone:
        return False
    device.published = False
    return True


def _engine(operation: Operation) -> str:
    """The engine's name in a calendar."""
    return OWN if operation.engine == "clusters" and operation.stream.exclusive else operation.engine


def _units(operation: Operation) -> int:
    """How many units of that it takes: of clusters, SIPs."""
    if operation.engine != "clusters":
        return operation._units
    stream = operation.stream
    return operation._units * (stream.width or stream.device.spec.sips_per_cluster)


def _in_flight(timeline: Timeline, device: DeviceSimulation) -> list[Use]:
    """What has begun on a device without a place, as it goes now."""
    out = []
    for due_ns, _, operation in timeline._events:
        if operation._due_ns != due_ns or operation.start_ns < 0 or operation._reservation is not None:
            continue
        peer = operation.peer
        full_ns = operation.duration_ns or 1
        if operation.stream.device is device and operation._engine is not None:
            rates = needs_of(operation.demand, full_ns)
            out.append(Use(operation.start_ns, due_ns, _engine(operation), _units(operation), rates))
        if peer is not None and peer.device is device:
            out.append(Use(operation.start_ns, due_ns, peer.engine, 1, needs_of(peer.demand, full_ns)))
    return out
