"""The host waits for a device: the simulation runs ahead and the clock jumps, or both follow events."""

from __future__ import annotations

from tops_kit.gcu.clock import Clock
from tops_kit.gcu.simulation.operation import Operation, StreamQueue
from tops_kit.gcu.simulation.timeline import Timeline


def wait(timeline: Timeline, clock: Clock, operation: Operation) -> int | None:
    """Waits until an operation is done; its end. None: something before it waits for the host.

    Where the clock jumps the simulation runs ahead at once. Else it follows from event to event, since other
    threads may submit meanwhile what shares the device.
    """
    if clock.jumps():
        end_ns = timeline.finish(operation)
        if end_ns is not None:
            clock.wait_until(end_ns)
        return end_ns
    while not operation.done:
        event_ns = timeline.next_event_ns()
        if event_ns is None:
            return operation.end_ns if operation.done else None
        timeline.advance(clock.wait_until(event_ns))
    clock.wait_until(operation.end_ns)
    return operation.end_ns


def make_room(timeline: Timeline, clock: Clock, stream: StreamQueue, most: int = 1024) -> bool:
    """Waits until a stream has fewer than `most` operations that are not done; False: they wait for the host.

    A real queue has an end, too: a host that is faster than its device waits at the launch.
    """
    while stream.depth >= most:
        event_ns = timeline.next_event_ns()
        if event_ns is None:
            return stream.depth < most
        timeline.advance(clock.wait_until(event_ns))
    return True
