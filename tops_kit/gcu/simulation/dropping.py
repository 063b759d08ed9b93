"""A device is reset: what is not done on it is dropped, and all else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify
from typing import TYPE_CHECKING

from tops_kit.gcu.simulation.operation import Operation
from tops_kit.gcu.simulation.promises import give_up

if TYPE_CHECKING:
    from tops_kit.gcu.simulation.device import DeviceSimulation, Engine
    from tops_kit.gcu.simulation.timeline import Timeline


def drop(device: DeviceSimulation) -> None:
    """Ends all operations of a device now; the caller holds the timeline's lock."""
    timeline = device.timeline
    dropped = {operation for operation in _pending(timeline) if operation.stream.device is device}
    for operation in dropped:
        if operation._due_ns >= 0:
            _stop(timeline, operation)
    for engine in _engines(timeline):
        engine.waiting = [entry for entry in engine.waiting if entry[2] not in dropped]
        heapify(engine.waiting)
        timeline._freed.append(engine)
    timeline._ready = type(timeline._ready)(o for o in timeline._ready if o not in dropped)
    timeline._calls = type(timeline._calls)(o for o in timeline._calls if o not in dropped)
    for operation in dropped:
        _forget(timeline, operation, dropped)
    device.pending = 0
    timeline._settle()


def _engines(timeline: Timeline) -> Iterator[Engine]:
    for device in timeline.devices:
        yield from device.engines.values()
        yield from device.own


def _pending(timeline: Timeline) -> set[Operation]:
    """All that is not done: what is in flight or waits by itself, and what comes behind that."""
    found = {event[2] for event in timeline._events if event[2]._due_ns == event[0]}
    found.update(entry[2] for engine in _engines(timeline) for entry in engine.waiting)
    found.update(timeline._ready, timeline._calls, timeline._open)
    todo = list(found)
    while todo:
        for other in _behind(todo.pop()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


def _stop(timeline: Timeline, operation: Operation) -> None:
    """Something in flight, or with a reservation, gives back what it has."""
    for engine, units in ((operation._engine, operation._units), (operation._peer_engine, 1)):
        if engine is not None:
            engine.free += units
            if engine.free == engine.capacity:
                engine.busy_ns += timeline.now_ns - engine.since_ns
    if operation._reservation is None:
        timeline._bandwidth.drop(operation)
    else:
        give_up(operation, timeline.now_ns)


def _forget(timeline: Timeline, operation: Operation, dropped: set[Operation]) -> None:
    operation._due_ns = -1
    operation.end_ns = max(operation.start_ns, timeline.now_ns)
    operation.held = False
    operation._engine = operation._peer_engine = None
    timeline._open.pop(operation, None)
    stream = operation.stream
    stream.last = None
    stream.depth = 0
    for other in _behind(operation):
        other._missing -= 1
        if not other._missing and other not in dropped:
            timeline._ready.append(other)
    operation._next = operation._followers = None


def _behind(operation: Operation) -> list[Operation]:
    """What waits for an operation; as often as it does."""
    following = [] if operation._next is None else [operation._next]
    return following + (operation._followers or [])
