"""Session time: cuts, jumps, sleeps, and what calls cost; on a clock that the test moves."""

from __future__ import annotations

import subprocess
import sys
from threading import Event, Thread

import pytest

from tops_kit import gcu
from tops_kit.errors import UserError
from tops_kit.gcu.clock import Clock, LocalTimeBase, clock_mode

SPEC = gcu.load("s60")


class Raw:
    """A raw clock that stands still but for what the test says; sleeping moves it."""

    def __init__(self) -> None:
        self.now = 10_000_000
        self.sleeps: list[int] = []

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(round(seconds * 1e9))
        self.now += self.sleeps[-1]


def clock_of(raw: Raw, mode: str = "virtual", threads: int = 1) -> Clock:
    return Clock(LocalTimeBase(mode, raw=raw), SPEC, sleep=raw.sleep, threads=lambda: threads)


def test_session_time_stands_still_in_a_cut() -> None:
    raw = Raw()
    clock = clock_of(raw)
    assert clock.now_ns() == 10_000_000
    raw.now += 500
    with clock.cut():
        raw.now += 1_000
        assert clock.now_ns() == 10_000_500
        with clock.cut():  # the outer one goes on
            raw.now += 1_000
        raw.now += 1_000
        assert clock.now_ns() == 10_000_500
    assert clock.now_ns() == 10_000_500
    raw.now += 7
    assert clock.now_ns() == 10_000_507


def test_a_jump_in_a_cut_counts() -> None:
    raw = Raw()
    clock = clock_of(raw)
    with clock.cut():
        raw.now += 1_000
        clock.base.advance(30)
        assert clock.now_ns() == 10_000_030
        raw.now += 1_000
    assert clock.now_ns() == 10_000_030


def test_end_without_begin() -> None:
    with pytest.raises(RuntimeError):
        LocalTimeBase(raw=Raw()).end_cut()


def test_a_wait_jumps_where_one_thread_uses_the_clock() -> None:
    raw = Raw()
    clock = clock_of(raw)
    assert clock.wait_until(10_005_000) == 10_005_000
    assert (raw.now, raw.sleeps, clock.waited_ns) == (10_000_000, [], 5_000)
    assert clock.wait_until(10_004_000) == 10_005_000  # past
    raw.now += 1
    assert clock.now_ns() == 10_005_001


def test_a_wait_sleeps_beside_other_threads_and_processes() -> None:
    raw = Raw()
    clock = clock_of(raw, threads=2)
    assert clock.wait_until(10_005_000) == 10_005_000
    assert raw.sleeps == [5_000]

    class Shared(LocalTimeBase):
        def alone(self) -> bool:
            return False

    clock = Clock(Shared(raw=raw), SPEC, sleep=raw.sleep, threads=lambda: 1)
    clock.wait_until(10_006_000)
    assert raw.sleeps == [5_000, 1_000]


def test_a_sleep_goes_on_where_a_cut_stretched_it() -> None:
    raw = Raw()
    base = LocalTimeBase(raw=raw)

    def sleep(seconds: float) -> None:
        if not raw.sleeps:  # another thread computes meanwhile, 2 us of the 5
            base.begin_cut()
            raw.now += 2_000
            base.end_cut()
            raw.sleep(seconds - 2e-6)
        else:
            raw.sleep(seconds)

    clock = Clock(base, SPEC, sleep=sleep, threads=lambda: 2)
    assert clock.wait_until(10_005_000) == 10_005_000
    assert raw.sleeps == [3_000, 2_000]


def test_a_signal_ends_a_wait() -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    raw = Raw()
    clock = Clock(LocalTimeBase(raw=raw), SPEC, sleep=interrupted, threads=lambda: 2)
    with pytest.raises(KeyboardInterrupt):
        clock.wait_until(20_000_000)
    assert clock.now_ns() == 10_000_000


def test_model_time_moves_by_costs_waits_and_work_alone() -> None:
    raw = Raw()
    clock = clock_of(raw, "model", threads=3)
    raw.now += 99
    with clock.cut():
        raw.now += 99
    assert clock.now_ns() == 0
    clock.charge_api()
    clock.charge_api("launch")
    assert clock.now_ns() == SPEC.host_api_ns + SPEC.host_launch_ns
    clock.host_work(500)
    assert clock.wait_until(20_000) == 20_000
    assert raw.sleeps == []
    assert not clock.order_measured


