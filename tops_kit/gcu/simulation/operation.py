"""What a device is given to do: operations, and the streams that put them in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tops_kit.gcu.simulation.device import DeviceSimulation, Engine
    from tops_kit.gcu.simulation.occupancy import Reservation

KINDS = ("kernel", "copy", "fill", "host", "marker", "wait")
ENGINES = ("clusters", "cdma_up", "cdma_down", "sdma", "link", "host", "none")

_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Peer:
    """The other side of a copy between two devices: the engine it takes, and what it moves there."""

    device: DeviceSimulation
    engine: str
    demand: Mapping[str, int] = field(default_factory=dict)


class StreamQueue:
    """A stream of a device: its operations run one after another.

    Of two that wait for an engine, the lower `priority` goes first. A kernel takes at most `limit` clusters.
    `pool`: clusters that only this stream has. `width`: SIPs of a cluster that its kernels have (None: all).
    `exclusive`: its kernels have their SIPs alone, among all processes that use the device.
    """

    __slots__ = ("depth", "device", "exclusive", "last", "limit", "pool", "priority", "tag", "width")

    def __init__(
        self, device: DeviceSimulation, *, priority: int = 0, limit: int | None = None, tag: Any = None
    ) -> None:
        self.device = device
        self.priority = priority
        self.limit = limit
        self.pool: Engine | None = None
        self.exclusive = False
        self.width: int | None = None
        self.tag = tag
        self.last: Operation | None = None  # submitted last; None once it is done
        self.depth = 0  # operations that are not done

    @property
    def clusters(self) -> int:
        """How many clusters a kernel of this stream can have."""
        capacity = (self.pool or self.device.clusters).capacity
        return capacity if self.limit is None else min(self.limit, capacity)


class Operation:
    """One thing that a device does.

    `duration_ns` is what it takes alone; None where that is known only later: when all it waits for is done,
    `on_start(operation)` is called and may set it (and `demand`); else `resolve` of the simulation does.
    `clusters`: how many a kernel needs. `demand`: bytes moved by resource ("l3", "pcie_up", "pcie_down",
    "link"). `after`: operations it waits for besides the one before it on its stream; one of them may be
    submitted later. `on_done(operation)` is called when it is final, after the sink. `tag`: whatever the
    maker wants back.

    The simulation sets `start_ns`, `end_ns` (both -1 before), `contention_ns` (by how much sharing stretched
    it) and `sequence` (order of submission).
    """

    __slots__ = (
        "_due_ns",
        "_engine",
        "_followers",
        "_missing",
        "_next",
        "_peer_engine",
        "_reservation",
        "_units",
        "after",
        "clusters",
        "contention_ns",
        "demand",
        "duration_ns",
        "end_ns",
        "engine",
        "held",
        "kind",
        "on_done",
        "on_start",
        "peer",
        "sequence",
        "start_ns",
        "stream",
        "submit_ns",
        "tag",
    )

    def __init__(
        self,
        kind: str,
        stream: StreamQueue,
        engine: str = "none",
        duration_ns: int | None = 0,
        *,
        submit_ns: int = 0,
        demand: Mapping[str, int] = _NOTHING,
        after: Sequence[Operation] = (),
        clusters: int = 1,
        tag: Any = None,
        on_start: Callable[[Operation], object] | None = None,
        on_done: Callable[[Operation], object] | None = None,
        peer: Peer | None = None,
    ) -> None:
        self.kind = kind
        self.stream = stream
        self.engine = engine
        self.duration_ns = duration_ns
        self.submit_ns = submit_ns
        self.demand = demand
        self.after = after
        self.clusters = clusters
        self.tag = tag
        self.on_start = on_start
        self.on_done = on_done
        self.peer = peer
        self.start_ns = -1
        self.end_ns = -1
        self.sequence = 0
        self.contention_ns = 0
        # the simulation's own
        self.held = False  # something before it is to be done by the host first
        self._engine: Engine | None = None
        self._peer_engine: Engine | None = None
        self._units = 0
        self._missing = 0  # operations before it that are not done
        self._next: Operation | None = None  # on its stream
        self._followers: list[Operation] | None = None  # on other streams
        self._due_ns = -1  # of its next event, which of the heap's entries is the valid one
        self._reservation: Reservation | None = None

    @property
    def done(self) -> bool:
        """Whether its end is final."""
        return self.end_ns >= 0

    def __repr__(self) -> str:
        times = f"{self.start_ns}..{self.end_ns}" if self.done else "not done"
        return f"<{self.kind} on {self.engine}, {times}>"
