"""Capturing streams: calls on them become nodes of a graph, events between them its edges."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail
from tops_kit.runtime.graph.graph import Graph
from tops_kit.runtime.process import RUNTIME

if TYPE_CHECKING:
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.event import Event
    from tops_kit.runtime.graph.nodes import Node
    from tops_kit.runtime.stream import Stream


class Capture:
    """A capture under way: its graph, and for each stream in it the nodes that its next one comes behind."""

    def __init__(self, stream: Stream) -> None:
        self.origin = stream
        self.thread = threading.get_ident()
        self.graph = Graph(device=stream.device)
        self.frontier: dict[Stream, tuple[int, ...]] = {stream: ()}
        self.invalid = False
        self._contexts: list[Context] = []
        self.use(stream.context)

    def use(self, context: Context) -> None:
        """A device has a part in it: its default stream can't be used until the end."""
        if context not in self._contexts:
            self._contexts.append(context)
            context.change_captures(1)

    def leave(self) -> None:
        """It is over."""
        for stream in self.frontier:
            stream.capture = None
        for context in self._contexts:
            context.change_captures(-1)
        self._contexts.clear()

    def add(self, stream: Stream, node: Node) -> int:
        """A call on a stream."""
        self.check()
        number = self.graph.add(node, self.frontier[stream], stream.context)
        self.frontier[stream] = (number,)
        return number

    def check(self) -> None:
        """Raises TopsError where something went wrong in it before."""
        if self.invalid:
            fail(
                Code.topsErrorStreamCaptureInvalidated,
                f"the capture of stream {self.origin.id} was made invalid by an earlier error: end it",
            )

    def invalidate(self) -> None:
        """Something happened that can't be captured."""
        self.invalid = True


def begin(stream: Stream) -> None:
    """Begin a capture. Raises TopsError."""
    if stream.id == 0:
        fail(
            Code.topsErrorStreamCaptureUnsupported,
            "the default stream can't be captured: make one: with tops.Stream() as s: s.begin_capture()",
        )
    if stream.capture is not None:
        fail(Code.topsErrorIllegalState, f"stream {stream.id} is being captured already")
    capture = Capture(stream)
    stream.capture = capture
    RUNTIME.local.capture = capture


def end(stream: Stream) -> Graph:
    """End a capture. Raises TopsError."""
    capture = stream.capture
    if capture is None:
        fail(Code.topsErrorIllegalState, f"stream {stream.id} is not being captured")
    if capture.origin is not stream:
        fail(
            Code.topsErrorStreamCaptureUnmatched,
            f"the capture was begun on stream {capture.origin.id}, not on {stream.id}",
        )
    if capture.thread != threading.get_ident():
        fail(Code.topsErrorStreamCaptureWrongThread, "the capture was begun by another thread")
    capture.leave()
    RUNTIME.local.capture = None
    capture.check()
    graph = capture.graph
    joined = graph.ancestors(capture.frontier[stream])
    for other, last in capture.frontier.items():
        if not joined.issuperset(last):
            fail(
                Code.topsErrorStreamCaptureUnjoined,
                f"stream {other.id} was forked in the capture and not joined: record an event on it, and let "
                f"stream {stream.id} wait for that",
            )
    return graph


def mark(stream: Stream, event: Event) -> None:
    """An event is recorded on a stream that is captured."""
    capture = stream.capture
    assert capture is not None
    capture.check()
    event.capture = capture
    event.nodes = capture.frontier[stream]


def join(stream: Stream, event: Event) -> None:
    """A stream waits for an event, and one of the two is captured. Raises TopsError."""
    capture, other = stream.capture, event.capture
    if other is None:
        assert capture is not None
        if event.operation is None and (event.shared is None or not event.shared.foreign):
            return
        capture.invalidate()
        fail(
            Code.topsErrorStreamCaptureIsolation,
            f"event {event.id} was recorded outside of the capture: record it on a captured stream",
        )
    other.check()
    if other.origin.capture is not other:
        fail(Code.topsErrorCapturedEvent, f"event {event.id} was recorded in a capture that has ended")
    if capture is None:
        if stream.id == 0:
            other.invalidate()
            fail(Code.topsErrorStreamCaptureUnsupported, "the default stream can't become part of a capture")
        stream.capture = other
        other.use(stream.context)
        other.frontier[stream] = event.nodes
        return
    if capture is not other:
        capture.invalidate()
        other.invalidate()
        fail(Code.topsErrorStreamCaptureMerge, f"stream {stream.id} and event {event.id} are of two captures")
    capture.frontier[stream] = tuple(dict.fromkeys((*capture.frontier[stream], *event.nodes)))
