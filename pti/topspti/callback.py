"""The callback API: a tool is called at the beginning and end of runtime calls. It sees, and never steers.

def callback(domain, cbid, data):
    if data.callback_site == topspti.CallbackSite.API_EXIT:
        print(data.function_name, data.function_return_value)

subscriber = topspti.subscribe(callback)
topspti.enable_domain(True, subscriber, topspti.Domain.RUNTIME_API)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tops_kit.runtime.api_point import ApiCall
from tops_kit.runtime.api_table import NAMES
from tops_kit.runtime.hooks import HOOKS, Hooks, Subscription
from topspti.errors import PtiError, shown
from topspti.kinds import CallbackSite, Domain


class CallbackData:
    """One call at one site. At its enter, return value and result are None.

    `correlation_data` is the subscriber's: what it sets at enter it finds at the same call's exit.
    `function_return_value` is the vendor's status; `function_result` what Python gets.
    """

    __slots__ = ("_call", "_site", "correlation_data")

    def __init__(self, site: CallbackSite, call: ApiCall, correlation_data: Any = None) -> None:
        self._site = site
        self._call = call
        self.correlation_data = correlation_data

    @property
    def callback_site(self) -> CallbackSite:
        """API_ENTER or API_EXIT."""
        return self._site

    @property
    def function_name(self) -> str:
        """The vendor's name of the call."""
        return self._call.name

    @property
    def function_params(self) -> Mapping[str, Any]:
        """The vendor's parameters by name (docs/topspti.md has them all); the mapping can't be changed."""
        return MappingProxyType(dict(self._call.params))

    @property
    def function_return_value(self) -> int | None:
        """The vendor's status, 0 is success; None at enter."""
        return self._call.return_value if self._site else None

    @property
    def function_result(self) -> Any:
        """What the Python call gives; None at enter, and of a failed call."""
        return self._call.result if self._site else None

    @property
    def symbol_name(self) -> str:
        """The kernel of a launch; "" otherwise."""
        return self._call.symbol_name

    @property
    def context_uid(self) -> int:
        """The calling thread's context."""
        return self._call.context_id

    @property
    def device_id(self) -> int:
        """The calling thread's device."""
        return self._call.device_id

    @property
    def thread_id(self) -> int:
        """The calling thread, as the system numbers it."""
        return self._call.thread_id

    @property
    def correlation_id(self) -> int:
        """What records of this call and of what it started have, too."""
        return self._call.correlation_id

    @property
    def begin_ns(self) -> int:
        """When the call began, in session ns."""
        return self._call.begin_ns

    @property
    def end_ns(self) -> int | None:
        """When it ended; None at enter."""
        return self._call.end_ns if self._site else None

    # the vendor's spelling

    callbackSite = callback_site  # noqa: N815
    functionName = function_name  # noqa: N815
    functionParams = function_params  # noqa: N815
    functionReturnValue = function_return_value  # noqa: N815
    symbolName = symbol_name  # noqa: N815
    contextUid = context_uid  # noqa: N815
    correlationId = correlation_id  # noqa: N815

    @property
    def correlationData(self) -> Any:  # noqa: N802
        """correlation_data."""
        return self.correlation_data

    @correlationData.setter
    def correlationData(self, value: Any) -> None:  # noqa: N802
        self.correlation_data = value


Callback = Callable[[Domain, int, CallbackData], object]


class Subscriber:
    """A callback and what it is called for; nothing at first."""

    def __init__(self, callback: Callback, hooks: Hooks = HOOKS) -> None:
        if not callable(callback):
            raise PtiError(f"a callback is a function, not {shown(callback)}")
        self._callback = callback
        self._subscription: Subscription = hooks.subscribe(self._enter, self._exit)

    def _enter(self, call: ApiCall) -> Any:
        data = CallbackData(CallbackSite.API_ENTER, call)
        self._callback(Domain(call.domain), call.cbid, data)
        return data.correlation_data

    def _exit(self, call: ApiCall, kept: Any) -> None:
        self._callback(Domain(call.domain), call.cbid, CallbackData(CallbackSite.API_EXIT, call, kept))

    def enable(self, domain: Domain | int, cbid: int, on: bool = True) -> None:
        """Callbacks of one API. Raises PtiError: there is none of that number, or it is unsubscribed."""
        get_callback_name(domain, cbid)
        self._open().enable(cbid, domain, on)

    def enable_domain(self, domain: Domain | int, on: bool = True) -> None:
        """Callbacks of a domain. Raises PtiError."""
        self._open().enable_domain(_domain(domain), on)

    def enable_all_domains(self, on: bool = True) -> None:
        """Callbacks of all there is. Raises PtiError."""
        self._open().enable_all(on)

    @property
    def subscribed(self) -> bool:
        """False once it was unsubscribed, or its callback raised."""
        return not self._subscription.closed

    def close(self) -> None:
        """No more callbacks. Harmless when it is unsubscribed."""
        self._subscription.close()

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Subscription:
        if self._subscription.closed:
            raise PtiError("this subscriber is unsubscribed (by the tool, or because its callback raised)")
        return self._subscription


def subscribe(callback: Callback) -> Subscriber:
    """`callback(domain, cbid, data)` for what is enabled, from whichever thread makes the call.

    Any number of tools may subscribe. A callback that raises is told on stderr and unsubscribed.
    """
    return Subscriber(callback)


def unsubscribe(subscriber: Subscriber) -> None:
    """No more callbacks. Raises PtiError."""
    _subscriber(subscriber).close()


def enable_callback(on: bool, subscriber: Subscriber, domain: Domain | int, cbid: int) -> None:
    """Callbacks of one API. Raises PtiError."""
    _subscriber(subscriber).enable(domain, cbid, on)


def enable_domain(on: bool, subscriber: Subscriber, domain: Domain | int) -> None:
    """Callbacks of a domain. Raises PtiError."""
    _subscriber(subscriber).enable_domain(domain, on)


def enable_all_domains(on: bool, subscriber: Subscriber) -> None:
    """Callbacks of all there is. Raises PtiError."""
    _subscriber(subscriber).enable_all_domains(on)


def get_callback_name(domain: Domain | int, cbid: int) -> str:
    """The name of an API. Raises PtiError: there is no such domain or number."""
    names = NAMES[_domain(domain)]
    if not isinstance(cbid, int) or cbid not in names:
        raise PtiError(f"{_domain(domain).name} has no callback {shown(cbid)}: topspti.cbids has them all")
    return names[cbid]


def _subscriber(value: Any) -> Subscriber:
    if not isinstance(value, Subscriber):
        raise PtiError(f"a subscriber is what topspti.subscribe gave, not {shown(value)}")
    return value


def _domain(domain: Domain | int) -> Domain:
    try:
        return Domain(domain)
    except (ValueError, TypeError):
        raise PtiError(f"no domain {shown(domain)}: topspti.Domain has them all") from None
