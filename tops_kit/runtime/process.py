"""What a process has of its devices: one clock, one timeline, and a context for each device it uses.

Nothing of it exists before the first call that needs a device.
"""

from __future__ import annotations

import atexit
import importlib
import itertools
import os
import threading
import time
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from tops_kit.deferral import outside
from tops_kit.errors import UserError
from tops_kit.gcu import Specification, state
from tops_kit.gcu.clock import Clock, LocalTimeBase, TimeBase, clock_mode
from tops_kit.gcu.simulation import Operation, Timeline
from tops_kit.gcu.state import Base, Devices
from tops_kit.runtime.codes import Code
from tops_kit.runtime.driver import QUEUE_WAIT
from tops_kit.runtime.errors import LaunchError, TopsError, fail, shown
from tops_kit.runtime.hooks import HOOKS
from tops_kit.runtime.parts import DEFAULT, PARTS
from tops_kit.runtime.racing import Racing
from tops_kit.runtime.recording import Follower

if TYPE_CHECKING:
    from tops_kit.runtime.context import Context
    from tops_kit.runtime.graph.capture import Capture
    from tops_kit.runtime.graph.executable import GraphExec
    from tops_kit.runtime.saving import Saver
    from tops_kit.runtime.stream import Stream
    from tops_kit.runtime.told_memory import ToldMemory


class HostCall(Protocol):
    """A function of the host in a stream, that is to be called now."""

    def run(self) -> None:
        """Call it, and let the stream go on."""


class Local(threading.local):
    """What a thread has chosen: its device, its stream (None: the default one)."""

    device = 0
    stream: Stream | None = None
    capture: Capture | None = None  # that this thread has begun
    in_callback = False  # a host function runs: it may not call the runtime
    graph: GraphExec | None = None  # that is being launched
    callback_ns = 0  # what it said it takes


_LOOK_S = 0.0005  # how often is looked whether another thread's host function has ended


