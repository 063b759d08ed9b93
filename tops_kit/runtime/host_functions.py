"""Functions of the host in a stream: they run when the device comes to them, and hold up what follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tops_kit.deferral import outside
from tops_kit.gcu.simulation import Operation
from tops_kit.runtime import activity as acts
from tops_kit.runtime.codes import Code
from tops_kit.runtime.context import Context
from tops_kit.runtime.driver import QUEUE_SUBMIT
from tops_kit.runtime.errors import fail
from tops_kit.runtime.hooks import HOOKS, api
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.records import Call, HostTag
from tops_kit.runtime.stream import Stream, stream_of


@api("topsLaunchHostFunc")
def launch_host_func(function: Callable[..., object], *args: Any, stream: Stream | None = None) -> None:
    """Call `function(*args)` on the host when everything before it on a stream is done; what follows waits.

    It may not call the runtime. What it raises comes out of the next call that waits. Raises TopsError.
    """
    enqueue(stream_of(stream), function, args)


def enqueue(stream: Stream, function: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Put a host function on a stream. Raises TopsError."""
    stream.check()
    if not callable(function):
        fail(Code.topsErrorInvalidValue, f"a host function is called, {type(function).__name__} can't be")
    if stream.capture is not None:
        from tops_kit.runtime.graph.nodes import HostNode

        stream.capture.add(stream, HostNode(function, args))
        return
    stream.make_room()
    tag = None
    if HOOKS.kinds and HOOKS.wants(acts.HOST_FUNCTION):
        tag = HostTag(stream.context, stream.id, name_of(function), Call())
    submit(stream, function, args, (), tag)


def submit(
    stream: Stream,
    function: Callable[..., object],
    args: tuple[Any, ...],
    after: tuple[Operation, ...],
    tag: HostTag | None,
) -> Operation:
    """Give the device a host function."""
    context = stream.context
    call = _HostCall(context, function, args)
    with context.timeline.lock:
        waits = (*after, *context.order(stream))
        if context.failing is not None:
            operation = Operation("marker", stream.queue, submit_ns=context.clock.now_ns(), after=waits)
        else:
            operation = Operation(
                "host", stream.queue, "host", None, submit_ns=context.clock.now_ns(), after=waits, tag=tag,
                on_start=call.reached,
            )  # fmt: skip
        QUEUE_SUBMIT.call(context.timeline.submit, operation)
    if not context.clock.in_cut:
        RUNTIME.run_host_functions()
    return operation


def name_of(function: Callable[..., object]) -> str:
    """What records call it."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class _HostCall:
    """A function of the host that a device comes to: it is called when the timeline's lock is free, and in no
    cut, so that it may wait for a thread that calls the runtime."""

    __slots__ = ("args", "context", "function", "operation")

    def __init__(self, context: Context, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.context = context
        self.function = function
        self.args = args
        self.operation: Operation | None = None

    def reached(self, operation: Operation) -> None:
        """The device has come to it, under the timeline's lock: `run` follows, and says how long it took."""
        if self.context.failing is not None:
            operation.duration_ns = 0
            return
        self.operation = operation
        RUNTIME.host_calls.append(self)

    def run(self) -> None:
        """Call it. The function's time passes for the device, and for the thread that does this."""
        context, operation = self.context, self.operation
        assert operation is not None
        if operation.done:
            return  # the device was reset meanwhile
        local, clock = RUNTIME.local, context.clock
        local.in_callback = True
        local.callback_ns = 0
        begin_ns = clock.now_ns()
        try:
            outside(self.function, *self.args)
        except BaseException as error:  # also of a signal's handler: the device goes on first
            context.host_errors.append(error)
            context.trouble = True
        finally:
            local.in_callback = False
            now_ns = clock.now_ns()
            took_ns = local.callback_ns + (0 if clock.model else now_ns - begin_ns)
            with context.timeline.lock:
                if not operation.done:
                    context.timeline.resolve(operation, took_ns, now_ns)
