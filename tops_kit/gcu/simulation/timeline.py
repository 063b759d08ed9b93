"""The discrete events: what ends when, what can begin then, and how operations in flight slow each other."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from tops_kit import deferral
from tops_kit.gcu.simulation.bandwidth import Bandwidth
from tops_kit.gcu.simulation.checks import engine_of, lacks
from tops_kit.gcu.simulation.delivery import deliver, hand_out
from tops_kit.gcu.simulation.operation import Operation
from tops_kit.gcu.simulation.promises import end_reserved, reserved

if TYPE_CHECKING:
    from tops_kit.gcu.simulation.device import DeviceSimulation, Engine

_NEVER = 1 << 63
_STALE = 1024  # events in the heap before those that are no longer valid are looked for


class Timeline:
    """Time of one or several devices. It stands at `now_ns`: everything that ends by then is final.

    Of what happens at one time, first all ends count, then what they make ready arrives in order, then free
    engines take the first that waits. So nothing depends on how often it is looked.

    runtime/_quick.c does submit, _begin_at_once, _step and _end once more, for kernels alone on their stream.
    """

    __slots__ = (
        "_arrivals", "_bandwidth", "_calls", "_ended", "_events", "_freed", "_open", "_ready", "_stale",
        "_submitted", "devices", "lock", "now_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.now_ns = 0
        self.lock = deferral.lock()  # held in every call; also for what a caller wants to do as one
        self.devices: list[DeviceSimulation] = []
        self._submitted = 0
        self._arrivals = 0
        # (time, sequence, operation); valid while it is the operation's _due_ns
        self._events: list[tuple[int, int, Operation]] = []
        self._stale = _STALE
        self._ready: deque[Operation] = deque()
        self._calls: deque[Operation] = deque()  # whose on_start is to be called
        self._open: dict[Operation, None] = {}  # nothing before them is missing but what `resolve` says
        self._freed: list[Engine] = []  # engines that may take the next operation
        self._bandwidth = Bandwidth()
        self._ended: list[Operation] = []  # final, and not yet given to the sink

    def submit(self, operation: Operation) -> None:
        """Gives a device an operation at its `submit_ns`; raises ValueError for what the device lacks."""
        with self.lock:
            time_ns = operation.submit_ns
            if time_ns > self.now_ns:
                if self._events and self._events[0][0] <= time_ns:
                    self._run(time_ns)
                    time_ns = max(self.now_ns, time_ns)  # a callback may have moved it
                self.now_ns = time_ns
            stream = operation.stream
            device = stream.device
            engine = device.engines.get(operation.engine)
            if engine is None or stream.pool is not None or operation.peer is not None:
                engine = engine_of(operation)
            operation._engine = engine
            for name in operation.demand:
                if name not in device.resources:
                    lacks(device, name)
            self._submitted = operation.sequence = self._submitted + 1
            stream.depth += 1
            device.pending += 1
            missing = 0
            duration_ns = operation.duration_ns
            held = duration_ns is None or operation.kind == "host"
            previous = stream.last
            stream.last = operation
            if previous is not None:
                missing = 1
                held = held or previous.held
                previous._next = operation
            if operation.after:
                for other in operation.after:
                    if other.end_ns < 0:
                        missing += 1
                        held |= other.held or not other.sequence
                        if other._followers is None:
                            other._followers = [operation]
                        else:
                            other._followers.append(operation)
                operation.after = ()  # what is done is not to be kept
            if held:
                operation.held = True
            if missing:
                operation._missing = missing
                return
            if (
                held
                or not duration_ns
                or engine is None
                or self._ready  # a callback submits this: in its turn
                or self._freed
                or not self._begin_at_once(operation, engine)
            ):
                self._ready.append(operation)
                self._settle()

    def advance(self, now_ns: int) -> None:
        """The host's clock stands at `now_ns`: everything that ends by then becomes final."""
        with self.lock:
            if now_ns > self.now_ns:
                if self._events and self._events[0][0] <= now_ns:
                    self._run(now_ns)
                self.now_ns = max(self.now_ns, now_ns)

    def finish(self, operation: Operation) -> int | None:
        """Runs ahead until an operation is done; its end. None: something before it waits for the host."""
        with self.lock:
            while operation.end_ns < 0:
                if not self._step(_NEVER):
                    return None
            return operation.end_ns

    def step(self) -> bool:
        """Runs ahead to the next event; False: nothing is in flight."""
        with self.lock:
            return self._step(_NEVER)

    def next_event_ns(self) -> int | None:
        """When something ends or begins next, as far as is known now; None: nothing is in flight."""
        with self.lock:
            events = self._events
            while events:
                time_ns, _, operation = events[0]
                if operation._due_ns == time_ns:
                    return time_ns
                heappop(events)
            return None

    def resolve(self, operation: Operation, duration_ns: int, now_ns: int) -> None:
        """Says at `now_ns` how long an operation takes that was submitted without a duration.

        For a host function: how long it took since its start. For an event of another process: 0, so that it
        ends now. `on_start` is not called any more. Raises ValueError where it is known already.
        """
        self.advance(now_ns)
        with self.lock:
            if operation.duration_ns is not None:
                raise ValueError(f"{operation!r} has a duration already")
            operation.duration_ns = duration_ns
            operation.on_start = None
            operation.held = operation.kind == "host"
            if operation in self._open:
                del self._open[operation]
                self._queue(operation)
                self._settle()

    def grant(self, engine: Engine) -> None:
        """Engine units became free by other means than an end."""
        self._freed.append(engine)
        self._settle()

    def _begin_at_once(self, operation: Operation, engine: Engine) -> bool:
        """What _settle does for an operation that has just arrived, if its engine is free and all its own.

        By far the most common, so without a call where one can be saved.
        """
        stream = operation.stream
        device = stream.device
        units = operation.clusters
        if units > engine.capacity or stream.limit is not None:
            units = self._units(operation, engine)
            if units < operation.clusters and stream.limit is None:
                return False
        if (
            units > engine.free
            or engine.waiting
            or operation.on_start is not None
            or operation.peer is not None
        ):
            return False
        now_ns = self.now_ns
        occupancy = device.occupancy
        if occupancy is not None:
            assert operation.duration_ns is not None
            if device.reserved or not device.watched or not occupancy.alone(now_ns + operation.duration_ns):
                return False
        if engine.free == engine.capacity:
            engine.since_ns = now_ns
        engine.free -= units
        engine.operations += 1
        operation._units = units
        operation.start_ns = now_ns
        duration_ns = operation.duration_ns
        assert duration_ns is not None
        operation._due_ns = due_ns = now_ns + duration_ns
        heappush(self._events, (due_ns, operation.sequence, operation))
        demand = operation.demand
        if demand:
            bandwidth = self._bandwidth
            if bandwidth.lone is None and not bandwidth.flows:
                resources = device.resources
                for name, size in demand.items():
                    if size > resources[name].capacity * duration_ns:
                        break
                else:
                    bandwidth.lone = operation
                    return True
            bandwidth.join(operation)
            if bandwidth.changed:
                self._share()
        return True

    def _run(self, until_ns: int) -> None:
        while self._step(until_ns):
            pass

    def _step(self, until_ns: int) -> bool:
        """Does what happens at the time of the first event, if that comes by `until_ns`."""
        events = self._events
        while events:
            time_ns, _, operation = events[0]
            if operation._due_ns == time_ns:
                break
            heappop(events)
        else:
            return False
        if time_ns > until_ns:
            return False
        if time_ns > self.now_ns:  # noqa: PLR1730 (a call)
            self.now_ns = time_ns
        if operation.start_ns < 0 or (len(events) > 1 and _another(events, time_ns)):
            self._settle()
            return True
        # one end alone: what _settle does, only shorter
        self._end(operation)
        heappop(events)
        self._after_end(operation)
        return True

    def _after_end(self, operation: Operation) -> None:
        """What one end alone makes ready begins, and it is told."""
        time_ns = self.now_ns
        ready = self._ready
        while len(ready) == 1 and not self._freed and not self._bandwidth.changed:
            follower = ready[0]
            engine = follower._engine
            if engine is not None:
                if follower.duration_ns and self._begin_at_once(follower, engine):
                    ready.popleft()
                break
            if follower.duration_ns != 0 or follower.kind == "host" or follower.on_start or follower.demand:
                break
            ready.popleft()  # a marker or a wait: over as soon as it is its turn
            follower.start_ns = time_ns
            self._end(follower)
            self._ended.append(follower)
        if ready or self._freed or self._bandwidth.changed or self._ended:
            self._ended.append(operation)
            self._settle()  # which sorts by sequence
        else:
            sink = operation.stream.device.sink
            if operation.on_done is not None:
                hand_out(operation)
            elif sink is not None:
                sink(operation)

    def _settle(self) -> None:
        """Does all that happens at now_ns."""
        events = self._events
        while True:
            while events and events[0][0] <= self.now_ns:
                time_ns, _, operation = heappop(events)
                if operation._due_ns == time_ns:
                    if operation.start_ns < 0:
                        self._begin(operation)
                    else:
                        self._end(operation)
                        self._ended.append(operation)
            while self._ready:
                self._arrive(self._ready.popleft())
            if self._freed:
                self._grant_all()
            if self._bandwidth.changed:
                self._share()
            if events and events[0][0] <= self.now_ns:
                continue
            if self._ready or self._freed:
                continue
            if not self._calls:
                break
            try:
                self._call(self._calls.popleft())
            except BaseException:
                self._settle()  # what else happens now happens
                raise
        if self._ended:
            deliver(self._ended)

    def _arrive(self, operation: Operation) -> None:
        """Nothing before it is missing."""
        if operation.kind == "host":
            operation.start_ns = self.now_ns
        if operation.on_start is not None:
            self._calls.append(operation)
        elif operation.duration_ns is not None:
            self._queue(operation)
        else:
            self._open[operation] = None

    def _call(self, operation: Operation) -> None:
        """The host does its part: a host function, or what could not be run when it was submitted."""
        assert operation.on_start is not None
        call, operation.on_start = operation.on_start, None
        try:
            call(operation)
        except BaseException:
            if operation.duration_ns is None:
                operation.duration_ns = 0  # or all behind it would wait for ever
            raise
        finally:
            if operation.end_ns < 0:
                if operation.duration_ns is None:
                    self._open[operation] = None
                else:
                    operation.held = operation.kind == "host"
                    self._queue(operation)

    def _queue(self, operation: Operation) -> None:
        """It waits for its engine, or begins where it needs none."""
        engine = operation._engine
        if engine is None:
            self._begin(operation)
            return
        self._arrivals += 1
        entry = (operation.stream.priority, self._arrivals, operation)
        for wanted in (engine, operation._peer_engine):
            if wanted is not None:
                heappush(wanted.waiting, entry)
                if wanted.waiting[0] is entry:
                    self._freed.append(wanted)

    def _grant_all(self) -> None:
        freed, self._freed = self._freed, []
        for number, engine in enumerate(freed):
            if engine.owed and engine.free >= 0:
                for other_engine in engine.owed:
                    other_engine.free = other_engine.capacity
                self._freed += engine.owed
                engine.owed = []
            while engine.waiting:
                operation = engine.waiting[0][2]
                units = self._units(operation, engine)
                if units > engine.free:
                    break
                # of a pair of engines both have to be free: all queues have one order, so none waits for ever
                own, other = operation._engine, operation._peer_engine
                assert own is not None
                if other is not None:
                    pair = other if engine is own else own
                    if pair.free < 1 or pair.waiting[0][2] is not operation:
                        break
                    heappop(pair.waiting)
                    self._take(pair, 1)
                entry = heappop(engine.waiting)
                self._take(engine, units)
                operation._units = units
                try:
                    self._reserve(operation)
                except BaseException:  # Ctrl-C, or a state that can't be written: as if its turn had not come
                    self._untake(entry, operation)
                    self._freed += freed[number:]
                    raise

    def _reserve(self, operation: Operation) -> None:
        """It has its engine, as far as this process goes: now, or when other processes leave it."""
        stream = operation.stream
        if operation._units < operation.clusters and operation.engine == "clusters" and stream.limit is None:
            # somebody took clusters for himself meanwhile: what it lacks it makes up for by time
            assert operation.duration_ns is not None
            operation.duration_ns *= -(-min(operation.clusters, stream.device.most) // operation._units)
        occupancy = stream.device.occupancy
        if occupancy is None or not reserved(self, operation):
            self._begin(operation)
        else:
            assert operation._reservation is not None
            self._schedule(operation, max(operation._reservation.start_ns, self.now_ns))

    def _schedule(self, operation: Operation, due_ns: int) -> None:
        operation._due_ns = due_ns
        heappush(self._events, (due_ns, operation.sequence, operation))

    def _units(self, operation: Operation, engine: Engine) -> int:
        if operation.engine != "clusters":
            return 1
        limit = operation.stream.limit
        units = min(operation.clusters, engine.capacity)
        return max(1, units if limit is None else min(units, limit))

    def _take(self, engine: Engine, units: int) -> None:
        if engine.free == engine.capacity:
            engine.since_ns = self.now_ns
        engine.free -= units
        engine.operations += 1

    def _untake(self, entry: tuple[int, int, Operation], operation: Operation) -> None:
        """An operation that has its engine, and no place, waits again."""
        if operation._reservation is not None and operation._due_ns < 0:
            self._schedule(operation, max(operation._reservation.start_ns, self.now_ns))
        if operation._due_ns >= 0 or operation.start_ns >= 0:
            return  # it has begun, or has its place
        for engine, units in ((operation._engine, operation._units), (operation._peer_engine, 1)):
            if engine is not None:
                engine.free += units
                engine.operations -= 1
                heappush(engine.waiting, entry)

    def _begin(self, operation: Operation) -> None:
        now_ns = self.now_ns
        duration_ns = operation.duration_ns
        assert duration_ns is not None
        if operation.start_ns < 0:
            operation.start_ns = now_ns
        due_ns = operation.start_ns + duration_ns
        if operation._reservation is not None:
            due_ns = operation._reservation.end_ns
        elif operation.demand or operation.peer is not None:
            if not duration_ns and due_ns <= now_ns:
                due_ns += 1  # what moves bytes takes time
            self._bandwidth.join(operation)
        if due_ns <= now_ns and (not operation.demand or operation._reservation is not None):
            operation._due_ns = now_ns
            self._end(operation)
            self._ended.append(operation)
            return
        self._schedule(operation, due_ns)

    def _share(self) -> None:
        """New rates of all that move bytes, and so new ends."""
        events = self._events
        if len(events) > self._stale:
            events[:] = [event for event in events if event[2]._due_ns == event[0]]
            heapify(events)
            self._stale = max(_STALE, 2 * len(events))
        for operation, due_ns in self._bandwidth.share(self.now_ns):
            self._schedule(operation, due_ns)
            occupancy = operation.stream.device.occupancy
            if occupancy is not None:
                occupancy.alone(due_ns)

    def _end(self, operation: Operation) -> None:
        now_ns = self.now_ns
        operation.end_ns = now_ns
        operation._due_ns = -1
        operation.held = False
        if operation._reservation is not None:
            end_reserved(operation)
        elif operation.demand or operation.peer is not None:
            bandwidth = self._bandwidth
            if bandwidth.lone is operation:
                bandwidth.lone = None
                resources = operation.stream.device.resources
                for name, size in operation.demand.items():
                    resources[name].moved_bytes += size
            else:
                bandwidth.leave(operation, now_ns)
        engine = operation._engine
        if engine is not None:
            operation._engine = None
            units = operation._units
            engine.free += units
            engine.unit_ns += units * (now_ns - operation.start_ns)
            if engine.free == engine.capacity:
                engine.busy_ns += now_ns - engine.since_ns
            if engine.waiting or engine.owed:
                self._freed.append(engine)
            if operation._peer_engine is not None:
                self._release(operation._peer_engine, operation.start_ns)
                operation._peer_engine = None
        stream = operation.stream
        if stream.last is operation:
            stream.last = None
        stream.depth -= 1
        device = stream.device
        device.pending -= 1
        device.last_end_ns = now_ns
        other = operation._next
        if other is not None:
            operation._next = None
            other._missing -= 1
            if not other._missing:
                self._ready.append(other)
        if operation._followers is not None:
            followers, operation._followers = operation._followers, None
            for other in followers:
                other._missing -= 1
                if not other._missing:
                    self._ready.append(other)

    def _release(self, engine: Engine, start_ns: int) -> None:
        """The other device's side of a copy ends."""
        engine.free += 1
        engine.unit_ns += self.now_ns - start_ns
        engine.busy_ns += self.now_ns - engine.since_ns
        if engine.waiting:
            self._freed.append(engine)


def _another(events: list[tuple[int, int, Operation]], time_ns: int) -> bool:
    """Whether a heap's second event is at the same time."""
    return events[1][0] <= time_ns or (len(events) > 2 and events[2][0] <= time_ns)
