"""Buffers: nothing is lost or counted twice, whatever the tool gives and whoever emits."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
import topspti
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topspti.buffers import Buffers
from topspti.kinds import ActivityKind
from topspti.layouts import NEWEST

from tests.pti.activities import kernel
from tests.pti.conftest import Tool
from tops_kit.runtime import activity as acts

METRIC = NEWEST[ActivityKind.KERNEL_METRIC]


def numbered(buffer: Any, valid: int) -> list[int]:
    found = list(topspti.records(buffer, valid))
    return [record.grid_id for record in found if isinstance(record, topspti.KernelMetricRecord)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.lists(st.none() | st.integers(0, 120), min_size=1, max_size=12),
    count=st.integers(0, 40),
    flushes=st.sets(st.integers(0, 40)),
)
def test_each_record_is_handed_over_once_or_counted(
    sizes: list[int | None], count: int, flushes: set[int]
) -> None:
    given_sizes = iter(sizes)
    got: list[int] = []
    dropped_in_hand_overs = 0

    def request() -> bytearray | None:
        size = next(given_sizes, 100)
        return None if size is None else bytearray(size)

    def complete(buffer: Any, valid: int, dropped: int) -> None:
        nonlocal dropped_in_hand_overs
        got.extend(numbered(buffer, valid))
        dropped_in_hand_overs += dropped

    buffers = Buffers(request, complete)
    for k in range(count):
        buffers.add(METRIC, (k, 0, 0.0))
        if k in flushes:
            buffers.flush(False)
    lost = buffers.num_dropped()
    buffers.flush(True)
    assert got == sorted(set(got))  # in order, once
    assert len(got) + lost == count
    assert buffers.num_dropped() == 0  # since it was asked
    assert dropped_in_hand_overs <= lost


def test_a_hand_over_says_what_was_lost_since_the_last_one() -> None:
    memory = iter([bytearray(50), None, None, bytearray(50), bytearray(50)])
    handed: list[tuple[list[int], int]] = []
    buffers = Buffers(lambda: next(memory), lambda b, valid, lost: handed.append((numbered(b, valid), lost)))
    for k in range(7):
        buffers.add(METRIC, (k, 0, 0.0))
    buffers.flush(False)
    assert handed == [([0, 1], 0), ([4, 5], 2), ([6], 0)]
    assert buffers.num_dropped() == 2


def test_threads_lose_nothing() -> None:
    got: list[int] = []
    lock = threading.Lock()

    def complete(buffer: Any, valid: int, dropped: int) -> None:
        with lock:
            got.extend(numbered(buffer, valid))

    buffers = Buffers(lambda: bytearray(100), complete)

    def work(first: int) -> None:
        for k in range(first, first + 500):
            buffers.add(METRIC, (k, 0, 0.0))

    threads = [threading.Thread(target=work, args=(500 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffers.flush(True)
    assert sorted(got) == list(range(2000))
    assert buffers.num_dropped() == 0


@pytest.mark.parametrize("made", [b"readonly", 7, memoryview(bytearray(90))[::2]])
def test_what_is_no_buffer_is_told_and_counted(made: Any, capfd: pytest.CaptureFixture[str]) -> None:
    buffers = Buffers(lambda: made, lambda *_: None)
    buffers.add(METRIC, (1, 0, 0.0))
    assert buffers.num_dropped() == 1
    assert "no writable contiguous bytes" in capfd.readouterr().err


@pytest.mark.parametrize("which", ["request", "complete"])
def test_a_failing_callback_is_told_once(which: str, capfd: pytest.CaptureFixture[str]) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("tool's fault")

    request = fail if which == "request" else lambda: bytearray(50)
    buffers = Buffers(request, fail)
    for k in range(6):
        buffers.add(METRIC, (k, 0, 0.0))
    assert capfd.readouterr().err.count("tool's fault") == 1
    assert buffers.num_dropped() == (6 if which == "request" else 4)


def test_records_of_the_tool_itself_wait(tool: Tool) -> None:
    tool.size_bytes = 300
    tool.client.enable(topspti.ActivityKind.KERNEL)
    emitted = 0

    def emit_in_request() -> Any:
        nonlocal emitted
        while emitted < 5:
            emitted += 1
            tool.hooks.emit(acts.KERNEL, kernel(grid_id=emitted))
        return bytearray(300)

    tool.client._buffers._request = emit_in_request
    emitted += 1
    tool.hooks.emit(acts.KERNEL, kernel(grid_id=emitted))
    # five records, 625 bytes: four of them came while the first buffer was asked for
    tool.client._buffers._request = tool.request
    tool.client.flush_all()
    numbers = sorted(r.grid_id for r in tool.records if isinstance(r, topspti.KernelRecord))
    assert numbers == list(range(1, emitted + 1))
    assert tool.client.num_dropped_records() == 0


def test_forced_gives_back_an_empty_buffer(tool: Tool) -> None:
    tool.size_bytes = 200
    tool.client.enable(topspti.ActivityKind.KERNEL)
    tool.hooks.emit(acts.KERNEL, kernel())
    tool.hooks.emit(acts.KERNEL, kernel())
    tool.client.flush_all()
    assert [valid for _, valid, _ in tool.handed] == [121, 121]
    tool.size_bytes = 100  # too small for a record
    tool.hooks.emit(acts.KERNEL, kernel())
    tool.client.flush_all()
    assert len(tool.handed) == 2
    tool.client.flush_all(forced=True)
    assert [entry[1:] for entry in tool.handed[2:]] == [(0, 1)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_forked_child_hands_over_its_own_records_only() -> None:
    handed: list[list[int]] = []
    buffers = Buffers(lambda: bytearray(200), lambda b, valid, _: handed.append(numbered(b, valid)))
    buffers.add(METRIC, (1, 0, 0.0))
    child = os.fork()
    if child == 0:
        try:
            buffers.add(METRIC, (2, 0, 0.0))
            buffers.flush(True)
            os._exit(0 if handed == [[2]] else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    buffers.add(METRIC, (3, 0, 0.0))
    buffers.flush(True)
    assert handed == [[1, 3]]
