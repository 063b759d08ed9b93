"""Streams and events: order, what is asynchronous, the default stream, host functions, limits, races."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tops_kit.runtime import activity as acts
from tops_kit.runtime.hooks import HOOKS

from .programs import add, floats, scale, spin


@contextlib.contextmanager
def told(kinds: int = acts.ALL) -> Iterator[list[Any]]:
    """The activities of what runs meanwhile, all of it done at the end."""
    out: list[Any] = []
    sink = HOOKS.add_sink(lambda _, what: out.append(what), kinds)
    try:
        yield out
        tops.synchronize()
    finally:
        sink.close()


@pytest.fixture(autouse=True)
def _modelled(needs_c: None, model_clock: None) -> None:
    """Durations come from the C engine, and the host's from the model, however busy this machine is."""


def test_launches_are_asynchronous_and_in_order() -> None:
    x, y = tops.array(floats(1000)), tops.empty(1000)
    with told(acts.KERNEL) as kernels:
        with tops.Stream() as stream:
            for k in range(5):
                launch = scale[24](x if k == 0 else y, y, 2.0)
        assert launch.wait() is launch
        assert stream.query()
    assert np.allclose(y.numpy(), floats(1000) * 32)
    assert len(kernels) == 5
    for before, after in itertools.pairwise(kernels):
        assert after.start_ns >= before.end_ns
        assert after.submit_ns <= after.start_ns
    first = kernels[0]
    assert (first.name, first.grid, first.block, first.stream_id) == ("scale", (2,), (12,), stream.id)
    assert first.full_name == "scale(x: f32[1], y: f32[1], f: f32)"
    assert first.end_ns - first.start_ns == first.contention_ns + first.launch.report.ns
    assert first.queued_ns <= first.submit_ns


def test_a_waiting_host_jumps_over_the_device() -> None:
    x = tops.zeros(64)
    spin[1](x, 1)
    tops.synchronize()
    launch = spin[1](x, 100_000)
    begin = tops.now_ns()
    tops.synchronize()
    assert tops.now_ns() - begin >= 0.9 * launch.ns - 1e6


def test_small_kernels_of_two_streams_overlap() -> None:
    one, other = tops.Stream(), tops.Stream()
    x, y = tops.zeros(64), tops.zeros(64)
    spin[1](x, 1)
    with told(acts.KERNEL) as kernels:
        with one:
            spin[1](x, 100_000)
        with other:
            spin[1](y, 100_000)
    first, second = kernels
    assert second.start_ns < first.end_ns
    assert {first.stream_id, second.stream_id} == {one.id, other.id}


def test_events_order_streams_and_time_them() -> None:
    one, other = tops.Stream(), tops.Stream()
    x = tops.zeros(64)
    begin, end = tops.Event(), tops.Event()
    with told(acts.KERNEL) as kernels:
        begin.record(one)
        spin.options(stream=one)[1](x, 50_000)
        end.record(one)
        other.wait_event(end)
        spin.options(stream=other)[1](x, 10)
    assert kernels[1].start_ns >= kernels[0].end_ns
    assert end.query()
    assert begin.elapsed_ms(end) >= kernels[0].launch.report.ns / 1e6 - 1e-9
    again = other.record()
    again.synchronize()
    assert tops.elapsed_ms(end, again) >= 0


def test_the_default_stream_waits_for_others_and_they_for_it() -> None:
    plain, apart = tops.Stream(), tops.Stream(non_blocking=True)
    x, y, z = tops.zeros(64), tops.zeros(64), tops.zeros(64)
    spin[1](x, 1)
    with told(acts.KERNEL) as kernels:
        spin.options(stream=plain)[1](x, 50_000)
        spin[1](y, 50_000)
        spin.options(stream=apart)[1](z, 50_000)
        spin.options(stream=plain)[1](x, 50_000)
    by_submit = sorted(kernels, key=lambda kernel: kernel.grid_id)
    first, default, free, last = by_submit
    assert default.start_ns >= first.end_ns
    assert free.start_ns < default.end_ns
    assert last.start_ns >= default.end_ns


