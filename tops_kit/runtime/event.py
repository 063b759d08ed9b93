"""Events: moments in a stream that host and other streams can wait for, and time between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tops_kit.gcu.races import Mark
from tops_kit.gcu.simulation import Operation
from tops_kit.runtime import activity as acts
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import fail, truth_of
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.records import Call, EventTag
from tops_kit.runtime.stream import Stream, stream_of, tell_sync

if TYPE_CHECKING:
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.graph.capture import Capture
    from tops_kit.runtime.ipc_events import SharedEvent


class Event:
    """A moment in a stream, once it is recorded. `timing=False`: `elapsed_ms` is not to be asked.

    It belongs to a device (default: of the thread's). `interprocess`: other processes may use it, by
    `ipc_get_event_handle`; without timing. Raises TopsError.
    """

    __slots__ = (
        "__weakref__",
        "capture",
        "context",
        "destroyed",
        "id",
        "mark",
        "nodes",
        "operation",
        "shared",
        "timing",
    )

    context: Context
    id: int

    def __init__(self, *, timing: bool = True, interprocess: bool = False, device: int | None = None) -> None:
        self.operation: Operation | None = None  # of its last record
        self.capture: Capture | None = None  # that it was last recorded in
        self.nodes: tuple[int, ...] = ()  # that it stands behind there
        self.mark: Mark | None = None  # of its last record, for races
        self.destroyed = False
        self.shared: SharedEvent | None = None  # what other processes see of it
        timing, interprocess = truth_of(timing, "timing"), truth_of(interprocess, "interprocess")
        self.timing = timing
        if interprocess and timing:
            fail(Code.topsErrorInvalidValue, "an event of several processes has no timing: timing=False")
        _create(self, device)
        if interprocess:
            from tops_kit.runtime.ipc_events import shared_event

            self.shared = shared_event()

    def _check(self) -> None:
        if self.destroyed:
            fail(Code.topsErrorInvalidHandle, f"event {self.id} was destroyed")
        context = self.context
        if (
            context.trouble
            or context.dead
            or context.news.value != context.heard
            or RUNTIME.local.in_callback
        ):
            context.check()

    @api("topsEventRecord")
    def record(self, stream: Stream | None = None) -> None:
        """It is now the moment at which everything on a stream (default: the thread's) so far is done."""
        stream = stream_of(stream)
        self._check()
        context = stream.context
        if context is not self.context:
            fail(
                Code.topsErrorInvalidHandle,
                f"event {self.id} belongs to device {self.context.device_id}, stream {stream.id} to device "
                f"{context.device_id}",
            )
        if stream.capture is not None:
            from tops_kit.runtime.graph.capture import mark

            mark(stream, self)
            return
        self.capture = None
        if HOOKS.kinds and HOOKS.wants(acts.STREAM_RACE):
            self.mark = RUNTIME.racing.mark(stream)
        tag = (
            EventTag(context, stream.id, self.id, Call())
            if HOOKS.kinds and HOOKS.wants(acts.GCU_EVENT)
            else None
        )
        stream.make_room()
        if self.shared is None:
            self.operation = context.enqueue(stream, "marker", "none", 0, None, tag=tag)
        else:
            self._record_shared(stream, self.shared, tag)

    def _record_shared(self, stream: Stream, shared: SharedEvent, tag: Any) -> None:
        from tops_kit.runtime.ipc_events import SharedTag

        context = stream.context
        number = shared.record()
        told = SharedTag(context, shared, number, tag)
        self.operation = context.enqueue(stream, "marker", "none", 0, None, tag=told)
        if context.failing is not None:
            shared.reach(number, 0)  # nothing runs any more, and nobody is to wait for ever
        elif not self.operation.held:
            # others have to know when: this process may make no other call for long
            context.timeline.finish(self.operation)

    def left_ns(self, wait: bool) -> int | None:
        """Where another process recorded it last: how long until it is reached; None: else, or not known.

        `wait`: until it is known.
        """
        shared = self.shared
        if shared is None or not shared.foreign:
            return None
        context = self.context
        return shared.wait(context, self.id) if wait else shared.left_ns(context.clock.model)

    @api("topsEventQuery")
    def query(self) -> bool:
        """Whether it was reached (one never recorded was)."""
        self._check()
        self._no_capture()
        if self.shared is not None and self.shared.foreign:
            return self.left_ns(False) == 0
        return self.operation is None or RUNTIME.is_done(self.operation)

    @api("topsEventSynchronize")
    def synchronize(self) -> None:
        """Wait until it is reached. Raises TopsError: also for what went wrong on the device."""
        self._check()
        self._no_capture()
        context = self.context
        begin_ns = context.clock.now_ns()
        left_ns = self.left_ns(True)
        if left_ns is None:
            context.wait(self.operation)
        else:
            context.clock.wait_until(context.clock.now_ns() + left_ns)
        if self.mark is not None:
            RUNTIME.racing.host_waited(self.mark)
        tell_sync(acts.SYNC_EVENT, context, 0, begin_ns, self.id)

    def elapsed_ms(self, end: Event) -> float:
        """Milliseconds from this event to `end`; see `tops.elapsed_ms`."""
        return elapsed_ms(self, end)

    @api("topsEventDestroy")
    def destroy(self) -> None:
        """Give it back. Raises TopsError: it is gone already."""
        self._check()
        self.destroyed = True
        self.operation = None
        self.shared = None  # given back when no record of it is to come any more

    def _no_capture(self) -> None:
        if self.capture is not None:
            fail(Code.topsErrorCapturedEvent, f"event {self.id} was recorded in a capture, not on the device")

    def __repr__(self) -> str:
        state = "destroyed" if self.destroyed else "recorded" if self.operation else "not recorded"
        return f"<Event {self.id} of device {self.context.device_id}, {state}>"


@api("topsEventCreateWithFlags")
def _create(event: Event, device: int | None) -> None:
    context = RUNTIME.current() if device is None else RUNTIME.context(device)
    context.check()
    event.context = context
    event.id = next(context.event_ids)


@api("topsEventElapsedTime")
def elapsed_ms(start: Event, end: Event) -> float:
    """Milliseconds on the device between two events that were reached.

    Raises TopsError: topsErrorNotReady before that, topsErrorInvalidHandle for events that were never
    recorded or are without timing.
    """
    for event in (start, end):
        if not isinstance(event, Event):
            fail(Code.topsErrorInvalidHandle, f"an event is a tops.Event, not {type(event).__name__}")
        event._check()
        event._no_capture()
        if not event.timing:
            fail(Code.topsErrorInvalidHandle, f"event {event.id} was created without timing")
        if event.operation is None:
            fail(Code.topsErrorInvalidHandle, f"event {event.id} was never recorded")
    for event in (start, end):
        assert event.operation is not None
        if not RUNTIME.is_done(event.operation):
            fail(
                Code.topsErrorNotReady,
                f"event {event.id} is not reached yet: wait for it first: event.synchronize()",
            )
    assert start.operation is not None and end.operation is not None
    return (end.operation.end_ns - start.operation.end_ns) / 1e6
