"""What happened on device and host: one immutable record an activity, given to whoever listens.

Times are session ns. Records are tuples, so that making one is cheap (`KernelActivity._make((...))` is the
cheapest way) and C code reads them by position: fields are only ever appended. All are of this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tops_kit.runtime.api_table import RUNTIME_API, api_name

if TYPE_CHECKING:
    from tops_kit.engine.report import LaunchTiming

# Kinds, as bits of the mask that says what anyone wants. Append only.
KERNEL: Final = 1 << 0
MEMCPY: Final = 1 << 1
MEMSET: Final = 1 << 2
API: Final = 1 << 3
DRIVER: Final = 1 << 4
SYNCHRONIZATION: Final = 1 << 5
OVERHEAD: Final = 1 << 6
EXTERNAL_CORRELATION: Final = 1 << 7
GCU_EVENT: Final = 1 << 8
GRAPH: Final = 1 << 9
MEMORY: Final = 1 << 10
DEVICE: Final = 1 << 11
STREAM_RACE: Final = 1 << 12
PRINT: Final = 1 << 13
HOST_FUNCTION: Final = 1 << 14
ALL: Final = (1 << 15) - 1  # of the runtime; who wants ranges and marks asks for MARKER, too
MARKER: Final = 1 << 15
MARKER_FLAGS: Final = ("unknown", "instant", "start", "end")
MARKER_INSTANT, MARKER_START, MARKER_END = range(1, 4)

# Directions and kinds of memory. Append only.
COPY_KINDS: Final = ("unknown", "HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "HtoSymbol", "SymbolToH")
MEMORY_KINDS: Final = ("unknown", "pageable", "pinned", "device", "constant")
COPY_HTOD, COPY_DTOH, COPY_DTOD, COPY_HTOH, COPY_PTOP, COPY_TO_SYMBOL, COPY_FROM_SYMBOL = range(1, 8)
MEMORY_PAGEABLE, MEMORY_PINNED, MEMORY_DEVICE, MEMORY_CONSTANT = range(1, 5)
FLAG_ASYNC: Final = 1  # of a copy or fill: its call does not wait for it

SYNC_KINDS: Final = ("unknown", "device", "stream", "event", "stream wait event", "blocking call")
SYNC_DEVICE, SYNC_STREAM, SYNC_EVENT, SYNC_STREAM_WAIT_EVENT, SYNC_BLOCKING = range(1, 6)
MEMORY_OPERATIONS: Final = ("unknown", "alloc", "free")
MEMORY_ALLOC, MEMORY_FREE = 1, 2
OVERHEAD_KINDS: Final = (
    "unknown", "compile", "buffer flush", "callback", "instrumentation", "counters", "save launch",
)  # fmt: skip
OVERHEAD_COMPILE, OVERHEAD_FLUSH, OVERHEAD_CALLBACK, OVERHEAD_INSTRUMENTATION = range(1, 5)
OVERHEAD_COUNTERS, OVERHEAD_SAVE_LAUNCH = 5, 6


class ApiActivity(NamedTuple):
    """A runtime (or driver) call, from its beginning to its return. `return_value` is the vendor's status."""

    cbid: int
    start_ns: int
    end_ns: int
    correlation_id: int
    thread_id: int
    return_value: int = 0
    domain: int = RUNTIME_API
    device_id: int = 0
    stream_id: int = -1  # that the call is about; -1: none

    @property
    def name(self) -> str:
        """The vendor's name of the call."""
        return api_name(self.cbid, self.domain)


class KernelActivity(NamedTuple):
    """A kernel on the device. `queued_ns`: its API call began; `submit_ns`: the device got it.

    `grid_id` counts launches of the process. `contention_ns` of its duration came from sharing L3 and links.
    `graph_node_id` is 0 outside of graphs. `launch` is what the engine gave: its `report` is a LaunchTiming.
    """

    name: str
    full_name: str
    start_ns: int
    end_ns: int
    queued_ns: int
    submit_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    thread_id: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    grid_id: int = 0
    graph_id: int = 0
    graph_node_id: int = 0
    clusters: int = 0
    contention_ns: int = 0
    cooperative: bool = False
    launch: Any = None

    @property
    def timing(self) -> LaunchTiming | None:
        """Counters of the launch, per SIP, unit and source line; None where it was not timed. Lazy."""
        result = getattr(self.launch, "result", None)
        if result is None or result.times is None:
            return None
        timing: LaunchTiming = self.launch.report
        return timing


class MemcpyActivity(NamedTuple):
    """A copy. `copy_kind` indexes COPY_KINDS, `src_kind` and `dst_kind` MEMORY_KINDS; `flags`: FLAG_ASYNC."""

    copy_kind: int
    src_kind: int
    dst_kind: int
    size_bytes: int
    start_ns: int
    end_ns: int
    queued_ns: int
    submit_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    thread_id: int
    flags: int = 0
    graph_id: int = 0
    graph_node_id: int = 0
    contention_ns: int = 0
    src_device_id: int = -1
    dst_device_id: int = -1
    src_address: int = 0
    dst_address: int = 0


