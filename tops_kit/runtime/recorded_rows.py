"""Activities as rows: for each kind of activity the function that packs and writes one.

They run at every call that is recorded, so they take tuples apart by position and look up nothing twice. A
number that its field can't hold is clamped: a row with an odd id is better than a call that fails.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from topstx.recorder import rows
from topstx.recorder.rows import RowKind, RowWriter

from tops_kit.runtime import activity as acts
from tops_kit.runtime.api_table import DRIVER_API, NAMES

if TYPE_CHECKING:
    from tops_kit.runtime.stacks import Stacks

_NO_STREAM: Final = rows.NONE
_COPY_NAMES: Final = tuple(f"[memcpy {kind}]" for kind in acts.COPY_KINDS)

Packer = Callable[..., object]


class Packers:
    """The packers over one writer. `stacks`, where call stacks are wanted."""

    def __init__(self, writer: RowWriter, stacks: Stacks | None) -> None:
        self.by_kind: dict[int, Packer] = {
            acts.API: _api(writer, stacks, rows.KINDS[rows.KIND_API]),
            acts.DRIVER: _api(writer, None, rows.KINDS[rows.KIND_DRIVER_API]),
            acts.KERNEL: _kernel(writer),
            acts.MEMCPY: _memcpy(writer),
            acts.MEMSET: _memset(writer),
            acts.MEMORY: _memory(writer, stacks),
            acts.SYNCHRONIZATION: _sync(writer),
            acts.GRAPH: _graph(writer),
            acts.GCU_EVENT: _gcu_event(writer),
            acts.EXTERNAL_CORRELATION: _external(writer),
            acts.OVERHEAD: _overhead(writer),
            acts.STREAM_RACE: _stream_race(writer),
            acts.PRINT: _print(writer),
            acts.HOST_FUNCTION: _host_function(writer),
        }


def packed(kind: RowKind, *values: float) -> bytes:
    """A body; numbers that their fields can't hold become the nearest that they can."""
    try:
        return kind.body.pack(*values)
    except struct.error:
        return kind.body.pack(
            *(_clamped(code, value) for (_, code, _), value in zip(kind.fields, values, strict=True))
        )


def _clamped(code: str, value: float) -> float:
    if code == "d":
        return float(value)
    bits = 8 * struct.calcsize("<" + code)
    low, high = (0, (1 << bits) - 1) if code.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return min(max(int(value), low), high)