def test_a_stream_of_priority_goes_first() -> None:
    urgent, patient = tops.Stream(priority=-2), tops.Stream(priority=5)
    assert (urgent.priority, patient.priority) == (-2, 0)
    arrays = [tops.zeros(64) for _ in range(3)]
    spin[24](arrays[0], 1)
    with told(acts.KERNEL) as kernels:
        other = tops.Stream()
        spin.options(stream=other)[24](arrays[0], 50_000)
        spin.options(stream=patient)[24](arrays[1], 50_000)
        spin.options(stream=urgent)[24](arrays[2], 10)
    assert [kernel.stream_id for kernel in kernels] == [other.id, urgent.id, patient.id]


def test_host_functions_run_in_their_place_and_hold_what_follows() -> None:
    x, y, z = tops.array(floats(100)), tops.zeros(100), tops.zeros(100)
    seen: list[Any] = []
    stream = tops.Stream()
    with stream:
        spin[1](tops.zeros(64), 200_000)
        scale[2](x, y)
        tops.launch_host_func(seen.append, "first")
        later = add[2](x, y, z)
        stream.add_callback(seen.append, "second")
        copied = tops.host_malloc(100, np.float32)
        tops.memcpy_async(copied, z)
    assert not seen
    assert repr(later).endswith("waits>")
    assert not copied.any()
    stream.synchronize()
    assert seen == ["first", "second"]
    assert np.allclose(copied, floats(100) * 3)
    assert later.cycles > 0
    tops.host_free(copied)


def test_a_host_function_takes_the_devices_time() -> None:
    x = tops.zeros(64)
    with told(acts.KERNEL | acts.HOST_FUNCTION) as done, tops.Stream():
        tops.launch_host_func(tops.host_work, 5_000_000)
        spin[1](x, 10)
    host, kernel = done
    assert host.end_ns - host.start_ns >= 5_000_000
    assert kernel.start_ns >= host.end_ns


def test_what_a_host_function_raises_comes_out_of_the_next_wait() -> None:
    def wrong() -> None:
        raise KeyError("mine")

    stream = tops.Stream()
    tops.launch_host_func(wrong, stream=stream)
    with pytest.raises(KeyError, match="mine"):
        stream.synchronize()
    stream.synchronize()

    tops.launch_host_func(tops.synchronize, stream=stream)
    with pytest.raises(tops.TopsError, match=r"topsErrorNotPermitted \(800\): a host function can't"):
        stream.synchronize()
    with pytest.raises(tops.TopsError, match="a host function is called, int can't be"):
        tops.launch_host_func(3)  # type: ignore[arg-type]


def test_dead_streams_and_events() -> None:
    stream, event = tops.Stream(), tops.Event()
    event.record(stream)
    stream.destroy()
    event.synchronize()
    x = tops.zeros(64)
    for use in (
        lambda: spin.options(stream=stream)[1](x, 1), stream.synchronize, stream.destroy, stream.__enter__,
        lambda: tops.memset_async(x, 0, stream=stream), lambda: event.record(stream),
    ):  # fmt: skip
        with pytest.raises(
            tops.TopsError, match=r"^topsErrorInvalidHandle \(400\): stream \d+ was destroyed$"
        ):
            use()
    event.destroy()
    with pytest.raises(tops.TopsError, match=r"topsErrorInvalidHandle \(400\): event \d+ was destroyed"):
        event.synchronize()
    with pytest.raises(tops.TopsError, match="default stream can't be destroyed"):
        tops.default_stream().destroy()
    with pytest.raises(tops.TopsError, match=r"a stream is a tops\.Stream, not int"):
        tops.memset_async(x, 0, stream=3)  # type: ignore[arg-type]
    with pytest.raises(tops.LaunchError, match=r"stream is a tops\.Stream, not int"):
        spin.options(stream=3)