class MemsetActivity(NamedTuple):
    """A fill of `size_bytes` with a value of `element_bytes`."""

    value: int
    element_bytes: int
    memory_kind: int
    size_bytes: int
    start_ns: int
    end_ns: int
    queued_ns: int
    submit_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    thread_id: int
    flags: int = 0
    graph_id: int = 0
    graph_node_id: int = 0
    contention_ns: int = 0
    address: int = 0


class MemoryActivity(NamedTuple):
    """An allocation or a free (MEMORY_OPERATIONS), at a moment of its call.

    `in_use_bytes`: of the process on the device, after it. `serial` numbers allocations, an address can come
    back. `pool_id` 0: no pool. `note`: where it was allocated, for people.
    """

    operation: int
    memory_kind: int
    address: int
    size_bytes: int
    in_use_bytes: int
    start_ns: int
    end_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    thread_id: int
    serial: int = 0
    pool_id: int = 0
    note: str = ""


class SyncActivity(NamedTuple):
    """The host (or a stream: "stream wait event") waited; `sync_kind` indexes SYNC_KINDS."""

    sync_kind: int
    start_ns: int
    end_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    thread_id: int
    event_id: int = 0


class GraphActivity(NamedTuple):
    """One launch of a graph on the device, from its first node's start to its last one's end."""

    graph_id: int
    exec_id: int
    nodes: int
    start_ns: int
    end_ns: int
    queued_ns: int
    submit_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    thread_id: int


class GcuEventActivity(NamedTuple):
    """An event was reached on its stream, at start_ns (= end_ns)."""

    event_id: int
    start_ns: int
    end_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    thread_id: int


class HostFunctionActivity(NamedTuple):
    """A host function that a stream waited for."""

    name: str
    start_ns: int
    end_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    thread_id: int
    graph_id: int = 0
    graph_node_id: int = 0


class OverheadActivity(NamedTuple):
    """Time that compiling or measuring took, not the program (OVERHEAD_KINDS)."""

    overhead_kind: int
    start_ns: int
    end_ns: int
    thread_id: int
    correlation_id: int = 0
    note: str = ""


class ExternalCorrelation(NamedTuple):
    """A call was made while the thread had an id of somebody else's pushed: what links the two."""

    external_kind: int
    external_id: int
    correlation_id: int
    start_ns: int
    thread_id: int


class DeviceActivity(NamedTuple):
    """A device that the process uses: once for each."""

    device_id: int
    name: str
    spec_name: str
    spec_hash: str
    cost_model: int
    start_ns: int
    slice_name: str = ""


class StreamRaceActivity(NamedTuple):
    """Two operations without an order between them used the same bytes, one of them storing."""

    first: str
    second: str
    address: int
    size_bytes: int
    start_ns: int
    device_id: int
    first_correlation_id: int
    second_correlation_id: int
    first_stack: str = ""
    second_stack: str = ""


class MarkerActivity(NamedTuple):
    """A mark of topstx, or the beginning or end of a range; both of one range have its `marker_id`."""

    flag: int
    marker_id: int
    time_ns: int
    name: str
    domain: str  # "" for the default one
    thread_id: int


class PrintActivity(NamedTuple):
    """A line that a kernel printed, told when that has ended. `block`, `thread` (of the launch): who did."""

    text: str
    start_ns: int
    device_id: int
    stream_id: int
    correlation_id: int
    kernel: str = ""
    block: int = -1
    thread: int = -1


Activity = (
    ApiActivity
    | KernelActivity
    | MemcpyActivity
    | MemsetActivity
    | MemoryActivity
    | SyncActivity
    | GraphActivity
    | GcuEventActivity
    | HostFunctionActivity
    | OverheadActivity
    | ExternalCorrelation
    | DeviceActivity
    | StreamRaceActivity
    | PrintActivity
    | MarkerActivity
)

KIND_OF: Final[dict[type[Activity], int]] = {
    ApiActivity: API,  # and DRIVER, by its domain
    KernelActivity: KERNEL,
    MemcpyActivity: MEMCPY,
    MemsetActivity: MEMSET,
    MemoryActivity: MEMORY,
    SyncActivity: SYNCHRONIZATION,
    GraphActivity: GRAPH,
    GcuEventActivity: GCU_EVENT,
    HostFunctionActivity: HOST_FUNCTION,
    OverheadActivity: OVERHEAD,
    ExternalCorrelation: EXTERNAL_CORRELATION,
    DeviceActivity: DEVICE,
    StreamRaceActivity: STREAM_RACE,
    PrintActivity: PRINT,
    MarkerActivity: MARKER,
}
