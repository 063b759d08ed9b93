"""Launches: kernels on a stream of a device, or on the host's arrays with the copies that they imply."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tops_kit.engine.fault import KernelFault
from tops_kit.gcu.simulation import Operation, Timeline
from tops_kit.runtime import activity as acts
from tops_kit.runtime import callers, costs
from tops_kit.runtime.array import Array
from tops_kit.runtime.arrays import changed, is_tensor
from tops_kit.runtime.codes import Code
from tops_kit.runtime.context import Context
from tops_kit.runtime.driver import QUEUE_SUBMIT
from tops_kit.runtime.errors import LaunchError, TopsError, fail
from tops_kit.runtime.hooks import HOOKS
from tops_kit.runtime.host_memory import PINNED
from tops_kit.runtime.parts import PARTS
from tops_kit.runtime.plan import Outcome, Plan
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.records import Call, CopyTag, KernelTag
from tops_kit.runtime.result import Launch
from tops_kit.runtime.stream import MOST_QUEUED, Stream, tell_sync

Ran = tuple[Outcome | None, KernelFault | None]
OnDone = Callable[[Operation], None]
_PARAMETERS = ("function", "args", "stream", "grid", "block")


def _symbol(plan: Plan, *_: Any) -> str:
    return plan.name


LAUNCH = HOOKS.point("topsLaunchKernel", _PARAMETERS, cost="launch", symbol=_symbol)
# of a stream that is captured: a node of the graph is added, nothing is launched
CAPTURED = HOOKS.point("topsLaunchKernel", _PARAMETERS, symbol=_symbol)
COOPERATIVE = HOOKS.point("topsLaunchCooperativeKernel", _PARAMETERS, cost="launch", symbol=_symbol)
MODULE = HOOKS.point("topsModuleLaunchKernel", _PARAMETERS, cost="launch", symbol=_symbol)
CAPTURED_MODULE = HOOKS.point("topsModuleLaunchKernel", _PARAMETERS, symbol=_symbol)


def launch_kernel(
    plan: Plan, values: Sequence[Any], stream: Stream | None, on_device: bool, *, of_module: bool = False
) -> Launch:
    """Launch a kernel through its API."""
    point = MODULE if of_module else LAUNCH
    if plan.settings.cooperative:
        point = COOPERATIVE
    if stream is not None and stream.capture is not None:
        point = CAPTURED_MODULE if of_module else CAPTURED
    run = launch_on_device if on_device else launch_on_host
    if point.idle or (HOOKS.gate is not None and not HOOKS.gate()):
        return run(plan, values, stream)
    return point.run(run, (plan, values, stream), {"grid": plan.grid, "block": plan.block})


def launch_on_device(
    plan: Plan, values: Sequence[Any], stream: Stream | None, grid: Any = None, block: Any = None
) -> Launch:
    """Queue a kernel on a stream. Raises TopsError."""
    if stream is None:
        stream = RUNTIME.current().default_stream
    context = stream.context
    if not context.news_at:
        context.claim()
    if (
        stream.destroyed or context.trouble or context.dead or context.news.value != context.heard
        or RUNTIME.local.in_callback
    ):  # fmt: skip
        stream.check()
    check_arrays(plan, values, context)
    if plan.part is not stream.part:
        _check_part(plan, stream)
    if plan.settings.cooperative:
        check_cooperative(plan)
    launch = Launch(plan, values)
    if stream.capture is not None:
        from tops_kit.runtime.graph.nodes import KernelNode

        stream.capture.add(stream, KernelNode(plan, values))
        return launch
    launch._context = context
    if stream.queue.depth >= MOST_QUEUED:
        stream.make_room()
    operation = submit(
        plan, values, stream, launch, after=(), call=Call() if HOOKS.kinds and HOOKS.wants(acts.ALL) else None
    )
    if RUNTIME.blocking:
        context.wait(operation)
    return launch


def submit(
    plan: Plan,
    values: Sequence[Any],
    stream: Stream,
    launch: Launch,
    *,
    after: Sequence[Operation],
    call: Call | None,
) -> Operation:
    """Run a kernel, now or when what it waits for is done, and give it to the device."""
    context = stream.context
    timeline = context.timeline
    queue = stream.queue
    with timeline.lock:
        if stream.id == 0:
            if context.blocking:
                after = (*after, *context.order(stream))
        elif not stream.non_blocking:
            last = context.default_stream.queue.last
            if last is not None:
                after = (*after, last)
        last = queue.last
        held = last is not None and last.held
        for other in after:
            held = held or other.held
        tag: Any = plan
        if call is not None:
            tag = KernelTag(context, stream.id, plan, None, grid_id=next(context.grid_ids), call=call)
        if HOOKS.kinds and context.queues and HOOKS.wants(acts.STREAM_RACE):
            RUNTIME.racing.kernel(stream, plan, values, after)
        if context.failing is not None:
            operation = Operation("kernel", queue, "none", 0, submit_ns=context.clock.now_ns(), after=after)
        elif held:
            operation = Operation(
                "kernel", queue, "clusters", None, submit_ns=context.clock.now_ns(), after=after,
                clusters=plan.clusters, tag=tag,
                on_start=_later(
                    context, plan, values, launch, call=call, launched_at=callers.stack(),
                    made_at=_made_at(plan, values),
                ),
            )  # fmt: skip
        else:
            operation = _operation(launch, stream, after, tag, _run(context, plan, values, call))
        _give(timeline, operation)
    launch._operation = operation
    if RUNTIME.host_calls:
        RUNTIME.run_host_functions()
    return operation


def _operation(launch: Launch, stream: Stream, after: Sequence[Operation], tag: Any, ran: Ran) -> Operation:
    """The operation of a kernel that was run."""
    plan, context = launch._plan, stream.context
    outcome, fault = ran
    launch._outcome = outcome
    if outcome is None:
        assert fault is not None
        launch._error, reached = context.fault(fault, callers.stack(), _made_at(plan, launch._values))
        reached = _with_lines(reached, fault, tag)
        return Operation(
            "kernel", stream.queue, "clusters", plan.untimed_ns, submit_ns=context.clock.now_ns(),
            after=after, clusters=plan.clusters, tag=tag, on_done=reached,
        )  # fmt: skip
    if tag is not plan:
        tag.launch = outcome
    return Operation(
        "kernel", stream.queue, "clusters", outcome.duration_ns, submit_ns=context.clock.now_ns(),
        demand={"l3": outcome.l3_bytes}, after=after, clusters=plan.clusters, tag=tag,
    )  # fmt: skip


def _with_lines(reached: OnDone, fault: KernelFault, tag: Any) -> OnDone:
    """What to do when the device comes to a kernel that went wrong: what it printed before is told, too."""
    if not fault.output or not isinstance(tag, KernelTag) or not HOOKS.kinds & acts.PRINT:
        return reached

    def tell(operation: Operation) -> None:
        tag.tell_lines(zip(fault.output, fault.printed_by, strict=False), operation.end_ns)
        reached(operation)

    return tell


def _made_at(plan: Plan, values: Sequence[Any]) -> Sequence[str]:
    """Where the node was made of a kernel that a graph launches now."""
    graph = RUNTIME.local.graph
    return () if graph is None else graph.made_at(plan, values)


def _give(timeline: Timeline, operation: Operation) -> None:
    if QUEUE_SUBMIT.idle:
        timeline.submit(operation)
    else:
        QUEUE_SUBMIT.run(timeline.submit, (operation,), {})


def finish(
    plan: Plan, values: Sequence[Any], stream: Stream, told: tuple[int, int] | None, given: Any
) -> Launch:
    """What _quick.c leaves to us, with the timeline's lock: a kernel that printed, or went wrong.

    `told`: the graph and the node that it belongs to (0: none); None where nobody wants to hear of it.
    `given`: what the engine gave, or the exception that it raised.
    """
    context = stream.context
    tag: Any = plan
    if told is not None:
        call = Call(*told)
        tag = KernelTag(context, stream.id, plan, None, grid_id=next(context.grid_ids), call=call)
    launch = Launch(plan, values)
    launch._context = context
    try:
        ran: Ran = plan.ended(given), None
    except KernelFault as fault:
        ran = None, fault
    launch._operation = _operation(launch, stream, (), tag, ran)
    _give(context.timeline, launch._operation)
    return launch


def _run(context: Context, plan: Plan, values: Sequence[Any], call: Call | None) -> Ran:
    base = context.clock.base
    base.begin_cut()
    context.freeze()
    try:
        return _run_saved(plan, values, call), None
    except KernelFault as fault:
        return None, fault
    finally:
        context.thaw()
        base.end_cut()


def _run_saved(plan: Plan, values: Sequence[Any], call: Call | None) -> Outcome:
    """Run a kernel, saving what it is given where the session asks for that. Raises as `Plan.run`."""
    if RUNTIME.saver is None:
        return plan.run(values)
    timed = _Saving(call)
    with timed:
        saved = RUNTIME.saver.save(plan, values, timed.correlation_id)
    if saved is None:
        return plan.run(values)
    try:
        outcome = plan.run(values)
    except KernelFault as fault:
        with timed:
            saved.failed(fault)
        timed.tell(plan.name)
        raise
    with timed:
        saved.ended(outcome)
    timed.tell(plan.name)
    return outcome


class _Saving:
    """Time that saving a launch takes. It is within a cut, so it takes no session time: its row says the
    real one, and stands where session time stands."""

    def __init__(self, call: Call | None) -> None:
        self.correlation_id = 0 if call is None else call.correlation_id
        self._took_ns = 0
        self._begin_ns = 0

    def __enter__(self) -> None:
        self._begin_ns = time.monotonic_ns()

    def __exit__(self, *exception: object) -> None:
        self._took_ns += time.monotonic_ns() - self._begin_ns

    def tell(self, kernel: str) -> None:
        """A launch was saved."""
        if HOOKS.kinds & acts.OVERHEAD and HOOKS.wants(acts.OVERHEAD):
            now_ns = HOOKS.now_ns()
            took = acts.OverheadActivity(
                acts.OVERHEAD_SAVE_LAUNCH, now_ns, now_ns + self._took_ns, HOOKS.thread.thread_id,
                self.correlation_id, kernel,
            )  # fmt: skip
            HOOKS.emit(acts.OVERHEAD, took)


def _later(
    context: Context,
    plan: Plan,
    values: Sequence[Any],
    launch: Launch,
    *,
    call: Call | None,
    launched_at: Sequence[str],
    made_at: Sequence[str],
) -> Any:
    """Run a kernel when the device comes to it."""

    def start(operation: Operation) -> None:
        if context.failing is not None:
            operation.duration_ns = 0
            operation.tag = None
            return
        try:
            for position in plan.arrays:
                values[position].block.check()
            outcome, fault = _run(context, plan, values, call)
        except TopsError as error:
            operation.duration_ns = plan.untimed_ns
            launch._error = error
            operation.on_done = context.fail(error)
            return
        except BaseException as error:  # of a signal's handler: the queue goes on
            operation.duration_ns = plan.untimed_ns
            context.host_errors.append(error)
            context.trouble = True
            return
        if outcome is None:
            assert fault is not None
            operation.duration_ns = plan.untimed_ns
            launch._error, reached = context.fault(fault, launched_at, made_at)
            operation.on_done = _with_lines(reached, fault, operation.tag)
            return
        launch._outcome = outcome
        operation.duration_ns = outcome.duration_ns
        operation.demand = {"l3": outcome.l3_bytes}
        if isinstance(operation.tag, KernelTag):
            operation.tag.launch = outcome

    return start


def check_arrays(plan: Plan, values: Sequence[Any], context: Context) -> None:
    """Raises TopsError where an array is none of the device, or was freed."""
    for position in plan.arrays:
        value = values[position]
        if type(value) is not Array:
            _mixed(plan, position, value)
        own = value.block
        if own.freed is not None or own.context is not context:
            _check_array(plan, position, value, context)


def check_cooperative(plan: Plan) -> None:
    """Raises LaunchError where the blocks are not all there at once."""
    threads = plan.options.block[0] * plan.options.block[1] * plan.options.block[2]
    at_once = plan.part.clusters * (plan.part.sips_per_cluster // threads)
    if plan.blocks > at_once:
        raise LaunchError(
            f"{plan.name}: a cooperative launch of {plan.blocks} blocks of {threads} threads: "
            f"{plan.part.name} holds {at_once} at once",
            Code.topsErrorCooperativeLaunchTooLarge,
        )


def _mixed(plan: Plan, position: int, value: Any) -> None:
    name = plan.names[position]
    raise LaunchError(
        f"{plan.name}: {name} lies on the host ({type(value).__name__}), other arrays on a device: "
        f"copy it: {name} = tops.asarray({name})"
    )


def _check_array(plan: Plan, position: int, value: Array, context: Context) -> None:
    name = plan.names[position]
    try:
        value.block.check()
    except TopsError as error:
        fail(error.code, f"kernel {plan.name}, argument {name}: {error.text}")
    other = value.block.context
    if other is not context and other.device_id not in context.peers:
        fail(
            Code.topsErrorPeerAccessNotEnabled,
            f"kernel {plan.name} runs on device {context.device_id}, its argument {name} lies on device "
            f"{other.device_id}: {name}.to({context.device_id}), a stream of device {other.device_id}, or "
            f"tops.enable_peer_access({other.device_id})",
        )


def replanned(plan: Plan, values: Sequence[Any], stream: Stream) -> Plan:
    """The plan for the clusters that a stream has now: of launches that were made before that changed."""
    if plan.settings.part is not None:
        return plan
    return plan.launcher.plan_for(tuple(values), {}, stream)[0]


def _check_part(plan: Plan, stream: Stream) -> None:
    if PARTS.hash(plan.part) != PARTS.hash(stream.part):
        if stream.part is not stream.context.spec and PARTS.hash(plan.part) == PARTS.hash(
            stream.context.spec
        ):
            fail(
                Code.topsErrorLaunchOutOfResources,
                f"kernel {plan.name} is for all of {plan.part.name}, stream {stream.id} has "
                f"{stream.part.clusters} x {stream.part.sips_per_cluster} SIPs of it (set_launch_limit): "
                "leave out .on(...)",
            )
        fail(
            Code.topsErrorNoBinaryForGpu,
            f"kernel {plan.name} is compiled for {plan.part.name}, device {stream.device} is "
            f"{stream.part.name}: leave out .on(...), or choose the device",
        )


# the host's arrays


def launch_on_host(
    plan: Plan, values: Sequence[Any], stream: Stream | None, grid: Any = None, block: Any = None
) -> Launch:
    """Run a kernel on the host's arrays in place: copies to the device, the kernel, copies back, and wait.

    Raises TopsError, KernelFault.
    """
    context = stream.context if stream is not None else RUNTIME.context_for(plan.part)
    if stream is None:
        stream = context.default_stream
    elif plan.part is not stream.part:
        _check_part(plan, stream)
    if not context.news_at:
        context.claim()
    if (
        stream.destroyed or context.trouble or context.dead or context.news.value != context.heard
        or RUNTIME.local.in_callback
    ):  # fmt: skip
        stream.check()
    if stream.capture is not None:
        stream.capture.invalidate()
        fail(
            Code.topsErrorStreamCaptureUnsupported,
            f"kernel {plan.name} on the host's arrays waits for its end, and can't be captured: "
            "copy them: tops.asarray(x)",
        )
    if plan.settings.cooperative:
        check_cooperative(plan)
    queue = stream.queue
    if queue.last is not None or context.blocking:
        context.wait(queue.last)
        for other in context.order(stream):
            context.wait(other)
    call = Call() if HOOKS.kinds and HOOKS.wants(acts.ALL) else None
    begin_ns = context.clock.now_ns()
    launch = Launch(plan, values)
    for position in plan.loaded:
        _implied_copy(context, stream, values[position], acts.COPY_HTOD, call)
    with context.timeline.lock:
        base = context.clock.base
        base.begin_cut()
        context.freeze()
        try:
            for position in plan.stored:
                changed(values[position])
            outcome = _run_saved(plan, values, call)
        except KernelFault as fault:
            if call is not None and HOOKS.wants(acts.PRINT):
                failed = KernelTag(context, stream.id, plan, None, grid_id=0, call=call)
                failed.tell_lines(zip(fault.output, fault.printed_by, strict=False), begin_ns)
            raise
        finally:
            context.thaw()
            base.end_cut()
        launch._outcome = outcome
        tag: Any = plan
        if call is not None:
            tag = KernelTag(context, stream.id, plan, outcome, grid_id=next(context.grid_ids), call=call)
        operation = Operation(
            "kernel", queue, "clusters", outcome.duration_ns, submit_ns=context.clock.now_ns(),
            demand={"l3": outcome.l3_bytes}, clusters=plan.clusters, tag=tag,
        )  # fmt: skip
        QUEUE_SUBMIT.call(context.timeline.submit, operation)
    for position in plan.stored:
        operation = _implied_copy(context, stream, values[position], acts.COPY_DTOH, call) or operation
    context.wait(operation)
    if call is not None and HOOKS.kinds & acts.SYNCHRONIZATION:
        tell_sync(acts.SYNC_BLOCKING, context, stream.id, begin_ns)
    return launch


def _implied_copy(
    context: Context, stream: Stream, value: Any, kind: int, call: Call | None
) -> Operation | None:
    """The copy of a host array before a launch or behind it: its time alone, it is used in place."""
    size = value.nbytes if hasattr(value, "nbytes") else value.numel() * value.element_size()
    if not size:
        return None
    down = kind == acts.COPY_HTOD
    tag = None
    if call is not None and HOOKS.kinds & acts.MEMCPY:
        address = value.data_ptr() if is_tensor(value) else value.__array_interface__["data"][0]
        memory = acts.MEMORY_PINNED if PINNED.holds(address, size) else acts.MEMORY_PAGEABLE
        host, device = (memory, -1, address), (acts.MEMORY_DEVICE, context.device_id, 0)
        source, target = (host, device) if down else (device, host)
        tag = CopyTag(context, stream.id, kind, size, source=source, target=target, flags=0, call=call)
    operation = Operation(
        "copy", stream.queue, "cdma_down" if down else "cdma_up", costs.bus_ns(context.spec, size),
        submit_ns=context.clock.now_ns(), tag=tag,
        demand={"pcie_down" if down else "pcie_up": size, "l3": size},
    )  # fmt: skip
    QUEUE_SUBMIT.call(context.timeline.submit, operation)
    return operation
