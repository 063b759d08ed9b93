"""Hooks: what callbacks and sinks see of calls, and that they never steer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tops_kit.runtime import activity as acts
from tops_kit.runtime.activity import KIND_OF, Activity, ApiActivity, ExternalCorrelation
from tops_kit.runtime.api_point import ApiCall
from tops_kit.runtime.api_table import DRIVER_API, DRIVER_IDS, RUNTIME_IDS, api_id, api_name
from tops_kit.runtime.hooks import Hooks, api


class VendorError(Exception):
    code = 700


class Ticks:
    """A clock that counts how often it was looked at."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def hooks() -> Hooks:
    out = Hooks()
    out.now_ns = Ticks()
    return out


def malloc_of(hooks: Hooks) -> Callable[..., int]:
    @api("topsMalloc", hooks=hooks)
    def malloc(size_bytes: int, note: str = "") -> int:
        if size_bytes < 0:
            raise VendorError
        return 2 * size_bytes

    return malloc


def test_nobody_listens_nobody_is_told(hooks: Hooks) -> None:
    assert malloc_of(hooks)(4) == 8
    assert hooks.now_ns() == 1  # not even the clock was looked at


def test_a_callback_sees_parameters_and_result(hooks: Hooks) -> None:
    malloc = malloc_of(hooks)
    seen: list[Any] = []

    def enter(call: ApiCall) -> str:
        seen.append((call.name, dict(call.params), call.return_value, call.result, call.end_ns))
        return f"from enter of {call.correlation_id}"

    def leave(call: ApiCall, data: Any) -> None:
        seen.append((data, call.return_value, call.result, call.begin_ns, call.end_ns))

    subscription = hooks.subscribe(enter, leave)
    malloc(1)
    assert seen == []  # nothing is enabled at first
    subscription.enable(api_id("topsMalloc"))
    malloc(3, note="weights")
    assert seen[0] == ("topsMalloc", {"size_bytes": 3, "note": "weights"}, None, None, None)
    assert seen[1][:3] == ("from enter of 1", 0, 6)
    assert seen[1][3] < seen[1][4]
    subscription.close()
    malloc(1)
    assert len(seen) == 2


def test_an_error_is_the_return_value_and_is_raised(hooks: Hooks) -> None:
    malloc = malloc_of(hooks)
    statuses: list[int | None] = []
    hooks.subscribe(None, lambda call, _: statuses.append(call.return_value)).enable_all()
    rows: list[Activity] = []
    hooks.add_sink(lambda _, activity: rows.append(activity), acts.API)
    with pytest.raises(VendorError):
        malloc(-1)
    assert statuses == [700]
    assert isinstance(rows[0], ApiActivity) and rows[0].return_value == 700
    with pytest.raises(TypeError):
        malloc("many")
    assert statuses[1] == 999


def test_a_failing_callback_is_told_once_and_steers_nothing(
    hooks: Hooks, capfd: pytest.CaptureFixture[str]
) -> None:
    malloc = malloc_of(hooks)
    exits: list[int] = []

    def bad(call: ApiCall) -> None:
        raise RuntimeError("tool's fault")

    hooks.subscribe(bad, lambda call, _: exits.append(1)).enable_all()
    others: list[int] = []
    hooks.subscribe(None, lambda call, _: others.append(1)).enable_all()
    assert [malloc(k) for k in range(3)] == [0, 2, 4]
    text = capfd.readouterr().err
    assert text.count("tool's fault") == 1 and text.count("\n") == 1 and "topsMalloc" in text
    assert exits == [] and len(others) == 3


def test_a_failing_sink_is_told_once(hooks: Hooks, capfd: pytest.CaptureFixture[str]) -> None:
    malloc = malloc_of(hooks)

    def bad(kind: int, activity: Activity) -> None:
        raise OSError("disk full")

    hooks.add_sink(bad)
    malloc(1)
    malloc(1)
    assert capfd.readouterr().err.count("disk full") == 1
    assert hooks.kinds == 0


