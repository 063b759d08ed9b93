"""Executable graphs: all nodes in order, on as many streams as run side by side; one call launches them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tops_kit.gcu.simulation import Operation
from tops_kit.runtime import activity as acts
from tops_kit.runtime import callers
from tops_kit.runtime.array import Array
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, shown
from tops_kit.runtime.graph.graph import Graph
from tops_kit.runtime.graph.lanes import lanes_of
from tops_kit.runtime.graph.nodes import KernelNode, Node
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.plan import Plan
from tops_kit.runtime.process import FOLLOWER, RUNTIME
from tops_kit.runtime.quick_launches import launch_nodes, node_of
from tops_kit.runtime.records import Call, GraphTag
from tops_kit.runtime.stream import Stream, stream_of

_MOST_NAMED = 10


class GraphExec:
    """A graph that can be launched, from `Graph.instantiate`."""

    def __init__(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            fail(
                Code.topsErrorInvalidValue, f"an executable graph is made of a tops.Graph, not {shown(graph)}"
            )
        self.context = graph.context
        self.graph_id = graph.id
        self.id = next(RUNTIME.exec_ids)
        self.constants: dict[str, Array] = dict(graph.constants)
        self.destroyed = False
        self._nodes: list[Node] = list(graph.nodes)
        self._quick: list[Any] | None = None  # what launches nodes in C, in order; None: not looked at yet
        self._after = list(graph.after)
        self._order = graph.order()
        self._contexts = list(graph.contexts)
        self._lane_of, lanes = lanes_of(self._order, self._after, self._contexts, self.context)
        # lane 0 is the stream that it is launched on
        self._streams = [Stream._inner(context) for context in lanes[1:]]
        FOLLOWER.instantiated(self)

    def described(self) -> Iterator[tuple[str, str, int, tuple[int, ...]]]:
        """Of each node: what it does, its kind, its device, the places of those that it waits for."""
        for node, context, after in zip(self._nodes, self._contexts, self._after, strict=True):
            yield node.label, node.kind, context.device_id, after

    def check(self) -> None:
        """Raises TopsError where it can't be used any more."""
        if self.destroyed:
            fail(Code.topsErrorInvalidHandle, f"executable graph {self.id} was destroyed")
        self.context.check()
        for stream in self._streams:
            if stream.context is not self.context:
                stream.context.check()

    def launch(self, stream: Stream | None = None) -> None:
        """Launch all of it on a stream (default: the thread's): one call for all nodes. Raises TopsError."""
        _launch(self, stream)

    def _run(self, stream: Stream | None) -> None:
        stream = stream_of(stream)
        self.check()
        context = self.context
        if stream.context is not context:
            fail(
                Code.topsErrorInvalidHandle,
                f"stream {stream.id} belongs to device {stream.device}, the graph to {context.device_id}",
            )
        if stream.capture is not None:
            stream.capture.check()
            self._capture(stream)
            return
        listening = HOOKS.kinds != 0 and HOOKS.wants(acts.ALL)
        tag = None
        if HOOKS.kinds and HOOKS.wants(acts.GRAPH):
            tag = GraphTag(
                context, stream.id, graph_id=self.graph_id, exec_id=self.id, nodes=len(self._nodes),
                call=Call(),
            )  # fmt: skip
        stream.make_room()
        # one call for the host: what giving the nodes to the device takes here, it does not take there
        local = RUNTIME.local
        with context.timeline.lock, context.clock.cut():
            local.graph = self
            context.freeze()
            try:
                self._submit(stream, tag, listening)
            finally:
                context.thaw()
                local.graph = None
        if RUNTIME.host_calls:
            RUNTIME.run_host_functions()
        if RUNTIME.blocking:
            context.wait(stream.queue.last)

    def _submit(self, stream: Stream, tag: GraphTag | None, listening: bool) -> None:
        context = self.context
        streams = (stream, *self._streams)
        begin: Operation | None = None
        if tag is not None or len(streams) > 1:
            # a marker may be done as soon as it is submitted: it has its tag before
            begin_tag = _Begin(tag) if tag is not None else None
            begin = context.enqueue(stream, "marker", "none", 0, None, tag=begin_tag)
        done: list[Any] = [None] * len(self._order)
        at, ready = 0, self._quick_nodes()
        while at < len(done):
            if ready:
                at = launch_nodes(ready, at, done, streams, listening=listening, graph_id=self.graph_id)
                if at == len(done):
                    break
            number = self._order[at]
            lane = self._lane_of[number]
            waits = tuple(done[k] for k in self._after[number] if self._lane_of[k] != lane)
            if lane and not self._after[number] and begin is not None:
                waits = (begin,)
            call = Call(self.graph_id, number + 1) if listening else None
            done[number] = self._nodes[number].submit(streams[lane], waits, call)
            at += 1
        ends = tuple(s.queue.last for s in self._streams if s.queue.last is not None)
        if tag is not None or ends:
            context.enqueue(stream, "marker", "none", 0, None, after=ends, tag=tag)

    def made_at(self, plan: Plan, values: Sequence[Any]) -> tuple[str, ...]:
        """Where the node of a kernel was captured, or added; () where that is not known."""
        for node in self._nodes:
            if isinstance(node, KernelNode) and node.plan.name == plan.name and _same(node.values, values):
                return callers.told(node.made_at)
        return ()

    def _quick_nodes(self) -> list[Any]:
        """Of each node in order what launches it in C, None where nothing can; empty: all go the long way."""
        if RUNTIME.saver is not None:
            return []
        if self._quick is None:
            self._quick = [
                self._quick_node(number) if self._alone(number) else None for number in self._order
            ]
            if not any(self._quick):
                self._quick = []
        return self._quick

    def _alone(self, number: int) -> bool:
        """Whether a node waits for nothing but the one before it on its stream."""
        lane = self._lane_of[number]
        return all(self._lane_of[k] == lane for k in self._after[number]) and not (
            lane and not self._after[number]
        )

    def _quick_node(self, number: int) -> Any:
        node = self._nodes[number]
        return (
            node_of(node.plan, node.values, self._lane_of[number], number)
            if isinstance(node, KernelNode)
            else None
        )

    def _capture(self, stream: Stream) -> None:
        """Launched on a stream that is captured: its nodes become that graph's."""
        capture = stream.capture
        assert capture is not None
        first = len(capture.graph.nodes)
        place = {number: first + k for k, number in enumerate(self._order)}
        waits = capture.frontier[stream]
        for number in self._order:
            context = self._contexts[number]
            capture.use(context)
            capture.graph.add(self._nodes[number], [place[k] for k in self._after[number]] or waits, context)
        used = {k for before in self._after for k in before}
        ends = [place[k] for k in self._order if k not in used]
        capture.frontier[stream] = tuple(ends) or waits
        capture.graph.constants |= self.constants

    # changing it

    @api("topsGraphExecUpdate")
    def update(self, graph: Graph) -> None:
        """Take the arguments of a graph of the same shape. Raises TopsError: it has another shape."""
        self.check()
        graph.check()
        if graph.after != self._after or graph.contexts != self._contexts:
            fail(
                Code.topsErrorGraphExecUpdateFailure,
                f"{graph!r} has other nodes, edges or devices than {self!r}: instantiate it",
            )
        for number, (old, new) in enumerate(zip(self._nodes, graph.nodes, strict=True)):
            if not old.fits(new):
                fail(
                    Code.topsErrorGraphExecUpdateFailure,
                    f"node {number} is {new.label!r} now, and was {old.label!r}: instantiate the graph",
                )
        self._nodes = list(graph.nodes)
        self._quick = None
        self.constants |= graph.constants
        FOLLOWER.instantiated(self)

    @api("topsGraphExecKernelNodeSetParams")
    def set_arguments(self, node: int, *args: Any, **keywords: Any) -> None:
        """Other arguments for a kernel node, of the same types. Raises TopsError, LaunchError."""
        self.check()
        old = self._nodes[node] if 0 <= node < len(self._nodes) else None
        if not isinstance(old, KernelNode):
            fail(Code.topsErrorInvalidValue, f"node {node} of executable graph {self.id} is no kernel")
        stream = self._contexts[node].default_stream
        plan, values, _ = old.plan.launcher.plan_for(args, keywords, stream)
        self._nodes[node] = KernelNode(plan, values)
        self._quick = None

    @api("topsExecutableGetRefitFlag")
    def refit_flag(self, key: str) -> bool:
        """Whether there is a constant of that name, so that `update_constant` can change it."""
        self.check()
        return isinstance(key, str) and key in self.constants

    @api("topsExecutableUpdateConstantKey")
    def update_constant(self, key: str, value: Any, stream: Stream | None = None) -> None:
        """New contents for a constant (weights, say), for launches from here on. Raises TopsError."""
        self.check()
        if not isinstance(key, str) or key not in self.constants:
            known = ", ".join(self.constants) or "none"
            fail(Code.topsErrorNotFound, f"executable graph {self.id} has no constant {shown(key)}: {known}")
        self.constants[key].assign(value, stream)

    @api("topsExecutableLoadConstData")
    def load_constants(self, values: dict[str, Any], stream: Stream | None = None) -> None:
        """New contents for several constants. Raises TopsError: before anything is changed, for names."""
        self.check()
        if not isinstance(values, Mapping):
            fail(Code.topsErrorInvalidValue, f"constants are a dict of contents by name, not {shown(values)}")
        missing = [key for key in values if not isinstance(key, str) or key not in self.constants]
        if missing:
            known = ", ".join(self.constants) or "none"
            names = ", ".join(
                key if isinstance(key, str) and key.isidentifier() and len(key) < 60 else shown(key)
                for key in missing[:_MOST_NAMED]
            )
            more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
            fail(Code.topsErrorNotFound, f"executable graph {self.id} has no {names}{more}: {known}")
        for key, value in values.items():
            self.constants[key].assign(value, stream)

    @api("topsGraphExecDestroy")
    def destroy(self) -> None:
        """Give it back; what is queued of it is still done."""
        self.check()
        self.destroyed = True

    def __repr__(self) -> str:
        lanes = len(self._streams) + 1
        return f"<GraphExec {self.id} of graph {self.graph_id}: {len(self._nodes)} nodes on {lanes} streams>"


@api("topsGraphLaunch", cost="launch")
def _launch(graph: GraphExec, stream: Stream | None) -> None:
    graph._run(stream)


class _Begin:
    """The tag of a graph's beginning."""

    def __init__(self, tag: GraphTag) -> None:
        self._tag = tag

    def done(self, operation: Operation) -> None:
        """It has begun."""
        self._tag.begin(operation)


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
