"""Clients: kinds, filters, periods, counters; several at once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import topspti
from topspti import ActivityKind
from topspti.kinds import HOOK_KINDS

from tests.pti.activities import kernel, samples
from tests.pti.conftest import Tool
from tops_kit.runtime import activity as acts
from tops_kit.runtime.hooks import HOOKS, Hooks


def emit_all(hooks: Hooks) -> None:
    for bit, activity in samples():
        if hooks.kinds & bit:
            hooks.emit(bit, activity)


def test_only_enabled_kinds_are_recorded(tool: Tool) -> None:
    emit_all(tool.hooks)
    tool.client.enable(ActivityKind.MEMCPY)
    tool.client.enable(ActivityKind.DRIVER)
    emit_all(tool.hooks)
    tool.client.disable(ActivityKind.MEMCPY)
    emit_all(tool.hooks)
    tool.client.close()
    emit_all(tool.hooks)
    assert [each.kind.name for each in tool.records] == ["MEMCPY", "DRIVER", "DRIVER"]
    assert tool.hooks.kinds == 0


def test_every_kind_reaches_its_tool(tool: Tool) -> None:
    for kind in HOOK_KINDS:
        tool.client.enable(kind)
    emit_all(tool.hooks)
    tool.client.flush_all()
    counters = {ActivityKind.KERNEL_METRIC, ActivityKind.KERNEL_LINE, ActivityKind.PC_SAMPLING}
    assert {each.kind for each in tool.records} == set(HOOK_KINDS) - counters
    assert next(r for r in tool.records if r.kind == ActivityKind.DRIVER).name == "queueSubmit"  # type: ignore[attr-defined]


def test_several_tools_have_their_own_kinds_and_buffers() -> None:
    hooks = Hooks()
    tools = [Tool(hooks=hooks) for _ in range(3)]
    tools[0].client.enable(ActivityKind.KERNEL)
    tools[1].client.enable(ActivityKind.KERNEL)
    tools[1].client.enable(ActivityKind.MEMORY)
    emit_all(hooks)
    tools[0].client.close()
    emit_all(hooks)
    for tool in tools:
        tool.client.close()
    names = [[each.kind.name for each in tool.records] for tool in tools]
    assert names == [["KERNEL"], ["KERNEL", "MEMORY", "KERNEL", "MEMORY"], []]


def test_a_filter_chooses_kernels(tool: Tool) -> None:
    tool.client.enable(ActivityKind.KERNEL)
    tool.client.enable(ActivityKind.MEMSET)
    tool.client.filter_kernels(lambda name: bool(re.search("soft", name)))
    for name in ("softmax", "gemm"):
        tool.hooks.emit(acts.KERNEL, kernel(name=name, full_name=name))
    emit_all(tool.hooks)
    tool.client.flush_all()
    assert [getattr(each, "name", "") for each in tool.records] == ["softmax", "softmax", ""]


def test_a_period_hands_over_before_a_buffer_is_full(tool: Tool) -> None:
    tool.client.enable(ActivityKind.KERNEL)
    tool.hooks.emit(acts.KERNEL, kernel())
    assert not tool.handed
    tool.client.flush_period(1e-6)
    tool.hooks.emit(acts.KERNEL, kernel())
    assert len(tool.records) == 2
    tool.client.flush_period(None)
    tool.hooks.emit(acts.KERNEL, kernel())
    assert len(tool.records) == 2


def test_flushing_asks_devices_what_has_finished(tool: Tool) -> None:
    tool.client.enable(ActivityKind.KERNEL)
    tool.hooks.poll = lambda: tool.hooks.emit(acts.KERNEL, kernel())
    tool.client.flush_all()
    assert len(tool.records) == 1


def test_what_cannot_be_done_is_one_line(tool: Tool) -> None:
    for refused in (
        lambda: tool.client.enable(99),
        lambda: tool.client.enable(ActivityKind.INVALID),
        lambda: tool.client.choose_metrics(["SIP/NONE"]),
        lambda: tool.client.sample_every(0),
        lambda: topspti.activity_push_external_correlation_id(1, -1),
        lambda: topspti.activity_pop_external_correlation_id(1),
        lambda: topspti.activity_enable(ActivityKind.KERNEL),
        lambda: topspti.get_callback_name(2, 9999),
        lambda: topspti.get_callback_name(7, 1),
        lambda: topspti.cbid("topsNothing"),
    ):
        with pytest.raises(topspti.PtiError) as error:
            refused()
        assert "\n" not in str(error.value)
    tool.client.close()
    with pytest.raises(topspti.PtiError, match="closed"):
        tool.client.enable(ActivityKind.KERNEL)


def test_functions_mean_the_only_client_or_a_named_one() -> None:
    seen: list[int] = []
    first = topspti.activity_register_callbacks(
        lambda: bytearray(4096), lambda _, valid, __: seen.append(valid)
    )
    try:
        topspti.activity_enable(ActivityKind.KERNEL)
        with topspti.Trace(ActivityKind.MEMSET) as trace:
            with pytest.raises(topspti.PtiError, match="2 clients"):
                topspti.activity_enable(ActivityKind.MEMCPY)
            topspti.activity_disable(ActivityKind.KERNEL, client=first)
            assert first.kinds == frozenset() and trace.client.kinds == {ActivityKind.MEMSET}
            for bit, activity in samples():
                HOOKS.emit(bit, activity)
        assert [each.kind.name for each in trace] == ["MEMSET"]
        topspti.activity_enable(ActivityKind.KERNEL)
        HOOKS.emit(acts.KERNEL, kernel())
        topspti.activity_flush_all()
        assert seen == [121]
        assert topspti.activity_get_num_dropped_records() == 0
    finally:
        topspti.activity_unregister(first)
    assert HOOKS.kinds == 0


def test_records_are_walked_one_by_one(tool: Tool) -> None:
    tool.client.enable(ActivityKind.KERNEL)
    for k in range(3):
        tool.hooks.emit(acts.KERNEL, kernel(grid_id=k))
    tool.client.flush_all()
    buffer, valid, _ = tool.handed[0]
    record: Any = None
    walked = []
    while (record := topspti.activity_get_next_record(buffer, valid, record)) is not None:
        walked.append(record.grid_id)
    assert walked == [0, 1, 2]


@pytest.fixture(scope="module")
def launch() -> Any:
    import tops_kit as tops

    @tops.kernel
    def scale(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
        for i in range(tops.thread_id() * 1024, n, tops.num_threads() * 1024):
            j = min(i + 1024, n)
            tops.store(y[i:j], tops.load(x[i:j]) * 2.0)

    x = np.ones(100_000, np.float32)
    return scale[24](x, np.zeros_like(x), len(x))


def test_counters_are_those_of_the_launch(tool: Tool, launch: Any) -> None:
    kinds = (ActivityKind.KERNEL_METRIC, ActivityKind.KERNEL_LINE, ActivityKind.PC_SAMPLING)
    for kind in kinds:
        tool.client.enable(kind)
    tool.client.sample_every(64)
    tool.hooks.emit(acts.KERNEL, kernel(launch=launch, grid_id=9))
    tool.client.flush_all()
    report = launch.report
    found = tool.records
    assert {each.kind for each in found} == set(kinds)
    metrics = {r.metric: r.value for r in found if isinstance(r, topspti.KernelMetricRecord)}
    assert set(metrics) == set(topspti.METRICS)
    assert metrics["cycles"] == report.cycles and metrics["duration_ns"] == launch.ns
    assert metrics["flops"] == 100_000
    assert metrics["l3_read_bytes"] == metrics["l3_write_bytes"] == 400_000
    for name, metric in topspti.METRICS.items():
        assert metric.unit != "ratio" or 0 <= metrics[name] <= 1, name
    lines = [r for r in found if isinstance(r, topspti.KernelLineRecord)]
    assert sum(r.scalar_cycles + r.stall_cycles for r in lines) == sum(line.cycles for line in report.lines)
    assert sum(r.bytes for r in lines) == 800_000
    assert {r.grid_id for r in lines} == {9}
    samples_taken = [r for r in found if isinstance(r, topspti.PcSamplingRecord)]
    running = sum(1 for sip in report.sips() if sip["threads"])
    assert sum(r.samples for r in samples_taken) == running * report.cycles // 64
    assert {r.line for r in samples_taken} - {0} <= {r.line for r in lines}


def test_a_launch_without_times_has_no_counters(tool: Tool) -> None:
    tool.client.enable(ActivityKind.KERNEL_METRIC)
    tool.client.choose_metrics(["cycles"])
    tool.hooks.emit(acts.KERNEL, kernel())
    tool.client.flush_all()
    assert tool.records == []
