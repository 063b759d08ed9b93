"""What graphs are made of: each node knows how it is given to a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tops_kit.gcu.simulation import Operation
from tops_kit.runtime import activity as acts
from tops_kit.runtime import callers
from tops_kit.runtime.event import Event
from tops_kit.runtime.fills import submit_fill
from tops_kit.runtime.hooks import HOOKS
from tops_kit.runtime.host_functions import name_of
from tops_kit.runtime.host_functions import submit as submit_host
from tops_kit.runtime.launching import check_arrays, replanned
from tops_kit.runtime.launching import submit as submit_kernel
from tops_kit.runtime.plan import Plan
from tops_kit.runtime.records import Call, CopyTag, EventTag, FillTag, HostTag
from tops_kit.runtime.result import Launch
from tops_kit.runtime.stream import Stream
from tops_kit.runtime.transfers import Side, kind_of, submit

After = tuple[Operation, ...]


class Node:
    """A node. `kind` is a word, `label` what a picture shows."""

    kind = "empty"

    @property
    def label(self) -> str:
        """What a picture of the graph shows."""
        return self.kind

    def submit(self, stream: Stream, after: After, call: Call | None) -> Operation:
        """Give it to a stream, to begin when what is in `after` has ended. Raises TopsError."""
        return stream.context.enqueue(stream, "marker", "none", 0, None, after=after)

    def fits(self, other: Node) -> bool:
        """Whether an executable graph that has this one can have the other in its place."""
        return self.kind == other.kind


class KernelNode(Node):
    """A kernel with its arguments."""

    kind = "kernel"

    def __init__(self, plan: Plan, values: Sequence[Any]) -> None:
        self.plan = plan
        self.values = values
        self.made_at = callers.lines()

    @property
    def label(self) -> str:
        """The kernel's name and shape."""
        return f"{self.plan.name} {self.plan.blocks} x {self.plan.threads}"

    def submit(self, stream: Stream, after: After, call: Call | None) -> Operation:
        """Run it."""
        plan = self.plan
        if plan.part is not stream.part:
            plan = replanned(plan, self.values, stream)
        check_arrays(plan, self.values, stream.context)
        launch = Launch(plan, self.values)
        return submit_kernel(plan, self.values, stream, launch, after=after, call=call)

    def fits(self, other: Node) -> bool:
        """Any kernel of the same name."""
        return isinstance(other, KernelNode) and other.plan.name == self.plan.name


class CopyNode(Node):
    """A copy."""

    kind = "memcpy"

    def __init__(self, into: Side, out_of: Side, size: int, work: Callable[[], object]) -> None:
        self.into = into
        self.out_of = out_of
        self.size = size
        self.work = work

    @property
    def label(self) -> str:
        """Which way, and how much."""
        return f"memcpy {acts.COPY_KINDS[kind_of(self.into, self.out_of)]} {self.size:,} bytes"

    def submit(self, stream: Stream, after: After, call: Call | None) -> Operation:
        """Copy."""
        tag = None
        if call is not None and HOOKS.kinds & acts.MEMCPY:
            tag = CopyTag(
                stream.context, stream.id, kind_of(self.into, self.out_of), self.size,
                source=self.out_of.place, target=self.into.place, flags=acts.FLAG_ASYNC, call=call,
            )  # fmt: skip
        return submit(self.into, self.out_of, self.size, stream, self.work, tag=tag, after=after)

    def fits(self, other: Node) -> bool:
        """A copy the same way."""
        return isinstance(other, CopyNode) and kind_of(other.into, other.out_of) == kind_of(
            self.into, self.out_of
        )


class FillNode(Node):
    """A fill."""

    kind = "memset"

    def __init__(self, side: Side, value: int, element: int, size: int, work: Callable[[], object]) -> None:
        self.side = side
        self.value = value
        self.element = element
        self.size = size
        self.work = work

    @property
    def label(self) -> str:
        """How much, with what."""
        return f"memset {self.size:,} bytes, 0x{self.value:x}"

    def submit(self, stream: Stream, after: After, call: Call | None) -> Operation:
        """Fill."""
        tag = None
        if call is not None and HOOKS.kinds & acts.MEMSET:
            tag = FillTag(
                stream.context, stream.id, self.value, element_bytes=self.element, size_bytes=self.size,
                address=self.side.address, flags=acts.FLAG_ASYNC, call=call,
            )  # fmt: skip
        return submit_fill(self.side, self.size, stream, self.work, tag=tag, after=after)


class HostNode(Node):
    """A function of the host."""

    kind = "host"

    def __init__(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args

    @property
    def label(self) -> str:
        """Its name."""
        return f"host {name_of(self.function)}"

    def submit(self, stream: Stream, after: After, call: Call | None) -> Operation:
        """Call it when the device comes to it."""
        tag = None
        if call is not None and HOOKS.kinds & acts.HOST_FUNCTION:
            tag = HostTag(stream.context, stream.id, name_of(self.function), call)
        return submit_host(stream, self.function, self.args, after, tag)


class EventNode(Node):
    """An event that is recorded."""

    kind = "event record"

    def __init__(self, event: Event) -> None:
        self.event = event

    @property
    def label(self) -> str:
        """Which."""
        return f"record event {self.event.id}"

    def submit(self, stream: Stream, after: After, call: Call | None) -> Operation:
        """Record it."""
        tag = None
        if call is not None and HOOKS.kinds & acts.GCU_EVENT:
            tag = EventTag(stream.context, stream.id, self.event.id, call)
        operation = stream.context.enqueue(stream, "marker", "none", 0, None, after=after, tag=tag)
        self.event.operation = operation
        self.event.capture = None
        return operation
