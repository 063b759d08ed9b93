"""What the device's simulation costs the host: session time, operations, stream races; and its memory."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator

from benchmarks.rows import Row, compare
from tops_kit import gcu
from tops_kit.gcu.clock import Clock, LocalTimeBase
from tops_kit.gcu.races import Access, StreamRaces
from tops_kit.gcu.simulation import DeviceSimulation, Operation, StreamQueue

DESCRIPTION = "session time, operations of the simulated device, stream races: CPU time and memory"

_BURSTS = 200
_BURST = 500
_SPEC = gcu.load("s60")
_KERNEL_NS = 1000
_DEMAND = {"l3": 100_000}  # a seventh of what it can
_MANY = 1_000_000


def rows() -> Iterator[Row]:
    """All claims about the simulation."""
    empty = _least(_empty)
    clock = Clock(LocalTimeBase(), _SPEC)
    races = StreamRaces()
    yield _row("session time, once", _least(_loop(clock.now_ns)), empty, 1.0)
    yield _row("a cut, begin and end", _least(_loop(_cut(clock))), empty, None)
    yield _row("an operation, submitted and finished", _least(_one_by_one()), empty, 3.0)
    yield _row("an operation in a long queue of its stream", _least(_queued()), empty, 3.0)
    yield _row("an operation beside one of another stream, sharing L3", _least(_sharing()), empty, None)
    accesses = [Access(number, 0, 4096, number == 0) for number in range(3)]
    yield _row("race check of an operation on 3 arrays", _least(_loop(_check(races, accesses))), empty, None)
    grown = _growth()
    yield compare(
        f"memory after {_MANY:,} operations, more than after the first 20,000", "MB", grown / 1e6, None, "",
        bar=10, bar_on="ours", note="peak of the process",
    )  # fmt: skip


def _row(claim: str, ours_us: float, empty_us: float, bar_us: float | None) -> Row:
    return compare(
        claim, "us CPU", ours_us, empty_us, "an empty call", bar=bar_us, bar_on="ours",
        note=f"least of {_BURSTS} bursts of {_BURST}",
    )  # fmt: skip


def _least(burst: Callable[[int], int]) -> float:
    """Microseconds of CPU for one turn: the least of many bursts, each of which returns its ns."""
    gc.disable()
    try:
        return min(burst(_BURST) for _ in range(_BURSTS)) / _BURST / 1e3
    finally:
        gc.enable()


def _loop(function: Callable[[], object]) -> Callable[[int], int]:
    def burst(turns: int) -> int:
        begin = time.thread_time_ns()
        for _ in range(turns):
            function()
        return time.thread_time_ns() - begin

    return burst


def _empty(turns: int) -> int:
    return _loop(_nothing)(turns)


def _nothing() -> None:
    pass


def _cut(clock: Clock) -> Callable[[], None]:
    def cut() -> None:
        with clock.cut():
            pass

    return cut


def _check(races: StreamRaces, accesses: list[Access]) -> Callable[[], object]:
    return lambda: races.submit(1, accesses, None)


class _Device:
    """A device with a sink, and kernels made beforehand: making them is not what is measured."""

    def __init__(self, streams: int) -> None:
        self.simulation = DeviceSimulation(_SPEC, sink=_ignore)
        self.streams = [StreamQueue(self.simulation) for _ in range(streams)]

    def kernels(self, count: int, every_ns: int, demand: dict[str, int]) -> list[Operation]:
        begin_ns = self.simulation.timeline.now_ns
        return [
            Operation(
                "kernel", self.streams[i % len(self.streams)], "clusters", _KERNEL_NS,
                submit_ns=begin_ns + i * every_ns, demand=demand,
            )
            for i in range(count)
        ]  # fmt: skip


def _ignore(_: Operation) -> None:
    pass


def _one_by_one() -> Callable[[int], int]:
    device = _Device(1)
    submit, finish = device.simulation.submit, device.simulation.finish

    def burst(turns: int) -> int:
        kernels = device.kernels(turns, 2 * _KERNEL_NS, _DEMAND)
        begin = time.thread_time_ns()
        for kernel in kernels:
            submit(kernel)
            finish(kernel)
        return time.thread_time_ns() - begin

    return burst


def _queued() -> Callable[[int], int]:
    return _together(_Device(1), _DEMAND)


def _sharing() -> Callable[[int], int]:
    return _together(_Device(2), {"l3": _KERNEL_NS * _SPEC.l3_bytes_per_s // 10**9})


def _together(device: _Device, demand: dict[str, int]) -> Callable[[int], int]:
    submit = device.simulation.submit

    def burst(turns: int) -> int:
        kernels = device.kernels(turns, 1, demand)
        begin = time.thread_time_ns()
        for kernel in kernels:
            submit(kernel)
        device.simulation.finish_all()
        return time.thread_time_ns() - begin

    return burst


def _growth() -> int:
    """Bytes by which the process's peak grew over many operations, with events between streams."""
    device = _Device(2)
    one, two = device.streams
    simulation = device.simulation
    peak = 0
    for number in range(_MANY // 2):
        at_ns = number * 1500
        kernel = Operation("kernel", one, "clusters", _KERNEL_NS, submit_ns=at_ns, demand=_DEMAND)
        simulation.submit(kernel)
        simulation.submit(
            Operation(
                "copy", two, "cdma_up", _KERNEL_NS, submit_ns=at_ns, after=(kernel,), demand={"pcie_up": 9}
            )
        )
        if number == 10_000:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    simulation.finish_all()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
