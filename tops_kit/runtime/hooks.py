"""What tools hear of the runtime: every vendor call passes here, and every activity is handed on here.

    @api("topsMalloc")
    def malloc(size_bytes: int) -> DevicePointer: ...

    COPY = HOOKS.point("topsMemcpyHtoD", ("dst", "src", "size_bytes"))
    COPY.call(self._copy, dst, src, size_bytes)

    if HOOKS.kinds & activity.KERNEL:
        HOOKS.emit(activity.KERNEL, KernelActivity(...))

Nobody listening: a call tests one attribute. Callbacks and sinks see, and never steer: what they raise is
told once on stderr, and they are not called again.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from tops_kit.deferral import enter, leave
from tops_kit.runtime import activity as acts
from tops_kit.runtime.activity import Activity, ExternalCorrelation, OverheadActivity
from tops_kit.runtime.api_point import ApiCall, ApiPoint, ThreadState
from tops_kit.runtime.api_table import DRIVER_API, DRIVER_IDS, RUNTIME_API, RUNTIME_IDS

if TYPE_CHECKING:
    from tops_kit.runtime.markers import Markers

P = ParamSpec("P")
R = TypeVar("R")
Take = Callable[[int, Activity], object]


class Subscription:
    """A tool's callbacks. What `enter(call)` returns is given to `exit(call, data)` of the same call.

    Nothing is enabled at first. Callbacks may come from any thread, and calls they make themselves are not
    traced. One that raises is told on stderr, and unsubscribed.
    """

    def __init__(
        self,
        hooks: Hooks,
        enter: Callable[[ApiCall], Any] | None,
        exit: Callable[[ApiCall, Any], Any] | None,
    ) -> None:
        self._hooks = hooks
        self.enter = enter
        self.exit = exit
        self.ids: frozenset[tuple[int, int]] = frozenset()
        self.closed = False

    def enable(self, cbid: int, domain: int = RUNTIME_API, on: bool = True) -> None:
        """Callbacks for one API."""
        self._set({(domain, cbid)}, on)

    def enable_domain(self, domain: int, on: bool = True) -> None:
        """Callbacks for all of a domain."""
        known = RUNTIME_IDS if domain == RUNTIME_API else DRIVER_IDS
        self._set({(domain, cbid) for cbid in known.values()}, on)

    def enable_all(self, on: bool = True) -> None:
        """Callbacks for all there is."""
        self.enable_domain(RUNTIME_API, on)
        self.enable_domain(DRIVER_API, on)

    def close(self) -> None:
        """No more callbacks, of calls under way neither. Harmless when it is closed."""
        self.closed = True
        self._hooks._drop_subscription(self)

    def _set(self, ids: Iterable[tuple[int, int]], on: bool) -> None:
        with self._hooks.lock:
            self.ids = self.ids.union(ids) if on else self.ids.difference(ids)
            self._hooks._changed()


class Sink:
    """Who takes activities of some kinds: `take(kind, activity)`, from any thread.

    `recording`, where given, says whether it wants any right now (asked at each call while nobody else
    listens, so it must be cheap): a paused recorder costs that question.
    """

    __slots__ = ("__weakref__", "_hooks", "kinds", "quick", "recording", "take")

    def __init__(self, hooks: Hooks, take: Take, kinds: int, recording: Callable[[], bool] | None) -> None:
        self._hooks = hooks
        self.take = take
        self.quick: Any = None  # writes what comes from _quick.c, where this sink alone wants it
        self.kinds = kinds
        self.recording = recording

    def set_kinds(self, kinds: int) -> None:
        """From now on these kinds (a mask)."""
        with self._hooks.lock:
            self.kinds = kinds
            self._hooks._changed()

    def close(self) -> None:
        """No more activities. Harmless when it is closed."""
        self._hooks._drop_sink(self)


class Hooks:
    """Of one process: its API points, who subscribed, who takes activities, and the clock.

    The runtime sets `now_ns` (session ns), `charge(cost)` where calls cost time of a model, `place()`, the
    calling thread's (device, context), `stream_place(stream)`, the
    (device, stream) of a call's argument, and `poll()`, which hands on what the devices have finished by now.
    `kinds` is the mask of activities that anyone wants. `device_lock`, which the runtime holds while it gives
    devices work and hears what they did, is let go while a tool's code runs.
    """

    # _quick.c reads some of these, and writes none
    __slots__ = (
        "__weakref__", "_fork_seen", "_local", "_points", "_sinks", "_subscriptions", "_takers", "charge",
        "device_lock", "gate", "kinds", "lock", "markers", "now_ns", "place", "poll", "serials", "sinks_gate",
        "stream_place",
    )  # fmt: skip

    def __init__(self) -> None:
        self.now_ns: Callable[[], int] = time.monotonic_ns
        self.place: Callable[[], tuple[int, int]] = _first_device
        self.stream_place: Callable[[Any], tuple[int, int]] = _no_stream
        self.charge: Callable[[str], object] | None = None
        self.poll: Callable[[], object] | None = None
        self.kinds = 0
        self.markers: Markers | None = None  # while anybody wants ranges and marks
        self.gate: Callable[[], bool] | None = None  # of calls: closed, they are told to nobody
        self.sinks_gate: Callable[[], bool] | None = (
            None  # of activities: the same, but for callbacks and costs
        )
        self.device_lock: Any = None  # threading.RLock
        self._local = threading.local()
        self.serials = itertools.count(1)
        self.lock = threading.RLock()
        self._points: list[ApiPoint] = []
        self._subscriptions: tuple[Subscription, ...] = ()
        self._sinks: tuple[Sink, ...] = ()
        self._takers: dict[int, tuple[Sink, ...]] = {}
        self._fork_seen = False

    @property
    def thread(self) -> ThreadState:
        """The calling thread's; take it once, not for each of its fields."""
        try:
            state: ThreadState = self._local.state
        except AttributeError:
            state = self._local.state = ThreadState()
        return state

    # the runtime's side

    def set_clock(self, now_ns: Callable[[], int], charge: Callable[[str], object] | None = None) -> None:
        """Session time, and what charges a call's cost ("api", "launch"; None: calls cost what they take)."""
        with self.lock:
            self.now_ns = now_ns
            self.charge = charge
            self._changed()

    def point(
        self,
        name: str,
        names: tuple[str, ...] = (),
        *,
        defaults: Mapping[str, Any] | None = None,
        cost: str = "api",
        domain: int = RUNTIME_API,
        symbol: Callable[..., str] | None = None,
        rest: str | None = None,
        keywords: str | None = None,
    ) -> ApiPoint:
        """A point for a vendor API. `names` of its parameters (`rest`, `keywords`: which are `*` and `**`);
        `symbol(*args)`, of those given by position, names a launch's kernel.

        Raises KeyError: the API table has no such name.
        """
        out = ApiPoint(
            self, name, names=names, defaults=defaults or {}, cost=cost, domain=domain, symbol=symbol,
            rest=rest, keywords=keywords,
        )  # fmt: skip
        with self.lock:
            self._points.append(out)
            self._changed()
        return out

    def wants(self, kind: int) -> bool:
        """Whether anyone wants activities of a kind now; `kinds & kind` is the quick first question."""
        return bool(self.kinds & kind) and (self.sinks_gate is None or self.sinks_gate())

    def emit(self, kind: int, activity: Activity) -> None:
        """Hand an activity to all who want its kind."""
        for sink in self._takers.get(kind, ()):
            try:
                sink.take(kind, activity)
            except BaseException as error:
                if of_signal(error):
                    raise
                self._drop_sink(sink)
                _tell("a sink of activities", error)

    # the tools' side

    def subscribe(
        self, enter: Callable[[ApiCall], Any] | None, exit: Callable[[ApiCall, Any], Any] | None = None
    ) -> Subscription:
        """Callbacks at the beginning and end of calls, once they are enabled on the subscription."""
        out = Subscription(self, enter, exit)
        with self.lock:
            self._subscriptions += (out,)
            self._changed()
        return out

    def add_sink(
        self, take: Take, kinds: int = acts.ALL, recording: Callable[[], bool] | None = None
    ) -> Sink:
        """From now on `take(kind, activity)` gets activities of these kinds (a mask)."""
        out = Sink(self, take, kinds, recording)
        with self.lock:
            self._sinks += (out,)
            self._changed()
        return out

    def push_external(self, kind: int, external_id: int) -> None:
        """Calls of this thread are linked with an id of somebody else's until it is popped."""
        self.thread.external.setdefault(kind, []).append(external_id)

    def pop_external(self, kind: int) -> int | None:
        """The id that was pushed last for a kind on this thread; None: there is none."""
        external = self.thread.external
        ids = external.get(kind)
        if not ids:
            return None
        out = ids.pop()
        if not ids:
            del external[kind]
        return out

    def untraced(self, function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs) -> R:
        """Call something whose own runtime calls are not to be traced: a tool's code."""
        thread = self.thread
        outer, thread.correlation_id = thread.correlation_id, 0
        thread.depth += 1
        try:
            return self._unlocked(function, *args, **keywords)
        finally:
            thread.depth -= 1
            thread.correlation_id = outer

    # inside

    def _unlocked(self, function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs) -> R:
        """Call a tool's code without the devices' lock: it may wait for a thread that calls the runtime.

        Where it is let go the timeline is as another call may find it, and what comes in between is a call
        of another thread at the same time, which has no order with this one.
        """
        lock = self.device_lock
        if lock is None or not lock._is_owned():
            return function(*args, **keywords)
        held = lock._release_save()  # as threading.Condition does, however often it is held
        try:
            return function(*args, **keywords)
        finally:
            lock._acquire_restore(held)

    def _external(self, thread: ThreadState, correlation_id: int) -> None:
        if self.kinds & acts.EXTERNAL_CORRELATION:
            now = self.now_ns()
            for kind, ids in thread.external.items():
                link = ExternalCorrelation(kind, ids[-1], correlation_id, now, thread.thread_id)
                self.emit(acts.EXTERNAL_CORRELATION, link)

    def _enter(self, callbacks: tuple[Subscription, ...], call: ApiCall, thread: ThreadState) -> list[Any]:
        out: list[Any] = [None] * len(callbacks)
        for k, subscription in enumerate(callbacks):
            if subscription.enter is not None and not subscription.closed:
                out[k] = self._callback(subscription, subscription.enter, (call,), thread)
        return out

    def _exit(
        self, callbacks: tuple[Subscription, ...], call: ApiCall, data: list[Any] | None, thread: ThreadState
    ) -> None:
        for k, subscription in enumerate(callbacks):
            if subscription.exit is not None and not subscription.closed and data is not None:
                self._callback(subscription, subscription.exit, (call, data[k]), thread)

    def _callback(
        self,
        subscription: Subscription,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        thread: ThreadState,
    ) -> Any:
        correlation_id, thread.correlation_id = thread.correlation_id, 0  # its own calls are nobody's part
        begin_ns = self.now_ns()
        try:
            return self._unlocked(function, *args)
        except BaseException as error:
            if of_signal(error):
                raise
            subscription.close()
            _tell(f"a callback of {args[0].name}", error)
        finally:
            thread.correlation_id = correlation_id
            if self.kinds & acts.OVERHEAD:
                took = OverheadActivity(
                    acts.OVERHEAD_CALLBACK, begin_ns, self.now_ns(), thread.thread_id, correlation_id
                )
                self.emit(acts.OVERHEAD, took)
        return None

    def _drop_subscription(self, subscription: Subscription) -> None:
        with self.lock:
            self._subscriptions = tuple(s for s in self._subscriptions if s is not subscription)
            self._changed()

    def _drop_sink(self, sink: Sink) -> None:
        with self.lock:
            self._sinks = tuple(s for s in self._sinks if s is not sink)
            self._changed()

    def _changed(self) -> None:
        """Bring what hot paths read up to date; under the lock."""
        if not self._fork_seen and (self._sinks or self._subscriptions):
            self._fork_seen = True
            os.register_at_fork(after_in_child=functools.partial(_forked, weakref.ref(self)))
        kinds = 0
        for sink in self._sinks:
            kinds |= sink.kinds
        self._takers = {
            1 << bit: tuple(sink for sink in self._sinks if sink.kinds >> bit & 1)
            for bit in range(kinds.bit_length())
        }
        listening = any(subscription.ids for subscription in self._subscriptions)
        gates = [sink.recording for sink in self._sinks if sink.kinds]
        self.sinks_gate = _any_of(gates) if gates else None
        self.gate = None if listening or self.charge is not None else self.sinks_gate
        self.kinds = kinds
        if bool(kinds & acts.MARKER) != (self.markers is not None):
            self._follow_markers(bool(kinds & acts.MARKER))
        for point in self._points:
            key = (point.domain, point.cbid)
            point.callbacks = tuple(s for s in self._subscriptions if key in s.ids)
            if point.domain == RUNTIME_API:
                # any activity's needs the number of the call it came from
                point.idle = not (point.callbacks or kinds & acts.ALL or self.charge is not None)
            else:
                point.idle = not (point.callbacks or kinds & point.kind)

    def _follow_markers(self, on: bool) -> None:
        from tops_kit.runtime.markers import Markers

        markers = self.markers or Markers(self)
        markers.follow(on)
        self.markers = markers if on else None

    def _forked(self) -> None:
        self.lock = threading.RLock()  # another thread of the parent's may have held it
        self.thread.thread_id = threading.get_native_id()


