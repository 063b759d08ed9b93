"""Streams: queues of a device in which one thing happens after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tops_kit.gcu import Specification
from tops_kit.gcu.simulation import StreamQueue, make_room
from tops_kit.runtime import activity as acts
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, shown, truth_of
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.process import RUNTIME

if TYPE_CHECKING:
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.event import Event
    from tops_kit.runtime.graph.capture import Capture
    from tops_kit.runtime.graph.graph import Graph

HIGHEST_PRIORITY = -2
LOWEST_PRIORITY = 0
MOST_QUEUED = 1024  # operations of a stream: the host waits for room, as for a real queue


class Stream:
    """A stream of a device (default: of the thread's). `with stream:` makes it the thread's stream.

    `priority` from 0 down to -2: of two that wait for an engine, the lower number goes first. `non_blocking`:
    it neither waits for the default stream, nor does that wait for it. `id` is 0 for the default stream.
    Raises TopsError.
    """

    __slots__ = (
        "__weakref__",
        "_outer",
        "capture",
        "context",
        "destroyed",
        "id",
        "limited",
        "non_blocking",
        "part",
        "priority",
        "queue",
        "sips",
    )

    context: Context
    queue: StreamQueue
    part: Specification
    capture: Capture | None
    sips: Any

    def __init__(self, *, priority: int = 0, non_blocking: bool = False, device: int | None = None) -> None:
        _create(self, priority, non_blocking, device)

    @classmethod
    def _default(cls, context: Context) -> Stream:
        """The default stream of a context."""
        out = cls.__new__(cls)
        out._begin(context, 0, 0, False)
        return out

    @classmethod
    def _inner(cls, context: Context) -> Stream:
        """A stream of a graph's own, which the default stream knows nothing of."""
        out = cls.__new__(cls)
        out._begin(context, next(context.stream_ids), 0, True)
        context.remember_stream(out)
        return out

    def _begin(self, context: Context, number: int, priority: int, non_blocking: bool) -> None:
        self.context = context
        self.id = number
        self.priority = priority
        self.non_blocking = non_blocking
        self.limited = False  # it has clusters of its own
        self.part = context.part  # that its kernels run on: less where it, or others, have launch limits
        self.queue = StreamQueue(context.simulation, priority=priority, tag=number)
        self.capture = None
        self.destroyed = False
        self.sips = None
        self._outer: list[tuple[int, Stream | None]] = []
        self.queue.width = self.part.sips_per_cluster
        if number:
            context.streams.add(self)

    @property
    def device(self) -> int:
        """The number of its device."""
        return self.context.device_id

    def check(self) -> None:
        """Raises TopsError where it can't be used (any more), or where something went wrong on its device."""
        if self.destroyed:
            fail(Code.topsErrorInvalidHandle, f"stream {self.id} was destroyed")
        context = self.context
        if (
            context.trouble
            or context.dead
            or context.news.value != context.heard
            or RUNTIME.local.in_callback
        ):
            context.check()
            if context.captures and self.id == 0:
                context.no_captures()

    def part_now(self, kernel: str) -> Specification:
        """What its kernels run on now. Raises TopsError: nothing is left, others have all SIPs."""
        context = self.context
        if not context.news_at:
            context.claim()
        elif context.news.value != context.heard:
            context.hear()
        if self.part is not context.spec:
            context.room(self, kernel)
        return self.part

    def make_room(self) -> None:
        """Wait where as much is queued as a stream holds: before each thing that is queued."""
        while self.queue.depth >= MOST_QUEUED:
            context = self.context
            if not make_room(context.timeline, context.clock, self.queue, MOST_QUEUED) and (
                not RUNTIME.run_host_functions()
            ):
                return

    @api("topsStreamSynchronize")
    def synchronize(self) -> None:
        """Wait until everything on it is done. Raises TopsError: also for what went wrong on the device."""
        self.check()
        self._no_capture("synchronised")
        context = self.context
        begin_ns = context.clock.now_ns()
        context.wait(self.queue.last)
        if HOOKS.kinds and HOOKS.wants(acts.STREAM_RACE):
            RUNTIME.racing.host_waited_for_stream(self)
        context.trim()
        tell_sync(acts.SYNC_STREAM, context, self.id, begin_ns)

    @api("topsStreamQuery")
    def query(self) -> bool:
        """Whether everything on it is done."""
        self.check()
        self._no_capture("queried")
        last = self.queue.last
        return last is None or RUNTIME.is_done(last)

    @api("topsStreamWaitEvent")
    def wait_event(self, event: Event) -> None:
        """What comes next on it waits for an event as it was recorded last (never: it does not wait)."""
        self.check()
        event._check()
        if self.capture is not None or event.capture is not None:
            from tops_kit.runtime.graph.capture import join

            join(self, event)
            return
        op = event.operation
        context = self.context
        if event.mark is not None:
            RUNTIME.racing.wait(self, event.mark)
        left_ns = event.left_ns(True)
        if left_ns is not None:
            op = None
            if left_ns:
                other = Stream._inner(context)
                op = context.enqueue(other, "marker", "none", left_ns, None)
                context.forget_stream(other.id)
        if op is None or RUNTIME.is_done(op):
            return
        self.make_room()
        context.enqueue(self, "wait", "none", 0, None, after=(op,))
        tell_sync(acts.SYNC_STREAM_WAIT_EVENT, context, self.id, context.clock.now_ns(), event.id)

    def record(self, event: Event | None = None) -> Event:
        """Record an event (default: a new one) here, and give it."""
        if event is None:
            from tops_kit.runtime.event import Event

            event = Event(device=self.device)
        event.record(self)
        return event

    @api("topsStreamAddCallback")
    def add_callback(self, function: Callable[..., object], *args: Any) -> None:
        """Call `function(*args)` on the host when everything before it is done; what follows waits for it.

        It may not call the runtime. What it raises comes out of the next call that waits.
        """
        from tops_kit.runtime.host_functions import enqueue

        enqueue(self, function, args)

    @api("topsStreamSetLaunchLimit")
    def set_launch_limit(self, clusters: int, sips: int = 0) -> None:
        """Kernels of it get `clusters` clusters with `sips` SIPs each (0: all), which the process has alone.

        (0, 0) takes the limit back. Raises TopsError: there are not so many free.
        """
        from tops_kit.runtime.limits import set_limit

        self.check()
        set_limit(self, clusters, sips)

    @api("topsStreamBeginCapture")
    def begin_capture(self) -> None:
        """From here on calls on it are not done but become nodes of a graph, until `end_capture`."""
        from tops_kit.runtime.graph.capture import begin

        self.check()
        begin(self)

    @api("topsStreamEndCapture")
    def end_capture(self) -> Graph:
        """The graph of what was captured. Raises TopsError: it was not joined again, or made invalid."""
        from tops_kit.runtime.graph.capture import end

        self.check()
        return end(self)

    @property
    def is_capturing(self) -> bool:
        """Whether calls on it become nodes of a graph."""
        return self.capture is not None

    @api("topsStreamDestroy")
    def destroy(self) -> None:
        """Give it back; what is queued on it is still done. Raises TopsError for the default one."""
        if self.id == 0:
            fail(Code.topsErrorInvalidHandle, "the default stream can't be destroyed")
        self.check()
        self.destroyed = True
        self._leave()

    def _no_capture(self, what: str, hint: str = "end the capture first") -> None:
        if self.capture is not None:
            self.capture.invalidate()
            fail(
                Code.topsErrorStreamCaptureUnsupported,
                f"stream {self.id} is being captured and can't be {what}: {hint}",
            )

    def _leave(self) -> None:
        from tops_kit.runtime.limits import release

        release(self)
        self.context.forget_stream(self.id)

    def __del__(self) -> None:
        if not getattr(self, "destroyed", True) and self.id:
            self.context.forget_stream(self.id)

    def __enter__(self) -> Stream:
        self.check()
        local = RUNTIME.local
        self._outer.append((local.device, local.stream))
        local.device, local.stream = self.context.device_id, self
        return self

    def __exit__(self, *_: object) -> None:
        local = RUNTIME.local
        local.device, local.stream = self._outer.pop()

    def __repr__(self) -> str:
        kind = "default stream" if self.id == 0 else f"Stream {self.id}"
        return f"<{kind} of device {self.context.device_id}{', destroyed' if self.destroyed else ''}>"


@api("topsStreamCreateWithPriority")
def _create(stream: Stream, priority: int, non_blocking: bool, device: int | None) -> None:
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    context.check()
    if isinstance(priority, bool) or not isinstance(priority, int):
        fail(Code.topsErrorInvalidValue, f"a stream's priority is an int from 0 to -2, not {shown(priority)}")
    free = truth_of(non_blocking, "non_blocking")
    kept = min(max(priority, HIGHEST_PRIORITY), LOWEST_PRIORITY)
    stream._begin(context, next(context.stream_ids), kept, free)
    context.remember_stream(stream)


def current_stream() -> Stream:
    """The stream of the calling thread: that of `with stream:`, else the default stream of its device."""
    stream = RUNTIME.local.stream
    return stream if stream is not None else RUNTIME.current().default_stream


def default_stream(device: int | None = None) -> Stream:
    """The default stream of a device (default: of the thread's)."""
    return (RUNTIME.current() if device is None else RUNTIME.context(device)).default_stream


def stream_of(stream: Stream | None) -> Stream:
    """A stream as it is given to a call, ready for use. Raises TopsError."""
    if stream is None:
        stream = RUNTIME.local.stream
        if stream is None:
            stream = RUNTIME.current().default_stream
    elif not isinstance(stream, Stream):
        fail(Code.topsErrorInvalidHandle, f"a stream is a tops.Stream, not {type(stream).__name__}")
    stream.check()
    return stream


def tell_sync(kind: int, context: Context, stream_id: int, begin_ns: int, event_id: int = 0) -> None:
    """Tell that the host (or a stream) waited."""
    if HOOKS.kinds and HOOKS.wants(acts.SYNCHRONIZATION):
        thread = HOOKS.thread
        waited = acts.SyncActivity(
            kind, begin_ns, context.clock.now_ns(), context.device_id, context.context_id, stream_id,
            thread.correlation_id, thread.thread_id, event_id,
        )  # fmt: skip
        HOOKS.emit(acts.SYNCHRONIZATION, waited)