def test_a_callback_that_calls_the_runtime_is_not_traced(hooks: Hooks) -> None:
    malloc = malloc_of(hooks)
    names: list[int] = []

    def enter(call: ApiCall) -> None:
        names.append(call.correlation_id)
        assert malloc(21) == 42

    hooks.subscribe(enter).enable_all()
    rows: list[Activity] = []
    hooks.add_sink(lambda _, activity: rows.append(activity), acts.API)
    malloc(1)
    malloc(1)
    assert names == [1, 2]
    assert [row.correlation_id for row in rows if isinstance(row, ApiActivity)] == [1, 2]


def test_calls_within_a_call_are_its_part_but_for_the_driver(hooks: Hooks) -> None:
    inner = malloc_of(hooks)
    driver = hooks.point("queueSubmit", domain=DRIVER_API)

    @api("topsLaunchKernel", cost="launch", symbol=lambda kernel: kernel, hooks=hooks)
    def launch(kernel: str) -> int:
        inner(1)
        return driver.call(lambda: hooks.thread.correlation_id)

    rows: list[tuple[int, Activity]] = []
    hooks.add_sink(lambda kind, activity: rows.append((kind, activity)))
    symbols: list[str] = []
    hooks.subscribe(lambda call: symbols.append(call.symbol_name)).enable(api_id("topsLaunchKernel"))
    assert launch("softmax") == 1
    assert symbols == ["softmax"]
    calls = [(kind, a.name, a.correlation_id) for kind, a in rows if isinstance(a, ApiActivity)]
    assert calls == [(acts.DRIVER, "queueSubmit", 1), (acts.API, "topsLaunchKernel", 1)]
    assert hooks.thread.depth == 0 and hooks.thread.correlation_id == 0


def test_costs_are_charged_whoever_listens_but_not_twice(hooks: Hooks) -> None:
    charged: list[str] = []
    inner = malloc_of(hooks)

    @api("topsLaunchKernel", cost="launch", hooks=hooks)
    def launch() -> None:
        inner(1)

    launch()
    hooks.set_clock(Ticks(), charged.append)
    launch()
    inner(1)
    hooks.subscribe(lambda call: inner(5)).enable_all()
    launch()
    assert charged == ["launch", "api", "launch"]


def test_a_paused_recorder_costs_its_question_only(hooks: Hooks) -> None:
    malloc = malloc_of(hooks)
    rows: list[Activity] = []
    recording = False
    sink = hooks.add_sink(lambda _, a: rows.append(a), acts.ALL, lambda: recording)
    malloc(1)
    assert rows == [] and not hooks.wants(acts.API) and hooks.now_ns() == 1
    recording = True
    malloc(1)
    assert len(rows) == 1 and hooks.wants(acts.API)
    sink.set_kinds(acts.KERNEL)
    malloc(1)
    assert len(rows) == 1 and not hooks.wants(acts.API) and hooks.wants(acts.KERNEL)
    sink.close()
    assert not hooks.kinds


def test_external_ids_link_the_calls_of_their_thread(hooks: Hooks) -> None:
    malloc = malloc_of(hooks)
    rows: list[Activity] = []
    hooks.add_sink(lambda _, activity: rows.append(activity), acts.EXTERNAL_CORRELATION | acts.API)
    hooks.push_external(1, 70)
    hooks.push_external(1, 71)
    hooks.push_external(2, 5)
    malloc(1)
    assert hooks.pop_external(1) == 71
    malloc(1)
    assert (hooks.pop_external(1), hooks.pop_external(1), hooks.pop_external(2)) == (70, None, 5)
    malloc(1)
    links = [
        (a.external_kind, a.external_id, a.correlation_id) for a in rows if isinstance(a, ExternalCorrelation)
    ]
    assert links == [(1, 71, 1), (2, 5, 1), (1, 70, 2), (2, 5, 2)]


