"""Callbacks as tools write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import topspti
import topspti.vendor as v
from topspti import CallbackSite, Domain

from tops_kit.runtime.hooks import HOOKS, ApiPoint


@pytest.fixture(scope="module")
def malloc() -> ApiPoint:
    return HOOKS.point("topsMalloc", ("size_bytes",))


@pytest.fixture
def subscriber() -> Iterator[Any]:
    seen: list[Any] = []

    def callback(domain: Domain, cbid: int, data: topspti.CallbackData) -> None:
        if data.callback_site == CallbackSite.API_ENTER:
            data.correlation_data = data.begin_ns
        seen.append((domain, topspti.get_callback_name(domain, cbid), data.callback_site.name, data))

    with topspti.subscribe(callback) as made:
        yield made, seen


def test_a_call_is_seen_at_both_sites(subscriber: Any, malloc: ApiPoint) -> None:
    made, seen = subscriber
    malloc.call(len, "not enabled")
    topspti.enable_callback(True, made, Domain.RUNTIME_API, topspti.cbid("topsMalloc"))
    assert malloc.call(len, "four") == 4
    (domain, name, site, enter), (*_, leave) = seen
    assert (domain, name, site) == (Domain.RUNTIME_API, "topsMalloc", "API_ENTER")
    assert leave.correlation_data == enter.begin_ns == leave.begin_ns <= leave.end_ns
    assert dict(enter.function_params) == {"size_bytes": "four"}
    assert (enter.function_return_value, leave.function_return_value, leave.function_result) == (None, 0, 4)
    assert enter.correlation_id == leave.correlation_id > 0
    assert (enter.symbol_name, enter.context_uid, enter.device_id) == ("", 1, 0)
    with pytest.raises(TypeError):
        enter.function_params["size_bytes"] = 1
    topspti.enable_domain(False, made, Domain.RUNTIME_API)
    malloc.call(len, "off")
    topspti.enable_all_domains(True, made)
    malloc.call(len, "on")
    assert len(seen) == 4


def test_several_subscribers_keep_their_own_data(malloc: ApiPoint) -> None:
    kept: list[tuple[int, Any]] = []

    def tool(number: int) -> Any:
        def callback(domain: Domain, cbid: int, data: topspti.CallbackData) -> None:
            if data.callback_site == CallbackSite.API_EXIT:
                kept.append((number, data.correlation_data))
            else:
                assert data.correlation_data is None
                data.correlation_data = f"of {number}"

        return callback

    with topspti.subscribe(tool(1)) as first, topspti.subscribe(tool(2)) as second:
        first.enable_all_domains()
        second.enable_domain(Domain.RUNTIME_API)
        malloc.call(len, "")
    malloc.call(len, "")
    assert kept == [(1, "of 1"), (2, "of 2")]


def test_a_callback_that_raises_is_unsubscribed(malloc: ApiPoint, capfd: pytest.CaptureFixture[str]) -> None:
    def bad(*_: Any) -> None:
        raise ValueError("oh")

    made = topspti.subscribe(bad)
    made.enable_all_domains()
    assert malloc.call(len, "abc") == 3
    assert capfd.readouterr().err.count("oh") == 1
    assert not made.subscribed
    with pytest.raises(topspti.PtiError, match="raised"):
        made.enable_all_domains()


def test_the_vendors_spelling_does_the_same(malloc: ApiPoint) -> None:
    seen: list[Any] = []

    def callback(userdata: Any, domain: int, cbid: int, data: topspti.CallbackData) -> None:
        data.correlationData = 5
        seen.append((userdata, domain, cbid, data.callbackSite, data.functionName, data.functionReturnValue))

    handle = v.topsptiSubscribe(callback, "mine")
    wanted = topspti.cbids.TOPSPTI_RUNTIME_TRACE_CBID_topsMalloc
    v.topsptiEnableCallback(True, handle, Domain.RUNTIME_API, wanted)
    malloc.call(len, "")
    v.topsptiUnsubscribe(handle)
    malloc.call(len, "")
    assert seen == [("mine", 2, wanted, 0, "topsMalloc", None), ("mine", 2, wanted, 1, "topsMalloc", 0)]
    assert v.topsptiGetCallbackName(Domain.RUNTIME_API, wanted) == "topsMalloc"
    assert v.topsptiGetTimestamp() <= topspti.get_timestamp()
    assert "topsptiActivityEnable" in v.__all__


def test_ids_have_the_vendors_names() -> None:
    names = [name for name in dir(topspti.cbids) if name.startswith("TOPSPTI_RUNTIME_TRACE_CBID_")]
    assert "TOPSPTI_RUNTIME_TRACE_CBID_topsLaunchKernel" in names
    with pytest.raises(AttributeError):
        topspti.cbids.TOPSPTI_RUNTIME_TRACE_CBID_nothing  # noqa: B018