def _three(extents: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z


def _api(writer: RowWriter, stacks: Stacks | None, kind: RowKind) -> Packer:
    row, number, here = writer.row, kind.number, stacks.here if stacks is not None else None

    def write(a: acts.ApiActivity) -> None:
        cbid, start_ns, end_ns, correlation_id, _, status, domain, device_id = a[:8]
        stack = here() if here is not None else 0
        name = NAMES[domain].get(cbid, "?")
        body = packed(kind, status, stack, _NO_STREAM, cbid, device_id, 1 if domain == DRIVER_API else 2)
        row(number, start_ns, end_ns, name, body, correlation_id)

    return write


def _kernel(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_KERNEL]
    row, intern, number = writer.row, writer.intern, kind.number

    def write(a: acts.KernelActivity, metric_id: int) -> None:
        (
            name, full_name, start_ns, end_ns, queued_ns, submit_ns, device_id, context_id, stream_id,
            correlation_id, _, grid, block, grid_id, graph_id, node_id, clusters, contention_ns, cooperative,
        ) = a[:19]  # fmt: skip
        body = packed(
            kind, queued_ns, submit_ns, contention_ns, *_three(grid), *_three(block), intern(full_name),
            stream_id, context_id, device_id, graph_id, node_id, metric_id, grid_id, clusters, cooperative,
        )  # fmt: skip
        row(number, start_ns, end_ns, name, body, correlation_id)

    return write


def _memcpy(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_MEMCPY]
    row, number = writer.row, kind.number

    def write(a: acts.MemcpyActivity) -> None:
        (
            copy_kind, src_kind, dst_kind, size_bytes, start_ns, end_ns, queued_ns, submit_ns, device_id,
            context_id, stream_id, correlation_id, _, flags, graph_id, node_id, contention_ns,
            src_device_id, dst_device_id,
        ) = a[:19]  # fmt: skip
        body = packed(
            kind, size_bytes, queued_ns, submit_ns, contention_ns, stream_id, context_id, device_id, graph_id,
            node_id, copy_kind, src_kind, dst_kind, flags, src_device_id, dst_device_id,
        )  # fmt: skip
        row(number, start_ns, end_ns, _COPY_NAMES[copy_kind], body, correlation_id)

    return write


def _memset(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_MEMSET]

    def write(a: acts.MemsetActivity) -> None:
        body = packed(
            kind, a.size_bytes, a.queued_ns, a.submit_ns, a.contention_ns, a.stream_id, a.context_id,
            a.device_id, a.graph_id, a.graph_node_id, a.value & 0xFFFFFFFF, a.memory_kind, a.element_bytes,
            a.flags,
        )  # fmt: skip
        writer.row(kind.number, a.start_ns, a.end_ns, "[memset]", body, a.correlation_id)

    return write


def _memory(writer: RowWriter, stacks: Stacks | None) -> Packer:
    kind = rows.KINDS[rows.KIND_MEMORY]

    def write(a: acts.MemoryActivity) -> None:
        body = packed(
            kind, a.address, a.size_bytes, a.in_use_bytes, a.serial, a.pool_id, a.stream_id, a.context_id,
            a.device_id, stacks.here() if stacks is not None else 0, writer.intern(a.note) if a.note else 0,
            a.operation, a.memory_kind,
        )  # fmt: skip
        name = rows.MEMORY_OPERATIONS[a.operation]
        writer.row(kind.number, a.end_ns, a.end_ns, name, body, a.correlation_id)

    return write


def _sync(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_SYNC]

    def write(a: acts.SyncActivity) -> None:
        body = packed(kind, a.event_id, a.stream_id, a.context_id, a.device_id, a.sync_kind)
        name = rows.SYNC_KINDS[a.sync_kind]
        writer.row(kind.number, a.start_ns, a.end_ns, name, body, a.correlation_id)

    return write


def _graph(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_GRAPH]

    def write(a: acts.GraphActivity) -> None:
        body = packed(
            kind, a.queued_ns, a.submit_ns, a.graph_id, a.exec_id, a.nodes, a.stream_id, a.context_id,
            a.device_id,
        )  # fmt: skip
        writer.row(kind.number, a.start_ns, a.end_ns, f"graph {a.graph_id}", body, a.correlation_id)

    return write


def _gcu_event(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_GCU_EVENT]

    def write(a: acts.GcuEventActivity) -> None:
        body = packed(kind, a.event_id, a.stream_id, a.context_id, a.device_id)
        writer.row(kind.number, a.start_ns, a.start_ns, "event", body, a.correlation_id)

    return write


def _external(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_EXTERNAL]

    def write(a: acts.ExternalCorrelation) -> None:
        body = packed(kind, a.external_id, a.external_kind)
        writer.row(kind.number, a.start_ns, a.start_ns, "external", body, a.correlation_id)

    return write


def _overhead(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_RUNTIME_OVERHEAD]

    def write(a: acts.OverheadActivity) -> None:
        body = packed(kind, writer.intern(a.note) if a.note else 0)
        name = acts.OVERHEAD_KINDS[a.overhead_kind]
        writer.row(kind.number, a.start_ns, a.end_ns, name, body, a.correlation_id)

    return write


def _stream_race(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_STREAM_RACE]
    intern = writer.intern

    def write(a: acts.StreamRaceActivity) -> None:
        stacks = (intern(stack) if stack else 0 for stack in (a.first_stack, a.second_stack))
        body = packed(
            kind, a.address, a.size_bytes, intern(a.second), a.second_correlation_id, *stacks, a.device_id
        )
        writer.row(kind.number, a.start_ns, a.start_ns, a.first, body, a.first_correlation_id)

    return write


def _print(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_PRINT]

    def write(a: acts.PrintActivity) -> None:
        text = a.text.encode("utf-8", "replace")[: rows.TEXT_MAX]
        body = packed(kind, a.stream_id, a.device_id) + text
        writer.row(kind.number, a.start_ns, a.start_ns, "print", body, a.correlation_id)

    return write


def _host_function(writer: RowWriter) -> Packer:
    kind = rows.KINDS[rows.KIND_HOST_FUNCTION]

    def write(a: acts.HostFunctionActivity) -> None:
        body = packed(kind, a.stream_id, a.context_id, a.device_id, a.graph_id, a.graph_node_id)
        writer.row(kind.number, a.start_ns, a.end_ns, a.name, body, a.correlation_id)

    return write
