"""The host's clock and the device together; time is the test's, and threads take turns in it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.gcu.simulation.device import SPEC, Device, spans
from tops_kit.gcu.clock import Clock, LocalTimeBase
from tops_kit.gcu.simulation import make_room, wait

MS = 1_000_000


class Turns:
    """A raw clock for several threads: it moves to the next wake-up once all of them sleep or wait."""

    def __init__(self, threads: int) -> None:
        self.now = 0
        self.threads = threads
        self._changed = threading.Condition()
        self._asleep: list[int] = []  # until when
        self._waiting: list[Callable[[], bool]] = []  # for what

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._changed:
            until = self.now + round(seconds * 1e9)
            self._asleep.append(until)
            self._tick()
            self._changed.wait_for(lambda: self.now >= until)
            self._asleep.remove(until)

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Waits for another thread."""
        with self._changed:
            if not ready():
                self._waiting.append(ready)
                self._tick()
                self._changed.wait_for(ready)
                self._waiting.remove(ready)

    def tell(self, change: Callable[[], object]) -> None:
        """Changes what others wait for."""
        with self._changed:
            change()
            self._changed.notify_all()

    def end(self) -> None:
        """This thread is over."""
        with self._changed:
            self.threads -= 1
            self._tick()

    def _tick(self) -> None:
        asleep = [until for until in self._asleep if until > self.now]  # others are about to go on
        waiting = [ready for ready in self._waiting if not ready()]
        if asleep and len(asleep) + len(waiting) == self.threads:
            self.now = min(asleep)
        self._changed.notify_all()


def test_a_loader_works_beside_the_device() -> None:
    """8 ms of loading beside 10 ms of device: 10 ms a step, after the first batch."""
    time = Turns(2)
    clock = Clock(LocalTimeBase(raw=time), SPEC, sleep=time.sleep, threads=lambda: 2)
    device = Device()
    stream = device.stream()
    loaded: list[int] = []
    taken: list[int] = []
    ends: list[int] = []
    steps = 6

    def load() -> None:
        for step in range(steps):
            clock.host_work(8 * MS)
            time.tell(lambda: loaded.append(step))
            time.wait_for(lambda: len(taken) > step)  # one batch ahead
        time.end()

    loader = threading.Thread(target=load)
    loader.start()
    for step in range(steps):
        time.wait_for(lambda: len(loaded) > step)
        time.tell(lambda: taken.append(step))
        kernel = device.kernel(stream, 10 * MS, at=clock.now_ns())
        wait(device.timeline, clock, kernel)
        ends.append(clock.now_ns())
    loader.join()
    assert ends == [(8 + 10 * (step + 1)) * MS for step in range(steps)]


def test_alone_a_wait_takes_no_real_time() -> None:
    device = Device()
    clock = Clock(LocalTimeBase(raw=lambda: 5), SPEC, threads=lambda: 1)
    first = device.kernel(device.stream(), 70, at=5)
    second = device.kernel(device.stream(), 300, at=5)
    assert wait(device.timeline, clock, second) == 305
    assert clock.now_ns() == 305
    assert device.final == [first, second]
    assert wait(device.timeline, clock, first) == 75
    assert clock.now_ns() == 305


@pytest.mark.parametrize("threads", [1, 2])
def test_a_wait_for_what_the_host_holds(threads: int) -> None:
    device = Device()
    time = Turns(1)
    clock = Clock(LocalTimeBase(raw=time), SPEC, sleep=time.sleep, threads=lambda: threads)
    outside = device.give(device.stream(), "wait", "none", None)
    behind = device.kernel(device.stream(), 100, after=[outside])
    other = device.kernel(device.stream(), 40)
    assert wait(device.timeline, clock, behind) is None
    assert other.done
    device.simulation.resolve(outside, 0, 50)
    assert wait(device.timeline, clock, behind) == 150
    assert clock.now_ns() == 150


def test_what_another_thread_submits_meanwhile_takes_its_share() -> None:
    """A copy that comes while the main thread sleeps for a kernel slows it, as it would have."""
    device = Device()
    time = Turns(1)
    base = LocalTimeBase(raw=time)
    demand = {"l3": 1000 * SPEC.l3_bytes_per_s // 10**9}
    copies = []

    def sleep(seconds: float) -> None:
        if not copies:  # another thread's turn, at 400 of the 1000
            time.sleep(400e-9)
            copies.append(device.give(device.stream(), "fill", "sdma", 200, at=base.now_ns(), demand=demand))
        else:
            time.sleep(seconds)

    clock = Clock(base, SPEC, sleep=sleep, threads=lambda: 2)
    kernel = device.kernel(device.stream(), 1000, demand=demand)
    end_ns = wait(device.timeline, clock, kernel)
    # the copy takes at most half: 1000 x L3 bytes in 2000 ns; the kernel's other 600 in 1200 of them
    assert spans(kernel) == [(0, 1600)]
    assert end_ns == clock.now_ns() == 1600
    device.simulation.finish_all()
    assert spans(*copies) == [(400, 2000)]


def test_a_cut_in_the_wait_is_no_device_time() -> None:
    device = Device()
    time = Turns(1)
    base = LocalTimeBase(raw=time)
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:  # another thread computes in the middle of it
            base.begin_cut()
            time.sleep(30e-9)
            base.end_cut()
            time.sleep(seconds - 30e-9)
        else:
            time.sleep(seconds)

    clock = Clock(base, SPEC, sleep=sleep, threads=lambda: 2)
    kernel = device.kernel(device.stream(), 100)
    assert wait(device.timeline, clock, kernel) == 100
    assert (clock.now_ns(), time.now, len(slept)) == (100, 130, 2)


def test_a_full_queue_waits() -> None:
    device = Device()
    clock = Clock(LocalTimeBase(raw=lambda: 0), SPEC, threads=lambda: 1)
    stream = device.stream()
    for _ in range(20):
        assert make_room(device.timeline, clock, stream, most=4)
        device.kernel(stream, 10, at=clock.now_ns())
        assert stream.depth <= 4
    assert clock.now_ns() == 160
    device.simulation.finish_all()
    for _ in range(4):
        device.give(stream, "host", "host", None, at=clock.now_ns())
    assert not make_room(device.timeline, clock, stream, most=4)


def test_threads_submit_and_wait_at_once() -> None:
    """Each thread has a stream; all ends are there, each once, and each stream in its order."""
    device = Device()
    base = LocalTimeBase("model")
    clock = Clock(base, SPEC)

    def work() -> None:
        stream = device.stream()
        for _ in range(200):
            clock.charge_api("launch")
            kernel = device.kernel(stream, 5000, at=clock.now_ns(), demand={"l3": 5000 * 400})
            if kernel.sequence % 7 == 0:
                wait(device.timeline, clock, kernel)
        end_ns = device.simulation.finish_stream(stream)
        assert end_ns is not None

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(device.final) == len(set(device.final)) == 800
    assert device.simulation.pending == 0
