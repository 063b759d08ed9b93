"""What is told of an operation when the device has done it.

Each is the `tag` of an operation; `done` makes the activity, and only where somebody wants it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tops_kit.gcu.simulation import Operation
from tops_kit.runtime import activity as acts
from tops_kit.runtime.hooks import HOOKS

if TYPE_CHECKING:
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.plan import Plan

_MADE = tuple.__new__


class Call:
    """The API call that made an operation, and the graph it belongs to."""

    __slots__ = ("begin_ns", "correlation_id", "graph_id", "node_id", "thread_id")

    def __init__(self, graph_id: int = 0, node_id: int = 0) -> None:
        thread = HOOKS.thread
        self.correlation_id = thread.correlation_id
        self.thread_id = thread.thread_id
        self.begin_ns = thread.begin_ns
        self.graph_id = graph_id
        self.node_id = node_id


class KernelTag:
    """A kernel."""

    __slots__ = ("call", "context", "grid_id", "launch", "plan", "sips", "stream_id")

    def __init__(
        self, context: Context, stream_id: int, plan: Plan, launch: Any, *, grid_id: int, call: Call
    ) -> None:
        self.context = context
        self.stream_id = stream_id
        self.plan = plan
        self.sips = plan.sips
        self.launch = launch
        self.grid_id = grid_id
        self.call = call

    def done(self, op: Operation) -> None:
        """Tell it."""
        call, plan, context = self.call, self.plan, self.context
        if HOOKS.kinds & acts.PRINT and self.launch is not None:
            self.tell_lines(self.launch.printed, op.end_ns)
        if not HOOKS.kinds & acts.KERNEL:
            return
        fields = (
            plan.name, plan.full_name, op.start_ns, op.end_ns, call.begin_ns or op.submit_ns, op.submit_ns,
            context.device_id, context.context_id, self.stream_id, call.correlation_id, call.thread_id,
            plan.grid, plan.block, self.grid_id, call.graph_id, call.node_id, op._units or op.clusters,
            op.contention_ns, plan.cooperative, self.launch,
        )  # fmt: skip
        HOOKS.emit(acts.KERNEL, _MADE(acts.KernelActivity, fields))

    def tell_lines(self, lines: Iterable[tuple[str, tuple[int, int]]], end_ns: int) -> None:
        """Lines that it printed, with (block, thread) of each."""
        for text, (block, thread) in lines:
            line = acts.PrintActivity(
                text, end_ns, self.context.device_id, self.stream_id, self.call.correlation_id,
                self.plan.name, block, thread,
            )  # fmt: skip
            HOOKS.emit(acts.PRINT, line)


class CopyTag:
    """A copy; `source` and `target` are (kind of memory, device or -1, address)."""

    __slots__ = ("call", "context", "flags", "kind", "size_bytes", "source", "stream_id", "target")

    def __init__(
        self,
        context: Context,
        stream_id: int,
        kind: int,
        size_bytes: int,
        *,
        source: tuple[int, int, int],
        target: tuple[int, int, int],
        flags: int,
        call: Call,
    ) -> None:
        self.context = context
        self.stream_id = stream_id
        self.kind = kind
        self.size_bytes = size_bytes
        self.source = source
        self.target = target
        self.flags = flags
        self.call = call

    def done(self, op: Operation) -> None:
        """Tell it."""
        if not HOOKS.kinds & acts.MEMCPY:
            return
        call, context = self.call, self.context
        source_kind, source_device, source_address = self.source
        target_kind, target_device, target_address = self.target
        fields = (
            self.kind, source_kind, target_kind, self.size_bytes, op.start_ns, op.end_ns,
            call.begin_ns or op.submit_ns, op.submit_ns, context.device_id, context.context_id,
            self.stream_id, call.correlation_id, call.thread_id, self.flags, call.graph_id, call.node_id,
            op.contention_ns, source_device, target_device, source_address, target_address,
        )  # fmt: skip
        HOOKS.emit(acts.MEMCPY, _MADE(acts.MemcpyActivity, fields))


class FillTag:
    """A fill."""

    __slots__ = ("address", "call", "context", "element_bytes", "flags", "size_bytes", "stream_id", "value")

    def __init__(
        self,
        context: Context,
        stream_id: int,
        value: int,
        *,
        element_bytes: int,
        size_bytes: int,
        address: int,
        flags: int,
        call: Call,
    ) -> None:
        self.context = context
        self.stream_id = stream_id
        self.value = value
        self.element_bytes = element_bytes
        self.size_bytes = size_bytes
        self.address = address
        self.flags = flags
        self.call = call

    def done(self, op: Operation) -> None:
        """Tell it."""
        if not HOOKS.kinds & acts.MEMSET:
            return
        call, context = self.call, self.context
        fields = (
            self.value, self.element_bytes, acts.MEMORY_DEVICE, self.size_bytes, op.start_ns, op.end_ns,
            call.begin_ns or op.submit_ns, op.submit_ns, context.device_id, context.context_id,
            self.stream_id, call.correlation_id, call.thread_id, self.flags, call.graph_id, call.node_id,
            op.contention_ns, self.address,
        )  # fmt: skip
        HOOKS.emit(acts.MEMSET, _MADE(acts.MemsetActivity, fields))


class EventTag:
    """An event was reached."""

    __slots__ = ("call", "context", "event_id", "stream_id")

    def __init__(self, context: Context, stream_id: int, event_id: int, call: Call) -> None:
        self.context = context
        self.stream_id = stream_id
        self.event_id = event_id
        self.call = call

    def done(self, op: Operation) -> None:
        """Tell it."""
        if HOOKS.kinds & acts.GCU_EVENT:
            call, context = self.call, self.context
            reached = acts.GcuEventActivity(
                self.event_id, op.start_ns, op.end_ns, context.device_id, context.context_id,
                self.stream_id, call.correlation_id, call.thread_id,
            )  # fmt: skip
            HOOKS.emit(acts.GCU_EVENT, reached)


class HostTag:
    """A host function was run."""

    __slots__ = ("call", "context", "name", "stream_id")

    def __init__(self, context: Context, stream_id: int, name: str, call: Call) -> None:
        self.context = context
        self.stream_id = stream_id
        self.name = name
        self.call = call

    def done(self, op: Operation) -> None:
        """Tell it."""
        if HOOKS.kinds & acts.HOST_FUNCTION:
            call, context = self.call, self.context
            ran = acts.HostFunctionActivity(
                self.name, op.start_ns, op.end_ns, context.device_id, context.context_id, self.stream_id,
                call.correlation_id, call.thread_id, call.graph_id, call.node_id,
            )  # fmt: skip
            HOOKS.emit(acts.HOST_FUNCTION, ran)


class GraphTag:
    """A graph's launch: the tag of the operation that is its end. `first_ns`: its start."""

    __slots__ = ("call", "context", "exec_id", "first_ns", "graph_id", "nodes", "stream_id")

    def __init__(
        self, context: Context, stream_id: int, *, graph_id: int, exec_id: int, nodes: int, call: Call
    ) -> None:
        self.context = context
        self.stream_id = stream_id
        self.graph_id = graph_id
        self.exec_id = exec_id
        self.nodes = nodes
        self.call = call
        self.first_ns = -1

    def begin(self, op: Operation) -> None:
        """The graph's beginning is done."""
        self.first_ns = op.start_ns

    def done(self, op: Operation) -> None:
        """Tell it."""
        if HOOKS.kinds & acts.GRAPH:
            call, context = self.call, self.context
            ran = acts.GraphActivity(
                self.graph_id, self.exec_id, self.nodes, self.first_ns if self.first_ns >= 0 else op.start_ns,
                op.end_ns, call.begin_ns or op.submit_ns, op.submit_ns, context.device_id, context.context_id,
                self.stream_id, call.correlation_id, call.thread_id,
            )  # fmt: skip
            HOOKS.emit(acts.GRAPH, ran)
