"""Records as they are read from buffers. Times are session ns; names are those of the vendor's records.

A kind's fields are stated once, here, in the order they are packed. Versions only append: LAYOUTS has what
each version added, and a record that is older than its class has the defaults for what it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tops_kit.runtime import activity as acts
from tops_kit.runtime.api_table import DRIVER_API, RUNTIME_API, api_name
from topspti.kinds import ActivityKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What all records have: the process, and where in its buffer the next one begins."""

    KIND: ClassVar[ActivityKind] = ActivityKind.INVALID
    LAYOUTS: ClassVar[tuple[str, ...]] = ()

    kind: ActivityKind = ActivityKind.INVALID
    version: int = 1
    end_offset: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed(Record):
    """A record with a beginning and an end."""

    start_ns: int = 0
    end_ns: int = 0

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class OnStream(Timed):
    """What ran on a stream of a device; stream_id -1: on no stream, but the whole device."""

    process_id: int = 0
    thread_id: int = 0
    device_id: int = 0
    context_id: int = 0
    stream_id: int = 0
    correlation_id: int = 0


_STREAM = "start_ns:q end_ns:q process_id:I thread_id:I device_id:h context_id:H stream_id:i correlation_id:Q"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord(OnStream):
    """A launch. `completed_ns` is its end; `queued_ns`: its API call began; `submit_ns`: the device got it.

    `contention_ns` of its time came from sharing memory and links with others.
    """

    KIND: ClassVar[ActivityKind] = ActivityKind.KERNEL
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        f"{_STREAM} name:s full_name:s completed_ns:q grid_id:Q grid_x:I grid_y:I grid_z:I"
        " block_x:H block_y:H block_z:H",
        "queued_ns:q submit_ns:q graph_id:I graph_node_id:I clusters:H cooperative:B contention_ns:q",
    )

    name: str = ""
    full_name: str = ""
    completed_ns: int = 0
    grid_id: int = 0
    grid_x: int = 1
    grid_y: int = 1
    grid_z: int = 1
    block_x: int = 1
    block_y: int = 1
    block_z: int = 1
    queued_ns: int = 0
    submit_ns: int = 0
    graph_id: int = 0
    graph_node_id: int = 0
    clusters: int = 0
    cooperative: int = 0
    contention_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemcpyRecord(OnStream):
    """A copy of `bytes`; `flags` 1: asynchronous. Kinds are numbers, with names as properties."""

    KIND: ClassVar[ActivityKind] = ActivityKind.MEMCPY
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        f"{_STREAM} copy_kind:B src_kind:B dst_kind:B flags:B bytes:Q",
        "queued_ns:q submit_ns:q graph_id:I graph_node_id:I src_device_id:h dst_device_id:h contention_ns:q"
        " src_address:Q dst_address:Q",
    )

    copy_kind: int = 0
    src_kind: int = 0
    dst_kind: int = 0
    flags: int = 0
    bytes: int = 0
    queued_ns: int = 0
    submit_ns: int = 0
    graph_id: int = 0
    graph_node_id: int = 0
    src_device_id: int = -1
    dst_device_id: int = -1
    contention_ns: int = 0
    src_address: int = 0
    dst_address: int = 0

    @property
    def copy_kind_name(self) -> str:
        """HtoD, DtoH, ..."""
        return _name(acts.COPY_KINDS, self.copy_kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemsetRecord(OnStream):
    """A fill of `bytes` with `value`, whose elements have `element_bytes`."""

    KIND: ClassVar[ActivityKind] = ActivityKind.MEMSET
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        f"{_STREAM} value:q memory_kind:B flags:B bytes:Q",
        "element_bytes:B queued_ns:q submit_ns:q graph_id:I graph_node_id:I contention_ns:q address:Q",
    )

    value: int = 0
    memory_kind: int = 0
    flags: int = 0
    bytes: int = 0
    element_bytes: int = 1
    queued_ns: int = 0
    submit_ns: int = 0
    graph_id: int = 0
    graph_node_id: int = 0
    contention_ns: int = 0
    address: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRecord(Timed):
    """A call of the runtime or the driver; `return_value` is the vendor's status."""

    KIND: ClassVar[ActivityKind] = ActivityKind.RUNTIME
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        "cbid:I start_ns:q end_ns:q process_id:I thread_id:I correlation_id:Q return_value:i",
        "device_id:h",
    )

    cbid: int = 0
    process_id: int = 0
    thread_id: int = 0
    correlation_id: int = 0
    return_value: int = 0
    device_id: int = 0

    @property
    def name(self) -> str:
        """The vendor's name of the call."""
        return api_name(self.cbid, DRIVER_API if self.kind == ActivityKind.DRIVER else RUNTIME_API)


