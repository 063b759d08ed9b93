"""Tools whose callbacks wait for another thread that calls the runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tests.runtime.programs import scale
from tops_kit.engine.launch import ENGINES
from tops_kit.runtime import activity as acts
from tops_kit.runtime.api_table import DRIVER_API, DRIVER_IDS
from tops_kit.runtime.hooks import HOOKS

Run = Callable[[Callable[[], object]], None]


@pytest.fixture(autouse=True)
def needs_c() -> None:
    if ENGINES.c() is None:
        pytest.skip(f"needs the C engine: {ENGINES.why_not}")


@pytest.fixture
def elsewhere() -> Iterator[tuple[Run, list[bool]]]:
    """Calls something in another thread and waits for it; whether it came back each time."""
    came_back: list[bool] = []

    def run(function: Callable[[], object]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # the other thread's own calls
        thread = threading.Thread(target=function, daemon=True)
        thread.start()
        thread.join(10)  # of no length when all is well
        came_back.append(not thread.is_alive())

    yield run, came_back


def test_callbacks_of_the_driver_hold_no_lock(elsewhere: tuple[Run, list[bool]]) -> None:
    run, came_back = elsewhere
    x, y = tops.array(np.arange(256, dtype="f4")), tops.zeros(256)
    z = tops.zeros(256)
    stream = tops.Stream()

    def work() -> None:
        with stream:
            scale[4](x, z, 3.0)
        stream.synchronize()

    def enter(call: Any) -> None:
        HOOKS.untraced(run, work)

    subscription = HOOKS.subscribe(enter, lambda call, _: run(work))
    try:
        subscription.enable(DRIVER_IDS["queueSubmit"], DRIVER_API)
        scale[4](x, y)
        tops.memset(z, 0)
        tops.launch_host_func(came_back.append, True)
        subscription.close()
        tops.synchronize()
    finally:
        subscription.close()
    assert len(came_back) == 7
    assert all(came_back)
    assert y.numpy()[:3].tolist() == [0.0, 2.0, 4.0]


def test_takers_of_records_hold_no_lock(elsewhere: tuple[Run, list[bool]]) -> None:
    run, came_back = elsewhere
    x, y = tops.array(np.arange(256, dtype="f4")), tops.zeros(256)
    sink = None

    def take(_: int, activity: acts.Activity) -> None:
        if not came_back:
            HOOKS.untraced(run, tops.synchronize)

    try:
        sink = HOOKS.add_sink(take, acts.KERNEL)
        scale[4](x, y)
        scale[4](x, y)
        tops.synchronize()
    finally:
        if sink is not None:
            sink.close()
    assert came_back == [True]
