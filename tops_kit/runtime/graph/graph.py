"""Graphs: nodes and what waits for what, before they are made executable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tops_kit.runtime.array import Array
from tops_kit.runtime.codes import Code
from tops_kit.runtime.context import Context
from tops_kit.runtime.errors import fail, shown
from tops_kit.runtime.event import Event
from tops_kit.runtime.fills import filler
from tops_kit.runtime.graph.nodes import CopyNode, EventNode, FillNode, HostNode, KernelNode, Node
from tops_kit.runtime.hooks import api
from tops_kit.runtime.launcher import Launcher
from tops_kit.runtime.memory import size_of
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.transfers import mover, side_of

if TYPE_CHECKING:
    from tops_kit.runtime.graph.executable import GraphExec


class Graph:
    """Work of a device, and of others: nodes, each after others. From `Stream.end_capture`, or made here.

    `add_...` give a node's number; `after` are the numbers of those it waits for. It is launched on a stream
    of its device; nodes of other devices run there. `instantiate` makes it executable. Raises TopsError.
    """

    def __init__(self, *, device: int | None = None) -> None:
        self.context = _create(device)
        self.id = next(RUNTIME.graph_ids)
        self.nodes: list[Node] = []
        self.contexts: list[Context] = []  # for each node, where it runs
        self.after: list[tuple[int, ...]] = []  # for each node, the numbers of those it waits for
        self.constants: dict[str, Array] = {}
        self.destroyed = False
        self._forward = True  # every node waits for earlier ones only

    def check(self) -> None:
        """Raises TopsError where it can't be used any more."""
        if self.destroyed:
            fail(Code.topsErrorInvalidHandle, f"graph {self.id} was destroyed")
        self.context.check()

    def add(self, node: Node, after: Iterable[int] = (), context: Context | None = None) -> int:
        """A node as the runtime has it; `context`: where it runs (default: the graph's device)."""
        self.check()
        number = len(self.nodes)
        waits = tuple(dict.fromkeys(after))
        for other in waits:
            self._known(other)
        self.nodes.append(node)
        self.contexts.append(self.context if context is None else context)
        self.after.append(waits)
        return number

    @api("topsGraphAddKernelNode")
    def add_kernel(
        self, launcher: Launcher, args: Iterable[Any] = (), after: Iterable[int] = (), **keywords: Any
    ) -> int:
        """A kernel with threads and arguments on a device: `add_kernel(scale[24], (x, y, n))`.

        It runs on the graph's device, or that of the stream that its options say.
        """
        chosen = launcher.settings.stream
        context = self.context if chosen is None else chosen.context
        plan, values, on_device = launcher.plan_for(tuple(args), keywords, context.default_stream)
        if not on_device and plan.arrays:
            fail(
                Code.topsErrorInvalidValue,
                f"kernel {plan.name} of a graph takes arrays of a device: copy them: tops.asarray(x)",
            )
        return self.add(KernelNode(plan, values), after, context)

    @api("topsGraphAddMemcpyNode")
    def add_memcpy(
        self, target: Any, source: Any, size_bytes: int | None = None, after: Iterable[int] = ()
    ) -> int:
        """A copy of bytes, by the graph's device where that takes part; see `tops.memcpy`."""
        size = None if size_bytes is None else size_of(size_bytes, "a copy")
        into, out_of = side_of(target, size, write=True), side_of(source, size, write=False)
        size = min(into.size_bytes, out_of.size_bytes) if size is None else size
        own = [side.context for side in (out_of, into) if side.context is not None]
        if not own:
            fail(Code.topsErrorInvalidValue, "a copy that no device has a part in")
        context = self.context if self.context in own else own[0]
        return self.add(CopyNode(into, out_of, size, mover(into, out_of, size)), after, context)

    @api("topsGraphAddMemsetNode")
    def add_memset(
        self,
        target: Any,
        value: int,
        size_bytes: int | None = None,
        after: Iterable[int] = (),
        *,
        bits: int = 8,
    ) -> int:
        """A fill; see `tops.memset`."""
        size = None if size_bytes is None else size_of(size_bytes, "a fill")
        side = side_of(target, size, write=True)
        if side.context is None or bits not in (8, 16, 32):
            fail(Code.topsErrorInvalidValue, "memset fills memory of a device with 8, 16 or 32 bits")
        size = side.size_bytes if size is None else size
        bare = value & ((1 << bits) - 1)
        node = FillNode(side, bare, bits // 8, size, filler(side, bare, bits // 8, size))
        return self.add(node, after, side.context)

    @api("topsGraphAddHostNode")
    def add_host(self, function: Callable[..., object], *args: Any, after: Iterable[int] = ()) -> int:
        """A function of the host; see `tops.launch_host_func`."""
        if not callable(function):
            fail(Code.topsErrorInvalidValue, f"a host function is called, {shown(function)} can't be")
        return self.add(HostNode(function, args), after)

    @api("topsGraphAddEmptyNode")
    def add_empty(self, after: Iterable[int] = ()) -> int:
        """A node that only joins others."""
        return self.add(Node(), after)

    @api("topsGraphAddEventRecordNode")
    def add_event_record(self, event: Event, after: Iterable[int] = ()) -> int:
        """An event that is recorded."""
        return self.add(EventNode(event), after, event.context)

    @api("topsGraphAddChildGraphNode")
    def add_graph(self, graph: Graph, after: Iterable[int] = ()) -> int:
        """All nodes of another graph; gives the number of a node that all of them come before."""
        graph.check()
        waits = tuple(after)
        first = len(self.nodes)
        nodes, edges, contexts = list(graph.nodes), list(graph.after), list(graph.contexts)
        for node, before, context in zip(nodes, edges, contexts, strict=True):
            self.add(node, [first + k for k in before] or waits, context)
        used = {k for before in edges for k in before}
        self.constants |= graph.constants
        return self.add(Node(), [first + k for k in range(len(nodes)) if k not in used] or waits)

    @api("topsGraphAddDependencies")
    def add_dependency(self, first: int, then: int) -> None:
        """`then` waits for `first`. Raises TopsError: that would be a circle."""
        self.check()
        self._known(first)
        self._known(then)
        forward = self._forward and first < then  # no circle, without a look at all that comes before
        if first == then or (not forward and then in self.ancestors([first])):
            fail(Code.topsErrorInvalidValue, f"node {then} can't wait for {first}: that would be a circle")
        if first not in self.after[then]:
            self.after[then] = (*self.after[then], first)
            self._forward = forward

    def constant(self, key: str, array: Array) -> None:
        """Name an array that kernels of the graph read; `GraphExec.update_constant` changes it by name."""
        self.check()
        if not isinstance(key, str):
            fail(Code.topsErrorInvalidValue, f"a constant is named by a text, not {shown(key)}")
        if not isinstance(array, Array):
            fail(
                Code.topsErrorInvalidValue,
                f"constant {shown(key)} is an array of a device, not {shown(array)}",
            )
        self.constants[key] = array

    def ancestors(self, numbers: Iterable[int]) -> set[int]:
        """Nodes with all that comes before them."""
        out: set[int] = set()
        left = list(numbers)
        while left:
            number = left.pop()
            if number not in out:
                out.add(number)
                left += self.after[number]
        return out

    def order(self) -> list[int]:
        """The nodes, each behind all that it waits for; as they were added, where that leaves a choice."""
        out: list[int] = []
        done: set[int] = set()
        for start in range(len(self.nodes)):
            left = [start]
            while left:
                number = left[-1]
                waits = [k for k in self.after[number] if k not in done]
                if number in done or not waits:
                    left.pop()
                    if number not in done:
                        done.add(number)
                        out.append(number)
                else:
                    left += reversed(waits)
        return out

    @api("topsGraphInstantiate")
    def instantiate(self) -> GraphExec:
        """Make it executable; later changes of the graph don't change that. Raises TopsError."""
        from tops_kit.runtime.graph.executable import GraphExec

        self.check()
        return GraphExec(self)

    @api("topsGraphDebugDotPrint")
    def dot(self, path: str | Path | None = None) -> str:
        """A picture of it in Graphviz's language; into a file where a path is given."""
        lines = [f"digraph graph_{self.id} {{", "  node [shape=box, fontname=monospace];"]
        for number, node in enumerate(self.nodes):
            label = f"{number}: {node.label}".replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'  n{number} [label="{label}"];')
        for number, before in enumerate(self.after):
            lines += [f"  n{other} -> n{number};" for other in before]
        text = "\n".join([*lines, "}", ""])
        if path is not None:
            try:
                Path(path).write_text(text, encoding="utf-8")
            except OSError as error:
                fail(Code.topsErrorInvalidValue, f"{path}: can't be written: {error.strerror}")
        return text

    @api("topsGraphDestroy")
    def destroy(self) -> None:
        """Give it back; what was made executable of it stays."""
        self.check()
        self.destroyed = True

    def _known(self, number: int) -> None:
        if not 0 <= number < len(self.nodes):
            fail(
                Code.topsErrorInvalidValue, f"graph {self.id} has no node {number}: it has {len(self.nodes)}"
            )

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        edges = sum(len(before) for before in self.after)
        return f"<Graph {self.id} of device {self.context.device_id}: {len(self.nodes)} nodes, {edges} edges>"


@api("topsGraphCreate")
def _create(device: int | None) -> Context:
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    context.check()
    return context