def _forked(of: weakref.ref[Hooks]) -> None:
    hooks = of()
    if hooks is not None:
        hooks._forked()


def _first(parameters: Mapping[str, inspect.Parameter], kind: Any) -> str | None:
    return next((name for name, parameter in parameters.items() if parameter.kind is kind), None)


def _first_device() -> tuple[int, int]:
    return 0, 1


def _no_stream(stream: Any) -> tuple[int, int]:
    return 0, -1


def _any_of(gates: list[Callable[[], bool] | None]) -> Callable[[], bool] | None:
    if any(gate is None for gate in gates):
        return None
    if len(gates) == 1:
        return gates[0]
    return lambda: any(gate is not None and gate() for gate in gates)


def of_signal(error: BaseException) -> bool:
    """Whether it is a Ctrl-C that came while a tool's code ran, and nothing that this code raised."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    place = error.__traceback__
    handler = getattr(signal.getsignal(signal.SIGINT), "__code__", None)
    while place is not None and place.tb_next is not None:
        if place.tb_frame.f_code is handler:
            return True
        place = place.tb_next
    if place is None or place.tb_frame.f_code is handler:
        return True
    code = place.tb_frame.f_code.co_code
    return not 0 <= place.tb_lasti < len(code) or code[place.tb_lasti] not in _RAISES


# what a `raise` statement becomes: where such an instruction was not the last one, a signal came
_RAISES = frozenset(dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE") if name in dis.opmap)


def _tell(who: str, error: BaseException) -> None:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place is not None else ""
    text = f"tops_kit: {who} raised {type(error).__name__}: {error}{where}: it is not called again"
    print(text, file=sys.stderr)


HOOKS: Final = Hooks()  # the process's: there is one runtime in it


def api(
    name: str,
    *,
    cost: str = "api",
    domain: int = RUNTIME_API,
    symbol: Callable[..., str] | None = None,
    hooks: Hooks = HOOKS,
    undo: Callable[[Any], object] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: this function stands for a vendor API. `cost`: "api" or "launch"; see Hooks.point.

    `undo`: gives back what it gave, where a handler of a signal raises before anybody has that.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters
        defaults = {
            p.name: p.default for p in parameters.values() if p.default is not inspect.Parameter.empty
        }
        point = hooks.point(
            name, tuple(parameters), defaults=defaults, cost=cost, domain=domain, symbol=symbol,
            rest=_first(parameters, inspect.Parameter.VAR_POSITIONAL),
            keywords=_first(parameters, inspect.Parameter.VAR_KEYWORD),
        )  # fmt: skip

        @functools.wraps(function)
        def wrapper(*args: P.args, **keywords: P.kwargs) -> R:
            enter()
            try:
                if point.idle:
                    return function(*args, **keywords)
                return point.run(function, args, keywords)
            finally:
                leave()

        if undo is None:
            return wrapper

        @functools.wraps(function)
        def keeping(*args: P.args, **keywords: P.kwargs) -> R:
            enter()
            try:
                result = wrapper(*args, **keywords)  # a section within: no handler runs at its end
            except BaseException:
                leave()
                raise
            try:
                leave()
                return result
            except BaseException:
                undo(result)
                raise

        return keeping

    return decorate
