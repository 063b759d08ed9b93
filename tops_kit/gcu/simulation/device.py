"""One device in a timeline: its engines, its bandwidths, and what they were used for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tops_kit.gcu.simulation.dropping import drop
from tops_kit.gcu.simulation.occupancy import Occupancy
from tops_kit.gcu.simulation.operation import Operation, StreamQueue
from tops_kit.gcu.simulation.sharing import Resource
from tops_kit.gcu.simulation.timeline import Timeline
from tops_kit.gcu.specification import Specification


class Engine:
    """What does operations: one at a time, or as many as have their units (clusters)."""

    __slots__ = (
        "busy_ns",
        "capacity",
        "free",
        "name",
        "operations",
        "owed",
        "since_ns",
        "unit_ns",
        "waiting",
    )

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.free = capacity  # less than 0 where units that are in use have been promised to a stream
        self.waiting: list[tuple[int, int, Operation]] = []  # a heap: priority, readiness
        self.owed: list[Engine] = []  # who has no units before free is 0 again
        self.operations = 0  # begun
        self.busy_ns = 0  # with at least one unit in use, up to since_ns
        self.unit_ns = 0  # units x time, of operations that are done
        self.since_ns = 0  # when it last changed between idle and busy


@dataclass(frozen=True)
class EngineUse:
    """What an engine has done by now: `unit_ns` is units in use x time, of operations that are done."""

    engine: str
    operations: int
    busy_ns: int
    unit_ns: int


class DeviceSimulation:
    """The simulation of one device: when each operation begins and ends.

    `sink(operation)` gets each one that is final, in order of (end_ns, sequence). Devices that have links, or
    whose streams wait for each other, share one `timeline`; so do all devices of a process by rights. Then
    `advance` and the like move all of them. `occupancy`: the device's engines as other processes use them.

    Calls from several threads are safe; callbacks run with the timeline's lock held. A host function that may
    have to wait for another thread is better run elsewhere, and its end told by `resolve`.
    """

    __slots__ = (
        "__weakref__", "advance", "clusters", "engines", "finish", "index", "last_end_ns", "left", "most",
        "next_event_ns", "occupancy", "own", "pending", "published", "reserved", "resolve", "resources",
        "sink", "slot", "spec", "submit", "timeline", "watched",
    )  # fmt: skip

    def __init__(
        self,
        spec: Specification,
        *,
        index: int = 0,
        timeline: Timeline | None = None,
        sink: Callable[[Operation], object] | None = None,
        occupancy: Occupancy | None = None,
        clusters: int | None = None,
    ) -> None:
        self.spec = spec
        self.index = index
        self.timeline = timeline = timeline or Timeline()
        self.sink = sink
        self.occupancy = occupancy
        self.reserved = 0  # operations with a place in the occupancy's calendar that are not done
        self.published = False  # what is in flight without such a place stands there, too
        self.watched = self.slot = 0  # the occupancy's, for _quick.c
        self.left = 0  # clusters that other processes have for themselves
        self.pending = 0  # operations that are not done
        self.last_end_ns = 0  # of all that are done
        self.clusters = Engine("clusters", spec.clusters if clusters is None else clusters)
        self.most = self.clusters.capacity  # clusters that it has
        one_at_a_time = ("cdma_up", "cdma_down", "sdma", "link")
        self.engines = {"clusters": self.clusters} | {name: Engine(name, 1) for name in one_at_a_time}
        bandwidths = {
            "l3": spec.l3_bytes_per_s,
            "pcie_up": spec.pcie_bytes_per_s,
            "pcie_down": spec.pcie_bytes_per_s,
            "link": spec.link_bytes_per_s,
        }
        self.resources = {name: Resource(name, value / 1e9) for name, value in bandwidths.items() if value}
        self.own: list[Engine] = []  # clusters that streams have for themselves
        # one frame less at each operation
        self.submit = timeline.submit
        self.advance = timeline.advance
        self.finish = timeline.finish
        self.resolve = timeline.resolve
        self.next_event_ns = timeline.next_event_ns
        timeline.devices.append(self)

    def finish_stream(self, stream: StreamQueue) -> int | None:
        """Runs ahead until a stream is done; its end, or the time now. None: it waits for the host."""
        with self.timeline.lock:
            return self.timeline.now_ns if stream.last is None else self.finish(stream.last)

    def finish_all(self) -> int | None:
        """Runs ahead until the device is done; its last end. None: something waits for the host."""
        timeline = self.timeline
        with timeline.lock:
            while self.pending:
                if not timeline.step():
                    return None
            return self.last_end_ns

    def take_clusters(self, stream: StreamQueue, clusters: int) -> None:
        """Gives a stream clusters that no other has (SC/PC mode), at the latest when who uses them is done.

        Raises ValueError where none would be left for the other streams.
        """
        with self.timeline.lock:
            self.give_back_clusters(stream)
            pool = self.clusters
            if not 0 < clusters < pool.capacity:
                raise ValueError(
                    f"{clusters} clusters of a stream's own: the device has {pool.capacity}, "
                    "and at least one stays for other streams"
                )
            stream.pool = own = Engine("clusters", clusters)
            self.own.append(own)
            pool.capacity -= clusters
            pool.free -= clusters
            if pool.free < 0:
                own.free = 0
                pool.owed.append(own)

    def leave_clusters(self, clusters: int) -> None:
        """So many clusters, which others have for themselves, are not to be used; kernels in flight stay."""
        with self.timeline.lock:
            most = self.clusters.capacity + self.left - 1  # what is queued already goes on
            change = min(clusters, max(most, 0)) - self.left
            self.left += change
            self.clusters.capacity -= change
            self.clusters.free -= change
            if change < 0:
                self.timeline.grant(self.clusters)

    def give_back_clusters(self, stream: StreamQueue) -> None:
        """Clusters of a stream's own are everybody's again; what waits for them waits for the device's.

        Raises ValueError while a kernel of the stream is in flight on them.
        """
        own, pool = stream.pool, self.clusters
        if own is None:
            return
        with self.timeline.lock:
            promised = own in pool.owed
            if own.waiting or (own.free < own.capacity and not promised):
                raise ValueError("the stream's clusters are in use: synchronise it first")
            if promised:
                pool.owed.remove(own)
            pool.capacity += own.capacity
            pool.free += own.capacity
            stream.pool = None
            self.own.remove(own)
            pool.operations += own.operations
            pool.unit_ns += own.unit_ns
            self.timeline.grant(pool)

    def reset(self) -> None:
        """Drops what is not done: it ends now, no sink hears of it, and nothing waits for it any more."""
        with self.timeline.lock:
            drop(self)

    @property
    def shared(self) -> bool:
        """Whether other processes use the device, as far as is known without asking."""
        return self.occupancy is not None and self.occupancy.shared

    def renew(self) -> None:
        """The process has another session time from now on."""
        with self.timeline.lock:
            self.watched = self.slot = 0
            if self.occupancy is not None:
                self.occupancy.renew()

    def use(self) -> tuple[EngineUse, ...]:
        """What each engine has done by now; clusters of a stream's own are engines by themselves."""
        now_ns = self.timeline.now_ns
        out = []
        for engine in (*self.engines.values(), *self.own):
            idle = engine.free >= engine.capacity or engine in self.clusters.owed
            busy_ns = engine.busy_ns + (0 if idle else now_ns - engine.since_ns)
            out.append(EngineUse(engine.name, engine.operations, busy_ns, engine.unit_ns))
        return tuple(out)

    def moved_bytes(self) -> dict[str, int]:
        """Bytes that done operations moved, by resource."""
        return {name: resource.moved_bytes for name, resource in self.resources.items()}