def test_events_that_can_not_be_timed() -> None:
    plain, timed = tops.Event(timing=False), tops.Event()
    with pytest.raises(tops.TopsError, match=r"topsErrorInvalidHandle \(400\): event \d+ was never recorded"):
        tops.elapsed_ms(timed, timed)
    plain.record()
    with pytest.raises(tops.TopsError, match="created without timing"):
        tops.elapsed_ms(plain, plain)
    x = tops.zeros(64)
    spin[1](x, 2_000_000)
    timed.record()
    with pytest.raises(tops.TopsError, match=r"topsErrorNotReady \(600\): event \d+ is not reached yet"):
        tops.elapsed_ms(timed, timed)
    tops.synchronize()
    assert tops.elapsed_ms(timed, timed) == 0


def test_a_stream_with_clusters_of_its_own() -> None:
    stream, other = tops.Stream(), tops.Stream()
    x, y = tops.zeros(64), tops.zeros(64)
    stream.set_launch_limit(1, 6)
    with pytest.raises(
        tops.LaunchError, match=r"a cluster of s60 has 6 SIPs, as launch limits leave them .*2 x 12"
    ):
        spin.options(stream=stream)[1, 12](x, 1)
    with told(acts.KERNEL) as kernels:
        spin.options(stream=stream)[4, 6](x, 50_000)
        spin.options(stream=other)[2, 12](y, 50_000)
    own, rest = sorted(kernels, key=lambda kernel: kernel.grid_id)
    assert own.clusters == 1
    assert rest.start_ns < own.end_ns
    stream.set_launch_limit(0, 0)
    spin.options(stream=stream)[1, 12](x, 1)
    for limits in ((3, 0), (0, 13), (-1, 1), (1.0, 1)):
        with pytest.raises(tops.TopsError, match="topsErrorInvalidValue"):
            stream.set_launch_limit(*limits)  # type: ignore[arg-type]


def test_cooperative_launches_need_all_blocks_at_once() -> None:
    x = tops.zeros(64)
    together = spin.options(cooperative=True)
    together[2, 12](x, 1)
    with pytest.raises(tops.LaunchError, match="holds 2 at once") as caught:
        together[3, 12](x, 1)
    assert caught.value.code == 720


def test_streams_that_race_are_told_with_both_stacks() -> None:
    one, other = tops.Stream(), tops.Stream()
    x, y, z = (tops.zeros(128) for _ in range(3))
    with told(acts.STREAM_RACE) as races:
        scale.options(stream=one)[2](x, y)
        scale.options(stream=other)[2](y, z)
    (race,) = races
    assert (race.first, race.second, race.size_bytes) == ("kernel scale", "kernel scale", 512)
    assert "test_streams.py" in race.first_stack
    assert "test_streams.py" in race.second_stack
    with told(acts.STREAM_RACE) as races:
        scale.options(stream=one)[2](x, y)
        other.wait_event(one.record())
        scale.options(stream=other)[2](y, z)
        one.synchronize()
        other.synchronize()
        scale.options(stream=one)[2](x[:64], y[:64])
        scale.options(stream=other)[2](x[64:], y[64:])
        tops.synchronize()
        scale[2](x, y)
        scale.options(stream=other)[2](y, z)
    assert not races


def test_views_race_where_their_bytes_meet() -> None:
    one, other = tops.Stream(), tops.Stream()
    x = tops.zeros((4096, 64))
    flat = x.reshape(-1)
    half = 2048 * 64
    with told(acts.STREAM_RACE) as races:
        spin.options(stream=one)[1](flat[:half], 1)
        spin.options(stream=other)[1](flat[half:], 1)
        tops.synchronize()
        x[:, :32].fill(1.0, one)  # columns: their rows lie between each other
        x[:, 32:].fill(2.0, other)
        tops.synchronize()
        x[::2].fill(1.0, one)
        x[1::2].fill(1.0, other)
        tops.synchronize()
        tops.memcpy_async(x, tops.zeros(32), 128, one)  # only so many bytes of it
        spin.options(stream=other)[1](flat[64:], 1)
        tops.synchronize()
    assert not races
    with told(acts.STREAM_RACE) as races:
        spin.options(stream=one)[1](flat[: half + 16], 1)
        spin.options(stream=other)[1](flat[half:], 1)
        tops.synchronize()
        x[:, :33].fill(1.0, one)
        x[:, 32:].fill(2.0, other)
        tops.synchronize()
    assert [(race.size_bytes, race.address - flat[half:].address) for race in races[:1]] == [(64, 0)]
    assert [race.size_bytes for race in races[1:]] == [4]


