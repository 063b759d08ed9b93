"""Small graphs of operations whose times can be said beforehand."""

from __future__ import annotations

import pytest

from tests.gcu.simulation.device import L3, PCIE, Device, spans
from tops_kit.gcu.simulation import Operation, Timeline


def test_copy_then_kernel_on_a_stream() -> None:
    device = Device()
    stream = device.stream()
    down, kernel = device.down(stream, 100, at=10), device.kernel(stream, 50, at=20)
    up = device.up(stream, 30, at=30)
    assert not down.done
    assert device.simulation.next_event_ns() == 110
    device.simulation.advance(109)
    assert not down.done
    device.simulation.advance(110)
    assert spans(down, kernel) == [(10, 110), (110, -1)]
    assert device.simulation.finish_stream(stream) == 190
    assert spans(down, kernel, up) == [(10, 110), (110, 160), (160, 190)]
    assert device.final == [down, kernel, up]
    assert (stream.depth, stream.last, device.simulation.pending) == (0, None, 0)


def test_three_stages_overlap() -> None:
    """n tiles through down, kernel, up on three streams: the slowest stage, and the others once."""
    device = Device()
    streams = [device.stream() for _ in range(3)]
    for tile in range(12):
        stream = streams[tile % 3]
        device.down(stream, 100)
        device.kernel(stream, 300, clusters=2)
        device.up(stream, 200)
    assert device.simulation.finish_all() == 100 + 12 * 300 + 200


def test_kernels_share_clusters() -> None:
    device = Device()
    first, second, third = (device.kernel(device.stream(), ns) for ns in (100, 60, 50))
    device.simulation.finish_all()
    assert spans(first, second, third) == [(0, 100), (0, 60), (60, 110)]


def test_a_kernel_of_all_clusters_waits_for_all() -> None:
    device = Device()
    small = device.kernel(device.stream(), 100)
    large = device.kernel(device.stream(), 40, clusters=2)
    behind = device.kernel(device.stream(), 10)  # would fit, but does not overtake
    device.simulation.finish_all()
    assert spans(small, large, behind) == [(0, 100), (100, 140), (140, 150)]


def test_two_copies_share_the_bus() -> None:
    device = Device()
    demand = {"pcie_down": 1000 * PCIE}
    copy = device.down(device.stream(), 1000, demand=demand)
    other = device.give(device.stream(), "copy", "sdma", 1000, demand=demand)
    device.simulation.finish_all()
    assert spans(copy, other) == [(0, 2000), (0, 2000)]
    assert (copy.contention_ns, other.contention_ns) == (1000, 1000)
    assert device.simulation.moved_bytes()["pcie_down"] == 2000 * PCIE


def test_a_stretch_keeps_bytes() -> None:
    """The second joins at 500: 500 ns alone, then half speed for both, then the rest of the second alone."""
    device = Device()
    demand = {"l3": 1000 * L3}
    first = device.kernel(device.stream(), 1000, demand=demand)
    second = device.kernel(device.stream(), 1000, at=500, demand=demand)
    device.simulation.finish_all()
    assert spans(first, second) == [(0, 1500), (500, 2000)]
    assert (first.contention_ns, second.contention_ns) == (500, 500)


def test_who_asks_for_little_gets_it() -> None:
    device = Device()
    little = device.kernel(device.stream(), 1000, demand={"l3": 1000 * L3 // 4})
    much = device.kernel(device.stream(), 1000, demand={"l3": 1000 * L3})
    device.simulation.finish_all()
    assert spans(little) == [(0, 1000)]
    assert spans(much) == [(0, 1250)]  # three quarters for 1000 ns, then all


def test_no_contention_below_the_peak() -> None:
    device = Device()
    two = [device.kernel(device.stream(), 1000, demand={"l3": 1000 * L3 // 2}) for _ in range(2)]
    device.simulation.finish_all()
    assert spans(*two) == [(0, 1000)] * 2
    assert [operation.contention_ns for operation in two] == [0, 0]


def test_priority_goes_first_and_nothing_is_interrupted() -> None:
    device = Device()
    running = device.kernel(device.stream(), 100, clusters=2)
    low = device.kernel(device.stream(priority=0), 10, at=5, clusters=2)
    high = device.kernel(device.stream(priority=-1), 10, at=50, clusters=2)
    device.simulation.finish_all()
    assert spans(running, high, low) == [(0, 100), (100, 110), (110, 120)]


def test_a_wait_for_an_event_of_another_stream() -> None:
    device = Device()
    a, b = device.stream(), device.stream()
    first = device.kernel(a, 100)
    event = device.marker(a)
    device.kernel(a, 500)
    early = device.kernel(b, 10)
    wait = device.give(b, "wait", "none", 0, after=[event])
    late = device.kernel(b, 10)
    device.simulation.finish(late)
    assert spans(first, event, early, wait, late)[1:] == [(100, 100), (0, 10), (100, 100), (100, 110)]
    assert device.final == [early, first, event, wait, late]


def test_a_host_function_holds_what_is_behind_it() -> None:
    device = Device()
    stream = device.stream()
    calls: list[int] = []

    def host(operation: Operation) -> None:
        calls.append(operation.start_ns)
        operation.duration_ns = 70

    device.kernel(stream, 100)
    function = device.give(stream, "host", "host", None, on_start=host)
    behind = device.kernel(stream, 10)
    assert (function.held, behind.held, calls) == (True, True, [])
    device.simulation.advance(99)
    assert not calls
    device.simulation.advance(100)
    assert calls == [100]
    device.simulation.finish_all()
    assert spans(function, behind) == [(100, 170), (170, 180)]
    assert not behind.held


def test_a_host_function_that_takes_its_time() -> None:
    device = Device()
    stream = device.stream()
    function = device.give(stream, "host", "host", None, on_start=lambda operation: None)
    behind = device.kernel(stream, 10)
    other = device.kernel(device.stream(), 5)
    assert device.simulation.finish_stream(stream) is None
    assert device.simulation.finish_all() is None
    assert spans(function, behind, other) == [(0, -1), (-1, -1), (0, 5)]
    device.simulation.resolve(function, 400, 400)
    assert device.simulation.finish_all() == 410
    assert spans(function, behind) == [(0, 400), (400, 410)]


def test_an_event_that_others_give() -> None:
    device = Device()
    outside = device.give(device.stream(), "wait", "none", None)
    behind = device.kernel(device.stream(), 10, after=[outside])
    assert device.simulation.finish(behind) is None
    device.simulation.resolve(outside, 0, 1000)
    assert device.simulation.finish(behind) == 1010
    with pytest.raises(ValueError, match="already"):
        device.simulation.resolve(outside, 0, 1000)


def test_work_whose_duration_is_known_when_it_is_ready() -> None:
    device = Device()
    stream = device.stream()

    def run(operation: Operation) -> None:
        operation.duration_ns = 25
        operation.demand = {"l3": 100}

    device.give(stream, "host", "host", 50)
    kernel = device.kernel(stream, None, on_start=run)
    device.simulation.finish_all()
    assert spans(kernel) == [(50, 75)]


def test_two_devices_have_one_time() -> None:
    timeline = Timeline()
    near, far = Device(timeline=timeline), Device(index=1, timeline=timeline)
    kernel = near.kernel(near.stream(), 100)
    behind = far.kernel(far.stream(), 10, after=[kernel])
    assert far.simulation.finish_all() == 110
    assert (near.final, far.final) == ([kernel], [behind])