class Runtime:
    """The runtime of a process. A forked child begins with a new one; nothing of the parent's is its own."""

    # _quick.c reads some of these, and writes none
    __slots__ = (
        "__weakref__", "_contexts_made", "_fork_seen", "blocking", "calling", "clock", "contexts", "devices",
        "exec_ids", "graph_ids", "guests", "host_calls", "local", "lock", "pid", "racing", "saver",
        "started", "timeline", "told_memory",
    )  # fmt: skip

    def __init__(self) -> None:
        self.local = Local()
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self.contexts: list[Context] = []
        self.guests: dict[str, Context] = {}  # of parts that are no device here, by their hash
        self.devices = Devices(())
        self.timeline = Timeline()
        self.clock = Clock(LocalTimeBase(), PARTS.get(DEFAULT))
        self.started = False
        self.blocking = False  # every launch is waited for
        self.racing = Racing()
        self.calling = 0  # host functions that threads are in
        self.saver: Saver | None = None  # of the session that it is in
        self.told_memory: ToldMemory | None = None  # of that session
        self._fork_seen = False
        self._contexts_made = 0
        self.graph_ids = itertools.count(1)
        self.exec_ids = itertools.count(1)
        self.host_calls: deque[HostCall] = deque()  # functions of the host that a device has come to

    # beginning and end

    def start(self) -> None:
        """Look which devices there are, and begin session time. Raises UserError."""
        with self.lock:
            if self.started:
                return
            try:
                devices = state.devices(os.environ)
                mode = clock_mode(os.environ)
            except UserError as error:
                raise TopsError(Code.topsErrorInvalidDevice, str(error)) from None
            _import_rest()
            spec = devices[0].spec if devices else PARTS.get(DEFAULT)
            self.devices = devices
            self.timeline = Timeline()
            self.racing = Racing()
            self.clock = Clock(FOLLOWER.base(mode), spec, beside=self._beside)
            if os.environ.get("TOPS_CLOCK") and self.clock.base.mode != mode:
                self.warn(
                    f"TOPS_CLOCK={mode} is set too late: the recording began with {self.clock.base.mode}; "
                    f"set it in front, as in TOPS_CLOCK={mode} topsprof run ..."
                )
            self.blocking = os.environ.get("TOPS_LAUNCH_BLOCKING", "") not in ("", "0")
            from tops_kit.runtime.context import Context

            self.contexts = [
                Context(self, device.index, device.spec, device, self.next_context_id()) for device in devices
            ]
            self.started = True
            FOLLOWER.started()
            self._tell_clock()
            HOOKS.place = self.place
            HOOKS.device_lock = self.timeline.lock
            HOOKS.stream_place = self.stream_place
            HOOKS.poll = self.poll
            atexit.register(self.finish)
            if not self._fork_seen and hasattr(os, "register_at_fork"):
                self._fork_seen = True
                os.register_at_fork(after_in_child=self._forked)

    def _tell_clock(self) -> None:
        HOOKS.set_clock(self.clock.now_ns, self.clock.charge_api if self.clock.model else None)

    def use_base(self, base: TimeBase) -> None:
        """Session time goes on over another base: a session is entered, or left."""
        self.clock.use(base)
        for context in self.contexts:
            context.simulation.renew()
        self._tell_clock()

    def time_base(self) -> Base:
        """Which session time this process has, for devices that it shares with others."""
        base = self.clock.base
        return Base(FOLLOWER.identity, getattr(base, "offset_ns", 0), base.now_ns())

    def _beside(self) -> bool:
        """Whether other processes use devices that this one uses."""
        return any(context.simulation.shared for context in self.contexts)

    def run_ahead(self) -> None:
        """All that was queued becomes final, as if nothing came after it; what waits for the host stays."""
        with self.timeline.lock:
            self.timeline.advance(self.clock.now_ns())
        for context in (*self.contexts, *self.guests.values()):
            self.finish_all(context)

    def known_context(self, index: int) -> Context | None:
        """The context of a device by its number, where there is one."""
        everywhere = (*self.contexts, *self.guests.values())
        return everywhere[index] if 0 <= index < len(everywhere) else None

    def first_now(self) -> int:
        """Session time for who asks before anything was started."""
        self.start()
        return self.clock.now_ns()

    def first_charge(self, kind: str) -> None:
        """The cost of a call before anything was started."""
        self.start()
        self.clock.charge_api(kind)

    def next_context_id(self) -> int:
        """Contexts are numbered from 1."""
        self._contexts_made += 1
        return self._contexts_made

    def finish(self) -> None:
        """The process ends: all work of the devices is done and told, and memory is given back."""
        with self.lock:
            for context in (*self.contexts, *self.guests.values()):
                context.finish()
        FOLLOWER.finish()
        self.devices.close()

    def end(self) -> None:
        """As at the end of the process; what comes after begins anew, with the environment as it is then."""
        with self.lock:
            self.finish()
            self._forget("belongs to a runtime that was ended")

    def _forked(self) -> None:
        """In a forked child: what was the parent's is gone."""
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self._forget("belongs to the process that this one was forked from")

    def _forget(self, why: str) -> None:
        for context in (*self.contexts, *self.guests.values()):
            context.dead = why
        atexit.unregister(self.finish)
        self.contexts = []
        self.guests = {}
        self.devices = Devices(())
        self.local = Local()
        self.host_calls.clear()
        self.calling = 0
        self.started = False
        self._contexts_made = 0
        HOOKS.set_clock(self.first_now, self.first_charge)

    # devices

    def place(self) -> tuple[int, int]:
        """The calling thread's device and context, for hooks."""
        number = self.local.device
        return number, self.contexts[number].context_id if number < len(self.contexts) else 0

    def stream_place(self, stream: Any) -> tuple[int, int]:
        """Device and stream (-1: none) of what a call has as its stream; None: the thread's. For hooks."""
        if stream is None:
            stream = self.local.stream
            if stream is None:
                return self.local.device, 0
        from tops_kit.runtime.stream import Stream

        if isinstance(stream, Stream):
            return stream.device, stream.id
        return self.local.device, -1

    def current(self) -> Context:
        """The context of the calling thread's device. Raises TopsError: there is none."""
        try:
            return self.contexts[self.local.device]
        except IndexError:
            return self.context(self.local.device)

    def context(self, index: Any) -> Context:
        """A device's context, by its number. Raises TopsError."""
        if not self.started:
            self.start()
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(self.contexts):
            if not self.contexts:
                fail(
                    Code.topsErrorNoDevice,
                    "this program sees no device: see TOPS_DEVICES and TOPS_VISIBLE_DEVICES",
                )
            numbers = "0" if len(self.contexts) == 1 else f"0 to {len(self.contexts) - 1}"
            fail(
                Code.topsErrorInvalidDevice, f"there is no device {shown(index)}: this program sees {numbers}"
            )
        return self.contexts[index]

    def context_for(self, spec: Specification) -> Context:
        """Where launches for a part are placed in time: its device, or one that stands for it."""
        if not self.started:
            self.start()
        contexts = self.contexts
        number = self.local.device
        if number < len(contexts) and _runs(contexts[number], spec):
            return contexts[number]
        for context in contexts:
            if _runs(context, spec):
                return context
        guest = self.guests.get(PARTS.hash(spec))
        if guest is None:
            from tops_kit.runtime.context import Context

            with self.lock:
                index = len(contexts) + len(self.guests)
                guest = self.guests[PARTS.hash(spec)] = Context(
                    self, index, spec, None, self.next_context_id()
                )
        return guest

    def beside_limits(self, error: LaunchError, part: Specification) -> LaunchError:
        """What a part can't run: where it is less than a device has, the error says so."""
        for context in self.contexts:
            whole = context.spec
            if (
                part is not whole
                and (part.name, part.clock_hz) == (whole.name, whole.clock_hz)
                and part.sips < whole.sips
            ):
                text = (
                    f"{error.text}, as launch limits leave them (tops.Stream.set_launch_limit; all of it: "
                    f"{whole.clusters} x {whole.sips_per_cluster})"
                )
                return LaunchError(text, error.code)
        return error

    def default_part(self) -> Specification:
        """The part that kernels are for when nothing else is said: that of the thread's device."""
        if not self.started:
            self.start()
        contexts = self.contexts
        number = self.local.device
        return contexts[number].spec if number < len(contexts) else PARTS.get(DEFAULT)

    def reset(self, index: int) -> None:
        """Begin anew with a device."""
        from tops_kit.runtime.context import Context

        old = self.context(index)
        with self.lock:
            old.close("was reset")
            assert old.device is not None
            old.device.reset()
            self.contexts[index] = Context(self, index, old.device.spec, old.device, self.next_context_id())
            if self.local.stream is not None and self.local.stream.context is old:
                self.local.stream = None

    # waiting

    def is_done(self, operation: Operation) -> bool:
        """Whether an operation has ended by now, as the host sees it."""
        now_ns = self.clock.now_ns()
        if not 0 <= operation.end_ns <= now_ns:
            self.timeline.advance(now_ns)
            if self.host_calls:
                self.run_host_functions()
        return 0 <= operation.end_ns <= now_ns

    def wait(self, operation: Operation) -> None:
        """Wait until an operation has ended."""
        QUEUE_WAIT.call(self._wait, operation)

    def _wait(self, operation: Operation) -> None:
        timeline, clock = self.timeline, self.clock
        while not operation.done:
            if self.run_host_functions():
                continue
            if clock.jumps() and (timeline.finish(operation) is not None or self.host_calls):
                continue
            # other threads can give the device work meanwhile: no running ahead of them
            time_ns = timeline.next_event_ns()
            if time_ns is None:
                timeline.advance(clock.now_ns())
                if self.host_calls or self.calling:
                    # of another thread: it says when it has ended
                    if not self.host_calls:
                        outside(time.sleep, _LOOK_S)
                elif not operation.done and timeline.next_event_ns() is None:
                    fail(Code.topsErrorNotReady, "waits for something that nobody does")
                continue
            timeline.advance(clock.wait_until(time_ns))
        timeline.advance(clock.wait_until(operation.end_ns))

    def run_host_functions(self) -> bool:
        """Call the host functions that devices have come to; False: there were none. Not from within one."""
        ran = False
        calls = self.host_calls
        while calls and not self.local.in_callback and not self.timeline_held():
            try:
                call = calls.popleft()
            except IndexError:
                break  # another thread was quicker
            with self.lock:
                self.calling += 1
            try:
                call.run()
            finally:
                with self.lock:
                    self.calling -= 1
            ran = True
        return ran

    def timeline_held(self) -> bool:
        """Whether this thread holds the devices' lock, or is in a cut: no time to call the program's code."""
        return self.timeline.lock._is_owned() or self.clock.in_cut  # type: ignore[attr-defined]

    def finish_all(self, context: Context) -> int | None:
        """Runs ahead until a device is done, host functions among it; its last end, None: it never is."""
        while True:
            end_ns = context.simulation.finish_all()
            if end_ns is not None or not self.run_host_functions():
                return end_ns

    def poll(self) -> None:
        """Tell what devices have done by now, and what arrays have left behind; waits for nothing."""
        if self.started:
            self.timeline.advance(self.clock.now_ns())
            if self.host_calls:
                self.run_host_functions()
            for context in (*self.contexts, *self.guests.values()):
                context.drain()

    def warn(self, text: str) -> None:
        """Something the user should know, once."""
        warnings.warn(text, stacklevel=3)


def _import_rest() -> None:
    """What calls import when they need it: here, so that no call's time has it."""
    for name in (
        "context",
        "event",
        "graph.capture",
        "graph.executable",
        "graph.nodes",
        "host_functions",
        "ipc_events",
        "limits",
        "pools",
    ):
        importlib.import_module(f"tops_kit.runtime.{name}")


def _runs(context: Context, spec: Specification) -> bool:
    """Whether a part is a device's, or what is left of it beside launch limits."""
    return context.part is spec or _same(context.spec, spec)


def _same(one: Specification, other: Specification) -> bool:
    return one is other or PARTS.hash(one) == PARTS.hash(other)


RUNTIME = Runtime()  # the process's, begun at its first use
HOOKS.set_clock(RUNTIME.first_now, RUNTIME.first_charge)
FOLLOWER = Follower(RUNTIME, HOOKS)
