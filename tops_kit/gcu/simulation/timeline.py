"""The discrete events: what ends when, what can begin then, and how operations in flight slow each other."""

from __future__ import annotations

import heapq
import math
import threading
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tops_kit.gcu.simulation.operation import Operation
from tops_kit.gcu.simulation.sharing import Flow, Resource, fair_rates

if TYPE_CHECKING:
    from tops_kit.gcu.simulation.device import DeviceSimulation, Engine

_ROUNDING = 1e-6  # ns: what sums of floats may be off, and no reason for another ns


class Timeline:
    """Time of one or several devices. It stands at `now_ns`: everything that ends by then is final.

    Of what happens at one time, first all ends count, then what they make ready arrives in order, then free
    engines take the first that waits. So nothing depends on how often it is looked.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.pending = 0  # operations that are not done
        self.lock = threading.RLock()  # held in every call; also for what a caller wants to do as one
        self.devices: list[DeviceSimulation] = []
        self._submitted = 0
        self._arrivals = 0
        # (time, sequence, operation); valid while it is the operation's _due_ns
        self._events: list[tuple[int, int, Operation]] = []
        self._ready: deque[Operation] = deque()
        self._calls: deque[Operation] = deque()  # whose on_start is to be called
        self._freed: list[Engine] = []  # engines that may take the next operation
        self._flows: dict[Operation, Flow] = {}  # of operations in flight, in order of their begin
        self._sharing = False  # somebody gets less than full speed
        self._changed = False  # so that rates are to be found anew
        self._ended: deque[Operation] = deque()  # final, and not yet given to the sink

    def submit(self, operation: Operation) -> None:
        """Gives a device an operation at its `submit_ns`; raises ValueError for what the device lacks."""
        with self.lock:
            time_ns = operation.submit_ns
            if time_ns > self.now_ns:
                if self._events and self._events[0][0] <= time_ns:
                    self._run(time_ns)
                self.now_ns = max(self.now_ns, time_ns)  # a callback may have moved it
            stream = operation.stream
            device = stream.device
            self._find_engine(operation, device)
            self._submitted = operation.sequence = self._submitted + 1
            stream.depth += 1
            device.pending += 1
            self.pending += 1
            missing = 0
            held = operation.duration_ns is None or operation.kind == "host"
            previous = stream.last
            stream.last = operation
            if previous is not None:
                missing = 1
                held |= previous.held
                if previous._followers is None:
                    previous._followers = [operation]
                else:
                    previous._followers.append(operation)
            if operation.after:
                for other in operation.after:
                    if other.end_ns < 0:
                        missing += 1
                        held |= other.held
                        if other._followers is None:
                            other._followers = [operation]
                        else:
                            other._followers.append(operation)
                operation.after = ()  # what is done is not to be kept
            operation.held = held
            if missing:
                operation._missing = missing
            else:
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
                if not self.step():
                    return None
            return operation.end_ns

    def next_event_ns(self) -> int | None:
        """When something ends or begins next, as far as is known now; None: nothing is in flight."""
        with self.lock:
            events = self._events
            while events:
                time_ns, _, operation = events[0]
                if operation._due_ns == time_ns:
                    return time_ns
                heapq.heappop(events)
            return None

    def step(self) -> bool:
        """Runs ahead to the next event; False: nothing is in flight."""
        with self.lock:
            time_ns = self.next_event_ns()
            if time_ns is None:
                return False
            self.now_ns = max(self.now_ns, time_ns)
            self._settle()
            return True

    def resolve(self, operation: Operation, duration_ns: int, now_ns: int) -> None:
        """Says at `now_ns` how long an operation takes that was submitted without a duration.

        For a host function: how long it took since its start. For an event of another process: 0, so that it
        ends now. Raises ValueError where it is known already.
        """
        self.advance(now_ns)
        with self.lock:
            if operation.duration_ns is not None:
                raise ValueError(f"{operation!r} has a duration already")
            operation.duration_ns = duration_ns
            operation.held = operation.kind == "host"
            if operation._arrived:
                self._queue(operation)
                self._settle()

    def grant(self, engine: Engine) -> None:
        """Engine units became free by other means than an end."""
        self._freed.append(engine)
        self._settle()

    def _find_engine(self, operation: Operation, device: DeviceSimulation) -> None:
        name = operation.engine
        if name == "clusters":
            operation._engine = operation.stream.pool or device.clusters
        elif name not in ("none", "host"):
            operation._engine = _engine(device, name)
        for resource in operation.demand:
            _check_resource(device, resource)
        peer = operation.peer
        if peer is not None:
            operation._peer_engine = _engine(peer.device, peer.engine)
            for resource in peer.demand:
                _check_resource(peer.device, resource)
            if peer.device is device or operation._engine is None:
                raise ValueError(f"{operation!r}: a peer is another device, and both give an engine")

    def _run(self, until_ns: int) -> None:
        while (time_ns := self.next_event_ns()) is not None and time_ns <= until_ns:
            self.now_ns = max(self.now_ns, time_ns)
            self._settle()

    def _settle(self) -> None:
        """Does all that happens at now_ns."""
        events = self._events
        while True:
            while events and events[0][0] <= self.now_ns:
                time_ns, _, operation = heapq.heappop(events)
                if operation._due_ns == time_ns:
                    if operation.start_ns < 0:
                        self._begin_reserved(operation)
                    else:
                        self._end(operation)
            if self._ready:
                while self._ready:
                    self._arrive(self._ready.popleft())
            if self._freed:
                self._grant_all()
            if self._changed:
                self._share()
            if events and events[0][0] <= self.now_ns:
                continue
            if self._ready:
                continue
            if not self._calls:
                break
            self._call(self._calls.popleft())
        if self._ended:
            self._deliver()

    def _arrive(self, operation: Operation) -> None:
        """Nothing before it is missing."""
        operation._arrived = True
        if operation.kind == "host":
            operation.start_ns = self.now_ns
        if operation.on_start is not None:
            self._calls.append(operation)
        elif operation.duration_ns is not None:
            self._queue(operation)

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
            if operation.duration_ns is not None and operation.end_ns < 0:
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
                if not wanted.waiting:
                    self._freed.append(wanted)
                heapq.heappush(wanted.waiting, entry)

    def _grant_all(self) -> None:
        freed, self._freed = self._freed, []
        for engine in freed:
            while engine.owed and engine.free > 0:
                self._pay(engine)
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
                    heapq.heappop(pair.waiting)
                    self._take(pair, 1)
                heapq.heappop(engine.waiting)
                self._take(engine, units)
                operation._units = units
                self._reserve(operation)

    def _pay(self, engine: Engine) -> None:
        """A stream gets units that it was promised."""
        other, units = engine.owed.pop(0)
        paid = min(units, engine.free)
        if paid < units:
            engine.owed.insert(0, (other, units - paid))
        engine.free -= paid
        other.free += paid
        if other.waiting:
            self._freed.append(other)

    def _reserve(self, operation: Operation) -> None:
        """It has its engine, as far as this process goes: now, or when other processes leave it."""
        engine, occupancy = operation._engine, operation.stream.device.occupancy
        assert engine is not None
        assert operation.duration_ns is not None
        if occupancy is None:
            self._begin(operation)
            return
        operation._reservation = reservation = occupancy.reserve(
            engine.name, operation._units, self.now_ns, operation.duration_ns
        )
        if reservation.start_ns <= self.now_ns:
            self._begin(operation)
        else:
            self._schedule(operation, reservation.start_ns)

    def _schedule(self, operation: Operation, due_ns: int) -> None:
        operation._due_ns = due_ns
        heapq.heappush(self._events, (due_ns, operation.sequence, operation))

    def _units(self, operation: Operation, engine: Engine) -> int:
        if operation.engine != "clusters":
            return 1
        limit = operation.stream.limit
        units = min(operation.clusters, engine.capacity)
        return units if limit is None else min(units, limit)

    def _take(self, engine: Engine, units: int) -> None:
        if engine.free == engine.capacity:
            engine.since_ns = self.now_ns
        engine.free -= units
        engine.operations += 1

    def _begin_reserved(self, operation: Operation) -> None:
        """The time has come that other processes left for it, unless one of them took longer than it said."""
        occupancy, reservation = operation.stream.device.occupancy, operation._reservation
        assert occupancy is not None
        assert reservation is not None
        start_ns = occupancy.begin(reservation, self.now_ns)
        if start_ns <= self.now_ns:
            self._begin(operation)
        else:
            self._schedule(operation, start_ns)

    def _begin(self, operation: Operation) -> None:
        now_ns = self.now_ns
        duration_ns = operation.duration_ns
        assert duration_ns is not None
        if operation.start_ns < 0:
            operation.start_ns = now_ns
        due_ns = operation.start_ns + duration_ns
        if operation.demand or operation.peer is not None:
            self._join(operation, duration_ns)
        if due_ns <= now_ns and operation._flow is None:
            operation._due_ns = now_ns
            self._end(operation)
            return
        self._schedule(operation, due_ns)

    def _join(self, operation: Operation, duration_ns: int) -> None:
        needs = _needs(operation.stream.device, operation.demand, duration_ns)
        if operation.peer is not None:
            needs += _needs(operation.peer.device, operation.peer.demand, duration_ns)
        if not needs:
            return
        operation._flow = self._flows[operation] = flow = Flow(needs, duration_ns, self.now_ns)
        if flow.join() or self._sharing:
            self._changed = True

    def _share(self) -> None:
        """New rates of all that move bytes, and so new ends."""
        self._changed = False
        now_ns = self.now_ns
        flows = list(self._flows.values())
        self._sharing = False
        for (operation, flow), rate in zip(self._flows.items(), fair_rates(flows), strict=True):
            if rate < 1.0:
                self._sharing = True
            if rate != flow.rate:
                flow.remaining -= flow.rate * (now_ns - flow.since_ns)
                flow.since_ns = now_ns
                flow.rate = rate
                due_ns = now_ns + max(0, math.ceil(flow.remaining / rate - _ROUNDING))
                self._schedule(operation, due_ns)
                if operation._reservation is not None:
                    device = operation.stream.device
                    assert device.occupancy is not None
                    device.occupancy.change_end(operation._reservation, due_ns)

    def _end(self, operation: Operation) -> None:
        now_ns = self.now_ns
        operation.end_ns = now_ns
        operation._due_ns = -1
        operation.held = False
        flow = operation._flow
        if flow is not None:
            flow.leave()
            for resource, _, size in flow.needs:
                resource.moved_bytes += size
            del self._flows[operation]
            operation._flow = None
            assert operation.duration_ns is not None
            operation.contention_ns = now_ns - operation.start_ns - operation.duration_ns
            if self._sharing:
                self._changed = True
        engine = operation._engine
        if engine is not None:
            operation._engine = None
            self._release(engine, operation._units, operation.start_ns)
            if operation._peer_engine is not None:
                self._release(operation._peer_engine, 1, operation.start_ns)
                operation._peer_engine = None
        stream = operation.stream
        if stream.last is operation:
            stream.last = None
        stream.depth -= 1
        device = stream.device
        device.pending -= 1
        device.last_end_ns = now_ns
        self.pending -= 1
        followers = operation._followers
        if followers is not None:
            operation._followers = None
            for other in followers:
                other._missing -= 1
                if not other._missing:
                    self._ready.append(other)
        self._ended.append(operation)

    def _release(self, engine: Engine, units: int, start_ns: int) -> None:
        now_ns = self.now_ns
        engine.free += units
        engine.unit_ns += units * (now_ns - start_ns)
        if engine.free == engine.capacity:
            engine.busy_ns += now_ns - engine.since_ns
        if engine.waiting or engine.owed:
            self._freed.append(engine)

    def _deliver(self) -> None:
        if len(self._ended) > 1:
            self._ended = deque(sorted(self._ended, key=_final_order))
        while self._ended:
            operation = self._ended.popleft()
            sink = operation.stream.device.sink
            if sink is not None:
                sink(operation)
            if operation.on_done is not None:
                operation.on_done(operation)


def _final_order(operation: Operation) -> tuple[int, int]:
    return operation.end_ns, operation.sequence


def _engine(device: DeviceSimulation, name: str) -> Engine:
    engine = device.engines.get(name)
    if engine is None:
        raise ValueError(f"no engine {name!r}: one of {', '.join(device.engines)}, host, none")
    return engine


def _check_resource(device: DeviceSimulation, name: str) -> None:
    resource = device.resources.get(name)
    if resource is None:
        raise ValueError(f"no resource {name!r}: one of {', '.join(device.resources)}")
    if not resource.capacity > 0:
        raise ValueError(f"device {device.index} ({device.spec.name}) has no {name}")


def _needs(
    device: DeviceSimulation, demand: Mapping[str, int], duration_ns: int
) -> list[tuple[Resource, float, int]]:
    resources = device.resources
    alone_ns = duration_ns or 1
    return [(resources[name], size / alone_ns, size) for name, size in demand.items() if size]
