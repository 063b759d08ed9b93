"""What topspti is called with by mistake: one line that says so; and buffers of all kinds."""

from __future__ import annotations

import array
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import topspti
from topspti import ActivityKind, Domain, ExternalKind
from topspti.metrics import metric_values
from topspti.sampling import pc_samples

import tops_kit as tops
from tops_kit.runtime import activity as acts

from .activities import kernel
from .conftest import Tool

WRONG: list[Any] = [
    5.5, "f32", "\ud800\n", b"", [], {}, np.ones((4, 4)), np.ones(0), math.inf, object(), -(2**70), tops.f32,
]  # fmt: skip

CALLS: dict[str, Callable[[Any], Any]] = {
    "unsubscribe": topspti.unsubscribe,
    "enable_domain": lambda v: topspti.enable_domain(True, v, Domain.RUNTIME_API),
    "enable_callback": lambda v: topspti.enable_callback(True, v, Domain.RUNTIME_API, 1),
    "enable_all_domains": lambda v: topspti.enable_all_domains(True, v),
    "subscribe": topspti.subscribe,
    "get_callback_name": lambda v: topspti.get_callback_name(Domain.RUNTIME_API, v),
    "get_callback_name, domain": lambda v: topspti.get_callback_name(v, 1),
    "cbid": topspti.cbid,
    "register request": lambda v: topspti.activity_register_callbacks(v, print),
    "register complete": lambda v: topspti.activity_register_callbacks(bytearray, v),
    "enable": lambda v: topspti.activity_enable(ActivityKind.KERNEL, v),
    "disable": lambda v: topspti.activity_disable(ActivityKind.KERNEL, v),
    "flush_all": lambda v: topspti.activity_flush_all(True, v),
    "flush_period": lambda v: topspti.activity_flush_period(5, v),
    "unregister": topspti.activity_unregister,
    "set_kernel_filter": lambda v: topspti.activity_set_kernel_filter(None, v),
    "num_dropped": topspti.activity_get_num_dropped_records,
    "push, id": lambda v: topspti.activity_push_external_correlation_id(ExternalKind.FRAMEWORK, v),
    "push, kind": lambda v: topspti.activity_push_external_correlation_id(v, 1),
    "pop": topspti.activity_pop_external_correlation_id,
    "pc_samples": lambda v: pc_samples(v, 5),
    "metric_values": metric_values,
    "records, valid_bytes": lambda v: list(topspti.records(bytearray(8), v)),
    "known kind": lambda v: topspti.ActivityClient(bytearray, print).enable(v),
    "metrics": lambda v: topspti.ActivityClient(bytearray, print).choose_metrics([v]),
    "sample_every": lambda v: topspti.ActivityClient(bytearray, print).sample_every(v),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_values_are_refused_in_one_line(name: str) -> None:
    for value in WRONG:
        if name == "records, valid_bytes" and isinstance(value, int):
            continue  # none is valid
        if callable(value) and name in {"subscribe", "register request", "register complete"}:
            continue
        with pytest.raises(topspti.PtiError) as caught:
            CALLS[name](value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "made",
    [
        lambda: np.zeros(1000, "f8"),
        lambda: array.array("d", [0.0] * 1000),
        lambda: np.zeros((80, 100), "u1"),
        lambda: memoryview(np.zeros((10, 10, 10), ">f8")),
        lambda: np.zeros(1000, "i4,f4"),
    ],
)
def test_buffers_of_any_type_and_shape(made: Callable[[], Any], tool: Tool) -> None:
    tool.request = made  # type: ignore[method-assign]
    tool.client._buffers._request = made
    tool.client.enable(ActivityKind.KERNEL)
    for k in range(200):
        tool.hooks.emit(acts.KERNEL, kernel(grid_id=k + 1))
    tool.client.flush_all()
    numbers = []
    for buffer, valid_bytes, dropped in tool.handed:
        assert not dropped
        numbers += [record.grid_id for record in topspti.records(buffer, valid_bytes)]  # type: ignore[attr-defined]
    assert numbers == list(range(1, 201))


def test_no_buffer_is_told_once(capfd: pytest.CaptureFixture[str], tool: Tool) -> None:
    for wrong in (np.zeros(100, object), 5):
        tool = Tool()
        tool.client._buffers._request = lambda wrong=wrong: wrong
        tool.client.enable(ActivityKind.KERNEL)
        for k in range(50):
            tool.hooks.emit(acts.KERNEL, kernel(grid_id=k + 1))
        assert capfd.readouterr().err.count("no writable contiguous bytes") == 1
        assert tool.client.num_dropped_records() == 50


@tops.kernel
def inc(x: tops.ptr(tops.f32)) -> None:  # type: ignore[valid-type]
    tops.store(x[0:32], tops.load(x[0:32]) + 1.0)


@pytest.mark.parametrize("flush", [False, True])
def test_what_a_tool_does_with_its_buffers_is_not_its_record(flush: bool) -> None:
    x = tops.zeros(64)
    seen: list[Any] = []

    def complete(buffer: Any, valid_bytes: int, _: int) -> None:
        seen.extend(topspti.records(buffer, valid_bytes))
        inc[1](x)
        tops.synchronize()
        if flush:
            topspti.activity_flush_all(client=client)

    client = topspti.activity_register_callbacks(lambda: bytearray(300), complete)
    topspti.activity_enable(ActivityKind.KERNEL, client)
    try:
        for _ in range(20):
            inc[1](x)
        tops.synchronize()
        topspti.activity_flush_all(client=client)
    finally:
        topspti.activity_unregister(client)
    assert len(seen) == 20
    assert len({record.grid_id for record in seen}) == 20