def test_threads_have_their_own_calls(hooks: Hooks) -> None:
    malloc = malloc_of(hooks)
    rows: list[ApiActivity] = []
    hooks.add_sink(lambda _, a: rows.append(a) if isinstance(a, ApiActivity) else None, acts.API)

    def work() -> None:
        for _ in range(200):
            malloc(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(row.correlation_id for row in rows) == list(range(1, 801))
    assert len({row.thread_id for row in rows}) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_fork_child_has_its_own_thread_id(hooks: Hooks) -> None:
    malloc = malloc_of(hooks)
    rows: list[ApiActivity] = []
    hooks.add_sink(lambda _, a: rows.append(a) if isinstance(a, ApiActivity) else None, acts.API)
    malloc(1)
    child = os.fork()
    if child == 0:
        try:
            malloc(1)
            os._exit(0 if rows[1].thread_id == threading.get_native_id() != rows[0].thread_id else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(["enable", "disable", "domain", "nothing", "call"]), max_size=20))
def test_what_is_enabled_is_what_is_told(steps: list[str]) -> None:
    hooks = Hooks()
    malloc = malloc_of(hooks)
    told: list[int] = []
    subscription = hooks.subscribe(lambda call: told.append(call.cbid))
    on, expected = False, 0
    for step in steps:
        if step == "enable":
            subscription.enable(api_id("topsMalloc"))
        elif step == "disable":
            subscription.enable(api_id("topsMalloc"), on=False)
        elif step == "domain":
            subscription.enable_domain(2)
        elif step == "nothing":
            subscription.enable_all(False)
        else:
            malloc(1)
            expected += on
        on = {"enable": True, "domain": True, "disable": False, "nothing": False}.get(step, on)
    assert len(told) == expected


def test_numbers_of_apis_stay() -> None:
    # append only: these were released
    numbers = {
        "topsInit": 1,
        "topsMalloc": 16,
        "topsMemcpyHtoD": 36,
        "topsLaunchKernel": 85,
        "topsProfilerStart": 120,
    }
    assert {name: RUNTIME_IDS[name] for name in numbers} == numbers
    assert sorted(RUNTIME_IDS.values()) == list(range(1, len(RUNTIME_IDS) + 1))
    assert DRIVER_IDS["queueSubmit"] == 1
    assert api_name(5000) == "api5000"
    with pytest.raises(KeyError):
        Hooks().point("topsNothing")


def test_every_activity_has_one_kind() -> None:
    kinds = list(KIND_OF.values())
    assert len(set(kinds)) == len(kinds)
    assert all(kind.bit_count() == 1 and kind & (acts.ALL | acts.MARKER) for kind in kinds)


def test_the_driver_is_asked_only_where_somebody_wants_it(hooks: Hooks) -> None:
    driver = hooks.point("queueSubmit", domain=DRIVER_API)
    charged: list[str] = []
    hooks.set_clock(Ticks(), charged.append)
    sink = hooks.add_sink(lambda *_: None, acts.ALL & ~acts.DRIVER)
    assert driver.idle
    sink.set_kinds(acts.DRIVER)
    assert not driver.idle
    driver.call(len, "outside of any call")
    assert charged == []  # only the vendor's calls have a cost


class Steering(BaseException):
    """Something that `except Exception` lets pass."""


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, Steering])
def test_what_a_callback_raises_never_ends_the_program(
    hooks: Hooks, capfd: pytest.CaptureFixture[str], kind: type[BaseException]
) -> None:
    malloc = malloc_of(hooks)

    def bad(*_: object) -> None:
        raise kind("of the tool")

    hooks.subscribe(bad).enable_all()
    hooks.subscribe(None, bad).enable_all()
    hooks.add_sink(bad)
    assert [malloc(k) for k in range(3)] == [0, 2, 4]
    assert capfd.readouterr().err.count(kind.__name__) == 3
    assert hooks.kinds == 0


@pytest.mark.parametrize("own", [False, True])
def test_ctrl_c_in_a_callback_is_the_programs(hooks: Hooks, own: bool) -> None:
    malloc = malloc_of(hooks)

    def handler(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        for _ in range(1000):
            pass

    before = signal.signal(signal.SIGINT, handler if own else signal.default_int_handler)
    try:
        subscription = hooks.subscribe(interrupted)
        subscription.enable_all()
        with pytest.raises(KeyboardInterrupt):
            malloc(1)
        assert not subscription.closed
        subscription.close()
        assert malloc(1) == 2
    finally:
        signal.signal(signal.SIGINT, before)