def test_what_is_not_checked_for_races_is_told() -> None:
    one, other = tops.Stream(), tops.Stream()
    x = tops.zeros((1024, 512, 4))
    with told(acts.STREAM_RACE) as races:
        x[::2, ::2, :1].fill(1.0, one)
        x[::2, 1::3, 1:].fill(1.0, other)
        tops.synchronize()
    (race,) = races
    assert "not checked" in race.second
    assert "test_streams.py" in race.second_stack


def test_threads_have_streams_and_devices_of_their_own() -> None:
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        x, y = tops.array(floats(500, seed=number)), tops.empty(500)
        with tops.Stream():
            for _ in range(20):
                scale[12](x, y, float(number))
            results[number] = y.numpy()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert np.allclose(results[number], floats(500, seed=number) * number)
    assert tops.current_stream() is tops.default_stream()


def test_an_event_never_recorded_holds_up_nobody() -> None:
    stream, event = tops.Stream(), tops.Event()
    x, y = tops.array(floats(64)), tops.empty(64)
    stream.wait_event(event)
    scale.options(stream=stream)[1](x, y, 1.0)
    assert np.array_equal(y.numpy(), x.numpy())
    event.synchronize()
    assert event.query()


def test_a_host_that_is_far_ahead_waits_whatever_it_queues(model_clock: None) -> None:
    pinned = tops.host_malloc(1 << 18, np.float32)
    x, stream, event = tops.zeros(1 << 18), tops.Stream(), tops.Event()
    other = tops.Stream()
    deepest = 0
    for turn in range(2500):
        tops.memcpy_async(x, pinned, stream=stream)
        if turn % 3 == 0:
            tops.memset_async(x, 0, stream=stream)
        if turn % 5 == 0:
            event.record(stream)
            other.wait_event(event)
        if turn % 7 == 0:
            tops.launch_host_func(int, stream=stream)
        deepest = max(deepest, stream.queue.depth, other.queue.depth)
    assert deepest == 1024
    tops.synchronize()
    assert stream.queue.depth == other.queue.depth == 0


def test_a_host_function_may_wait_for_a_thread_that_calls_the_runtime() -> None:
    stream, x, y = tops.Stream(), tops.zeros(64), tops.zeros(64)
    go, done = threading.Event(), threading.Event()

    def other() -> None:
        go.wait(60)
        with tops.Stream(non_blocking=True) as own:
            spin[1](y, 10)
            own.synchronize()
        done.set()

    def wait() -> None:
        go.set()
        assert done.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    spin.options(stream=stream)[1](x, 1_000)
    tops.launch_host_func(wait, stream=stream)
    spin.options(stream=stream)[1](x, 1_000)
    made = tops.Graph()
    made.add_host(go.is_set)
    made.instantiate().launch(stream)
    stream.synchronize()
    thread.join(60)
    assert done.is_set()


@pytest.mark.parametrize("ns", [1 << 62, (1 << 63) - 1, 1 << 63, 10**30])
def test_host_work_that_session_time_has_no_room_for(ns: int) -> None:
    with pytest.raises(tops.TopsError, match="session time ends") as caught:
        tops.host_work(ns)
    assert caught.value.code == tops.Code.topsErrorInvalidValue
    x = tops.zeros(64)
    tops.synchronize()
    assert x.numpy()[0] == 0
