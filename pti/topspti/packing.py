"""From the runtime's activities to packed records: the order of values is that of the records' layouts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from tops_kit.runtime.activity import (
    ApiActivity,
    DeviceActivity,
    ExternalCorrelation,
    GcuEventActivity,
    GraphActivity,
    HostFunctionActivity,
    KernelActivity,
    MarkerActivity,
    MemcpyActivity,
    MemoryActivity,
    MemsetActivity,
    OverheadActivity,
    StreamRaceActivity,
    SyncActivity,
)
from topspti.kinds import ActivityKind
from topspti.strings import STRINGS

Values = tuple[Any, ...]
_intern = STRINGS.intern
_pid = os.getpid


def _stream(a: Any) -> Values:
    return (
        a.start_ns, a.end_ns, _pid(), a.thread_id, a.device_id, a.context_id, a.stream_id, a.correlation_id,
    )  # fmt: skip


def kernel(a: KernelActivity) -> Values:
    """Values of a KernelRecord."""
    (
        name, full_name, start_ns, end_ns, queued_ns, submit_ns, device_id, context_id, stream_id,
        correlation_id, thread_id, grid, block, grid_id, graph_id, node_id, clusters, contention_ns,
        cooperative,
    ) = a[:19]  # fmt: skip
    return (
        start_ns, end_ns, _pid(), thread_id, device_id, context_id, stream_id, correlation_id,
        _intern(name), _intern(full_name), end_ns, grid_id, *_extents(grid), *_extents(block),
        queued_ns, submit_ns, graph_id, node_id, clusters, cooperative, contention_ns,
    )  # fmt: skip


def _extents(extents: tuple[int, ...]) -> tuple[int, ...]:
    return extents if len(extents) == 3 else (*extents, 1, 1, 1)[:3]


def memcpy(a: MemcpyActivity) -> Values:
    """Values of a MemcpyRecord."""
    return (
        *_stream(a), a.copy_kind, a.src_kind, a.dst_kind, a.flags, a.size_bytes, a.queued_ns, a.submit_ns,
        a.graph_id, a.graph_node_id, a.src_device_id, a.dst_device_id, a.contention_ns, a.src_address,
        a.dst_address,
    )  # fmt: skip


def memset(a: MemsetActivity) -> Values:
    """Values of a MemsetRecord."""
    return (
        *_stream(a), a.value, a.memory_kind, a.flags, a.size_bytes, a.element_bytes, a.queued_ns, a.submit_ns,
        a.graph_id, a.graph_node_id, a.contention_ns, a.address,
    )  # fmt: skip


def call(a: ApiActivity) -> Values:
    """Values of an ApiRecord."""
    cbid, start_ns, end_ns, correlation_id, thread_id, return_value, _, device_id = a[:8]
    return cbid, start_ns, end_ns, _pid(), thread_id, correlation_id, return_value, device_id


def synchronization(a: SyncActivity) -> Values:
    """Values of a SynchronizationRecord."""
    return (*_stream(a), a.sync_kind, a.event_id)


def overhead(a: OverheadActivity) -> Values:
    """Values of an OverheadRecord."""
    return (a.start_ns, a.end_ns, _pid(), a.thread_id, a.overhead_kind, a.correlation_id, _intern(a.note))


def external(a: ExternalCorrelation) -> Values:
    """Values of an ExternalCorrelationRecord."""
    return (a.external_kind, a.external_id, a.correlation_id)


def event(a: GcuEventActivity) -> Values:
    """Values of a GcuEventRecord."""
    return (*_stream(a), a.event_id)


def graph(a: GraphActivity) -> Values:
    """Values of a GraphRecord."""
    return (*_stream(a), a.graph_id, a.exec_id, a.nodes, a.queued_ns, a.submit_ns)


def memory(a: MemoryActivity) -> Values:
    """Values of a MemoryRecord."""
    return (
        *_stream(a), a.operation, a.memory_kind, a.address, a.size_bytes, a.in_use_bytes, a.serial, a.pool_id,
        _intern(a.note),
    )  # fmt: skip


def host_function(a: HostFunctionActivity) -> Values:
    """Values of a HostFunctionRecord."""
    return (*_stream(a), _intern(a.name), a.graph_id, a.graph_node_id)


def device(a: DeviceActivity) -> Values:
    """Values of a DeviceRecord."""
    texts = (_intern(a.name), _intern(a.spec_name), _intern(a.spec_hash))
    return (a.device_id, *texts, a.cost_model, a.start_ns, _intern(a.slice_name))


def stream_race(a: StreamRaceActivity) -> Values:
    """Values of a StreamRaceRecord."""
    return (
        a.start_ns, a.device_id, _intern(a.first), _intern(a.second), a.address, a.size_bytes,
        a.first_correlation_id, a.second_correlation_id,
    )  # fmt: skip


def marker(a: MarkerActivity) -> Values:
    """Values of a MarkerRecord."""
    return (a.flag, a.marker_id, a.time_ns, _pid(), a.thread_id, _intern(a.name), _intern(a.domain))


PACKERS: Final[dict[ActivityKind, Callable[[Any], Values]]] = {
    ActivityKind.KERNEL: kernel,
    ActivityKind.MEMCPY: memcpy,
    ActivityKind.MEMSET: memset,
    ActivityKind.RUNTIME: call,
    ActivityKind.DRIVER: call,
    ActivityKind.SYNCHRONIZATION: synchronization,
    ActivityKind.OVERHEAD: overhead,
    ActivityKind.EXTERNAL_CORRELATION: external,
    ActivityKind.GCU_EVENT: event,
    ActivityKind.GRAPH: graph,
    ActivityKind.MEMORY: memory,
    ActivityKind.HOST_FUNCTION: host_function,
    ActivityKind.DEVICE: device,
    ActivityKind.STREAM_RACE: stream_race,
    ActivityKind.MARKER: marker,
}