def test_virtual_calls_cost_what_they_take() -> None:
    clock = clock_of(Raw())
    clock.charge_api("launch")
    assert clock.now_ns() == 10_000_000


def test_host_work_takes_session_time() -> None:
    raw = Raw()
    clock = clock_of(raw)
    clock.host_work(300)
    assert (clock.now_ns(), raw.sleeps, clock.waited_ns) == (10_000_300, [], 0)
    clock = clock_of(raw, threads=2)
    clock.host_work(300)
    assert raw.sleeps == [300]
    with pytest.raises(ValueError, match="at least 0"):
        clock.host_work(-1)


def test_host_work_in_a_cut_passes_at_once() -> None:
    """Session time stands still there, so that a sleep would never end."""
    raw = Raw()
    clock = clock_of(raw, threads=2)
    with clock.cut():
        clock.host_work(300)
        with clock.cut():
            clock.host_work(20)
        clock.host_work(1)
        assert clock.now_ns() == 10_000_321
    assert raw.sleeps == []
    clock.host_work(300)
    assert (clock.now_ns(), raw.sleeps) == (10_000_621, [300])


def test_host_work_beside_a_cut_of_another_thread_waits_for_its_end() -> None:
    raw = Raw()
    clock = clock_of(raw, threads=2)
    told = Event()
    go_on = Event()

    def cut() -> None:
        with clock.cut():
            told.set()
            go_on.wait(20)

    other = Thread(target=cut)
    other.start()
    told.wait(20)

    def sleep(seconds: float) -> None:
        raw.sleep(seconds)
        if len(raw.sleeps) == 3:
            go_on.set()
            other.join()

    clock._sleep = sleep
    clock.host_work(300)
    assert raw.sleeps == [300] * 4
    assert clock.now_ns() == 10_000_300


def test_threads_that_the_library_knows_nothing_of_are_counted() -> None:
    program = """
import _thread
from tops_kit.gcu.clock import host_threads
print(host_threads())
begun, over, done = (_thread.allocate_lock() for _ in range(3))
for lock in (begun, over, done):
    lock.acquire()
def run():
    begun.release()
    over.acquire()
    done.release()
_thread.start_new_thread(run, ())
begun.acquire()
print(host_threads())
over.release()
done.acquire()
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["1", "2"]


def test_more_than_one_thread_on_a_model_clock_is_said() -> None:
    clock = clock_of(Raw(), "model")
    clock.host_work(5)
    assert not clock.order_measured
    other = Thread(target=clock.charge_api)
    other.start()
    other.join()
    assert clock.order_measured
    assert clock.now_ns() == 5 + SPEC.host_api_ns


def test_without_a_global_lock_only_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    clock_of(Raw(), "model")
    with pytest.raises(UserError, match="PYTHON_GIL=1"):
        clock_of(Raw())


def test_threads_never_see_time_go_back() -> None:
    """Cuts and jumps of one thread, while others read."""
    base = LocalTimeBase()
    stop: list[int] = []
    back: list[int] = []

    def read() -> None:
        last = 0
        while not stop:
            now = base.now_ns()
            if now < last:
                back.append(last - now)
            last = now

    readers = [Thread(target=read) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for reader in readers:
            reader.start()
        last = 0
        for _ in range(3000):
            base.begin_cut()
            base.end_cut()
            base.advance(5)
            assert base.now_ns() >= last
            last = base.now_ns()
    finally:
        stop.append(1)
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval)
    assert back == []


def test_mode_of_the_environment() -> None:
    assert clock_mode({}) == clock_mode({"TOPS_CLOCK": ""}) == "virtual"
    assert clock_mode({"TOPS_CLOCK": "model"}) == "model"
    with pytest.raises(UserError, match="TOPS_CLOCK=fast: has to be virtual or model"):
        clock_mode({"TOPS_CLOCK": "fast"})
    with pytest.raises(ValueError, match="virtual or model"):
        LocalTimeBase("fast")
