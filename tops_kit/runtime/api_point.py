"""A vendor API as the runtime calls it, and a call of it as tools see it (see hooks)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tops_kit.runtime import activity as acts
from tops_kit.runtime.activity import ApiActivity
from tops_kit.runtime.api_parameters import typed
from tops_kit.runtime.api_table import RUNTIME_API, api_id

if TYPE_CHECKING:
    from tops_kit.runtime.hooks import Hooks, Subscription

R = TypeVar("R")

UNKNOWN_ERROR: Final = 999  # the vendor's topsErrorUnknown: something that is no error of the runtime's
_MADE: Final = tuple.__new__


def status_of(error: BaseException) -> int:
    """The vendor's status of what a call raised: its `code`, or topsErrorUnknown."""
    code = getattr(error, "code", None)
    return int(code) if isinstance(code, int) else UNKNOWN_ERROR


class ApiCall:
    """A call as callbacks see it; before its end `end_ns`, `return_value` and `result` are None.

    `params` by the vendor's names (api_parameters.py); `return_value` is the vendor's status, `result` what
    Python gets. `symbol_name`: the kernel of a launch. `device_id`, `context_id`: of the calling thread.
    """

    __slots__ = (
        "_args", "_keywords", "_params", "begin_ns", "cbid", "context_id", "correlation_id", "device_id",
        "domain", "end_ns", "name", "point", "result", "return_value", "thread_id",
    )  # fmt: skip

    def __init__(
        self, point: ApiPoint, args: tuple[Any, ...], keywords: dict[str, Any], thread: ThreadState
    ) -> None:
        self.point = point
        self.name = point.name
        self.cbid = point.cbid
        self.domain = point.domain
        self.correlation_id = thread.correlation_id
        self.thread_id = thread.thread_id
        self.begin_ns = thread.begin_ns
        self.end_ns: int | None = None
        self.return_value: int | None = None
        self.result: Any = None
        self.device_id, self.context_id = point.hooks.place()
        self._args = args
        self._keywords = keywords
        self._params: dict[str, Any] | None = None

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters by name, defaults included."""
        if self._params is None:
            self._params = self.point.named(self._args, self._keywords)
        return self._params

    @property
    def stream(self) -> Any:
        """The stream that was given, None where there is none."""
        return self.params.get("stream")

    @property
    def symbol_name(self) -> str:
        """The kernel of a launch; "" for other calls."""
        symbol = self.point.symbol
        return symbol(*self._args) if symbol is not None else ""


class ThreadState:
    """What a thread does: `correlation_id` and `begin_ns` of its traced call, 0 outside of one."""

    __slots__ = ("begin_ns", "correlation_id", "depth", "external", "thread_id")

    def __init__(self) -> None:
        self.thread_id = threading.get_native_id()
        self.depth = 0
        self.correlation_id = 0
        self.begin_ns = 0
        self.external: dict[int, list[int]] = {}


class ApiPoint:
    """A vendor API as the runtime calls through it. `idle`: nobody listens, and no cost is charged."""

    __slots__ = (
        "callbacks", "cbid", "cost", "defaults", "domain", "hooks", "idle", "keywords", "kind", "name",
        "names", "rest", "stream_at", "symbol",
    )  # fmt: skip

    def __init__(
        self,
        hooks: Hooks,
        name: str,
        *,
        names: tuple[str, ...],
        defaults: Mapping[str, Any],
        cost: str,
        domain: int,
        symbol: Callable[..., str] | None,
        rest: str | None = None,
        keywords: str | None = None,
    ) -> None:
        self.hooks = hooks
        self.rest = rest  # the name of its *args
        self.keywords = keywords  # and of its **keywords
        self.name = name
        self.names = names
        self.defaults = defaults
        self.cost = cost
        self.domain = domain
        self.kind = acts.API if domain == RUNTIME_API else acts.DRIVER
        self.cbid = api_id(name, domain)
        self.symbol = symbol
        # which parameter says the stream: that of this name, or a stream's own self
        self.stream_at = names.index("stream") if "stream" in names else 0 if names[:1] == ("self",) else -1
        self.idle = True
        self.callbacks: tuple[Subscription, ...] = ()

    def call(self, function: Callable[..., R], /, *args: Any, **keywords: Any) -> R:
        """What `function(*args, **keywords)` gives or raises, told to whoever listens."""
        if self.idle:
            return function(*args, **keywords)
        return self.run(function, args, keywords)

    def named(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by the vendor's parameter names; more than were named become arg<n>."""
        out = dict(self.defaults)
        names, rest = self.names, self.rest
        if rest is not None:  # f(x, *args)
            at = names.index(rest)
            out[rest] = tuple(args[at:])
            args = args[:at]
        out.update(zip(names, args, strict=False))
        for k in range(len(names), len(args)):
            out[f"arg{k}"] = args[k]
        if self.keywords is not None:
            out[self.keywords] = {key: value for key, value in keywords.items() if key not in names}
            keywords = {key: value for key, value in keywords.items() if key in names}
        out.update(keywords)
        return typed(self.name, out) if self.domain == RUNTIME_API else out

    def run(self, function: Callable[..., R], args: tuple[Any, ...], keywords: dict[str, Any]) -> R:
        """`call`, when somebody may listen."""
        hooks = self.hooks
        gate = hooks.gate
        if gate is not None and not gate():
            return function(*args, **keywords)
        thread = hooks.thread
        if thread.depth or self.callbacks or thread.external or hooks.charge is not None:
            return self._rare(function, args, keywords, thread)
        # what a recorder costs each call: kept short
        thread.depth = 1
        correlation_id = thread.correlation_id = next(hooks.serials)
        begin_ns = thread.begin_ns = hooks.now_ns()
        status = 0
        try:
            return function(*args, **keywords)
        except BaseException as error:
            status = status_of(error)
            raise
        finally:
            end_ns = hooks.now_ns()
            thread.depth = thread.correlation_id = thread.begin_ns = 0
            if hooks.kinds & self.kind:
                place = self._place(args, keywords)
                self._record(begin_ns, end_ns, correlation_id, thread.thread_id, status, *place)

    def _rare(
        self, function: Callable[..., R], args: tuple[Any, ...], keywords: dict[str, Any], thread: ThreadState
    ) -> R:
        """A call within another, with callbacks, with ids of somebody else's, or with a cost."""
        hooks = self.hooks
        outer, outer_ns = thread.correlation_id, thread.begin_ns
        if not thread.depth:
            correlation_id = next(hooks.serials)
        elif self.domain == RUNTIME_API or not outer:  # part of another call, or made by a callback
            return function(*args, **keywords)
        else:
            correlation_id = outer
        if thread.external and not outer:
            hooks._external(thread, correlation_id)
        thread.depth += 1
        try:
            thread.correlation_id = correlation_id
            thread.begin_ns = hooks.now_ns()
            return self._told(self.callbacks, function, args, keywords, thread)
        finally:
            thread.depth -= 1
            thread.correlation_id = outer
            thread.begin_ns = outer_ns

    def _told(
        self,
        callbacks: tuple[Subscription, ...],
        function: Callable[..., R],
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        thread: ThreadState,
    ) -> R:
        """The call between its callbacks."""
        hooks = self.hooks
        begin_ns, correlation_id = thread.begin_ns, thread.correlation_id
        call = data = None
        if callbacks:
            call = ApiCall(self, args, keywords, thread)
            data = hooks._enter(callbacks, call, thread)
        if hooks.charge is not None and thread.depth == 1 and self.domain == RUNTIME_API:
            hooks.charge(self.cost)
        status = 0
        try:
            result = function(*args, **keywords)
            if call is not None:
                call.result = result
            return result
        except BaseException as error:
            status = status_of(error)
            raise
        finally:
            end_ns = hooks.now_ns()
            if hooks.kinds & self.kind:
                place = self._place(args, keywords)
                self._record(begin_ns, end_ns, correlation_id, thread.thread_id, status, *place)
            if call is not None:
                call.end_ns = end_ns
                call.return_value = status
                hooks._exit(callbacks, call, data, thread)

    def _place(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[int, int]:
        """Device and stream that a call is about; stream -1: it is about none."""
        hooks, at = self.hooks, self.stream_at
        if at < 0:
            return hooks.place()[0], -1
        stream = args[at] if at < len(args) else keywords.get("stream")
        return hooks.stream_place(stream)

    def _record(  # noqa: PLR0917 - _quick.c calls it
        self,
        begin_ns: int,
        end_ns: int,
        correlation_id: int,
        thread_id: int,
        status: int,
        device_id: int,
        stream_id: int,
    ) -> None:
        hooks = self.hooks
        fields = (
            self.cbid, begin_ns, end_ns, correlation_id, thread_id, status, self.domain, device_id, stream_id
        )  # fmt: skip
        hooks.emit(self.kind, _MADE(ApiActivity, fields))