@dataclass(frozen=True, slots=True, kw_only=True)
class SynchronizationRecord(OnStream):
    """The host waited, or a stream did."""

    KIND: ClassVar[ActivityKind] = ActivityKind.SYNCHRONIZATION
    LAYOUTS: ClassVar[tuple[str, ...]] = (f"{_STREAM} sync_kind:B event_id:I",)

    sync_kind: int = 0
    event_id: int = 0

    @property
    def sync_kind_name(self) -> str:
        """device, stream, event, ..."""
        return _name(acts.SYNC_KINDS, self.sync_kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadRecord(Timed):
    """Time that compiling or measuring took."""

    KIND: ClassVar[ActivityKind] = ActivityKind.OVERHEAD
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        "start_ns:q end_ns:q process_id:I thread_id:I overhead_kind:B correlation_id:Q note:s",
    )

    process_id: int = 0
    thread_id: int = 0
    overhead_kind: int = 0
    correlation_id: int = 0
    note: str = ""

    @property
    def overhead_kind_name(self) -> str:
        """compile, callback, ..."""
        return _name(acts.OVERHEAD_KINDS, self.overhead_kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalCorrelationRecord(Record):
    """The call with `correlation_id` was made under somebody else's `external_id`."""

    KIND: ClassVar[ActivityKind] = ActivityKind.EXTERNAL_CORRELATION
    LAYOUTS: ClassVar[tuple[str, ...]] = ("external_kind:I external_id:Q correlation_id:Q",)

    external_kind: int = 0
    external_id: int = 0
    correlation_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GcuEventRecord(OnStream):
    """An event was reached on its stream."""

    KIND: ClassVar[ActivityKind] = ActivityKind.GCU_EVENT
    LAYOUTS: ClassVar[tuple[str, ...]] = (f"{_STREAM} event_id:I",)

    event_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord(OnStream):
    """One launch of a graph; its nodes' kernels, copies and fills have its graph_id and a graph_node_id."""

    KIND: ClassVar[ActivityKind] = ActivityKind.GRAPH
    LAYOUTS: ClassVar[tuple[str, ...]] = (f"{_STREAM} graph_id:I exec_id:I nodes:I queued_ns:q submit_ns:q",)

    graph_id: int = 0
    exec_id: int = 0
    nodes: int = 0
    queued_ns: int = 0
    submit_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord(OnStream):
    """An allocation or a free; `in_use_bytes` of the process on the device after it."""

    KIND: ClassVar[ActivityKind] = ActivityKind.MEMORY
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        f"{_STREAM} operation:B memory_kind:B address:Q bytes:Q in_use_bytes:Q serial:Q pool_id:I note:s",
    )

    operation: int = 0
    memory_kind: int = 0
    address: int = 0
    bytes: int = 0
    in_use_bytes: int = 0
    serial: int = 0
    pool_id: int = 0
    note: str = ""

    @property
    def operation_name(self) -> str:
        """alloc or free."""
        return _name(acts.MEMORY_OPERATIONS, self.operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFunctionRecord(OnStream):
    """A host function that a stream waited for."""

    KIND: ClassVar[ActivityKind] = ActivityKind.HOST_FUNCTION
    LAYOUTS: ClassVar[tuple[str, ...]] = (f"{_STREAM} name:s graph_id:I graph_node_id:I",)

    name: str = ""
    graph_id: int = 0
    graph_node_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord(Record):
    """A device that the process uses, and what it is modelled as."""

    KIND: ClassVar[ActivityKind] = ActivityKind.DEVICE
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        "device_id:h name:s spec_name:s spec_hash:s cost_model:I start_ns:q slice_name:s",
    )

    device_id: int = 0
    name: str = ""
    spec_name: str = ""
    spec_hash: str = ""
    cost_model: int = 0
    start_ns: int = 0
    slice_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRaceRecord(Record):
    """Two operations used the same bytes without an order between them."""

    KIND: ClassVar[ActivityKind] = ActivityKind.STREAM_RACE
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        "start_ns:q device_id:h first:s second:s address:Q bytes:Q first_correlation_id:Q"
        " second_correlation_id:Q",
    )

    start_ns: int = 0
    device_id: int = 0
    first: str = ""
    second: str = ""
    address: int = 0
    bytes: int = 0
    first_correlation_id: int = 0
    second_correlation_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMetricRecord(Record):
    """One counter of a launch (topspti.METRICS says what it means); `grid_id` is the launch's."""

    KIND: ClassVar[ActivityKind] = ActivityKind.KERNEL_METRIC
    LAYOUTS: ClassVar[tuple[str, ...]] = ("grid_id:Q metric:s value:d",)

    grid_id: int = 0
    metric: str = ""
    value: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLineRecord(Record):
    """What a source line of a launch cost, over all SIPs (LineTiming has the words)."""

    KIND: ClassVar[ActivityKind] = ActivityKind.KERNEL_LINE
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        "grid_id:Q file:s line:I issued:Q scalar_cycles:Q stall_cycles:Q blamed_cycles:Q unit_cycles:Q"
        " bytes:Q",
    )

    grid_id: int = 0
    file: str = ""
    line: int = 0
    issued: int = 0
    scalar_cycles: int = 0
    stall_cycles: int = 0
    blamed_cycles: int = 0
    unit_cycles: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PcSamplingRecord(Record):
    """How many samples fell on a source line for a stall reason ("issuing": none)."""

    KIND: ClassVar[ActivityKind] = ActivityKind.PC_SAMPLING
    LAYOUTS: ClassVar[tuple[str, ...]] = ("grid_id:Q file:s line:I stall_reason:s samples:Q period_cycles:I",)

    grid_id: int = 0
    file: str = ""
    line: int = 0
    stall_reason: str = ""
    samples: int = 0
    period_cycles: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerRecord(Record):
    """A mark of topstx (`flag` "instant"), or the "start" or "end" of a range; both have its `marker_id`."""

    KIND: ClassVar[ActivityKind] = ActivityKind.MARKER
    LAYOUTS: ClassVar[tuple[str, ...]] = (
        "flags:B marker_id:Q timestamp_ns:q process_id:I thread_id:I name:s domain:s",
    )

    flags: int = 0
    marker_id: int = 0
    timestamp_ns: int = 0
    process_id: int = 0
    thread_id: int = 0
    name: str = ""
    domain: str = ""

    @property
    def flag(self) -> str:
        """ "instant", "start" or "end"."""
        return _name(acts.MARKER_FLAGS, self.flags)


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else f"kind{number}"
