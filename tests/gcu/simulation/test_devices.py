"""What happens around the operations: callbacks, clusters of a stream's own, resets, use, and memory."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from tests.gcu.simulation.device import L3, PCIE, SPEC, Device, spans
from tops_kit.gcu.simulation import EngineUse, LocalOccupancy, Operation, Peer, Timeline, promises


def test_a_limit_and_more_clusters_than_there_are() -> None:
    device = Device()
    limited, free = device.stream(limit=1), device.stream()
    assert (limited.clusters, free.clusters) == (1, 2)
    first = device.kernel(limited, 100, clusters=24)
    second = device.kernel(device.stream(limit=1), 100, clusters=24)
    third = device.kernel(free, 100, clusters=24)
    device.simulation.finish_all()
    assert spans(first, second, third) == [(0, 100), (0, 100), (100, 200)]


def test_clusters_of_a_streams_own() -> None:
    device = Device()
    own, other = device.stream(), device.stream()
    device.simulation.take_clusters(own, 1)
    assert (own.clusters, other.clusters) == (1, 1)
    others = [device.kernel(device.stream(), 100) for _ in range(2)]
    mine = device.kernel(own, 30, at=10, clusters=1)
    with pytest.raises(ValueError, match="in use"):
        device.simulation.give_back_clusters(own)
    device.simulation.finish_all()
    assert spans(*others, mine) == [(0, 100), (100, 200), (10, 40)]
    device.simulation.give_back_clusters(own)
    device.simulation.give_back_clusters(own)  # has none
    assert (own.clusters, other.clusters) == (2, 2)
    again = [device.kernel(device.stream(), 100, at=200) for _ in range(2)]
    device.simulation.finish_all()
    assert spans(*again) == [(200, 300)] * 2


def test_clusters_that_are_in_use_are_given_when_they_are_free() -> None:
    device = Device()
    running = device.kernel(device.stream(), 100, clusters=2)
    own = device.stream()
    device.simulation.take_clusters(own, 1)
    mine = device.kernel(own, 10)
    behind = device.kernel(device.stream(), 10, clusters=2)
    device.simulation.finish_all()
    # two clusters were wanted, and only one is left
    assert spans(running, mine, behind) == [(0, 100), (100, 110), (100, 120)]
    assert [
        (use.engine, use.operations, use.busy_ns) for use in device.simulation.use() if use.operations
    ] == [
        ("clusters", 2, 120),
        ("clusters", 1, 10),
    ]


def test_promised_clusters_come_when_all_promises_can_be_kept() -> None:
    device = Device()
    running = [device.kernel(device.stream(), ns) for ns in (100, 150)]
    own = device.stream()
    device.simulation.take_clusters(own, 1)
    mine = device.kernel(own, 10)
    device.simulation.advance(50)
    with pytest.raises(ValueError, match="in use"):
        device.simulation.give_back_clusters(own)
    behind = device.kernel(device.stream(), 10, at=50)
    assert device.simulation.finish_all() == 160
    assert spans(*running, mine, behind) == [(0, 100), (0, 150), (100, 110), (150, 160)]
    assert device.simulation.use()[0].busy_ns == 160


def test_promised_clusters_may_be_given_back() -> None:
    device = Device()
    device.kernel(device.stream(), 100, clusters=2)
    own = device.stream()
    device.simulation.take_clusters(own, 1)
    device.simulation.give_back_clusters(own)
    both = device.kernel(own, 10, clusters=2)
    device.simulation.finish_all()
    assert spans(both) == [(100, 110)]


def test_an_event_may_be_waited_for_before_it_is_recorded() -> None:
    device = Device()
    recorded = device.stream()
    event = Operation("marker", recorded, submit_ns=500)
    behind = device.kernel(device.stream(), 10, after=[event])
    assert behind.held
    assert device.simulation.finish_all() is None
    device.simulation.submit(event)
    assert device.simulation.finish_all() == 510


@pytest.mark.parametrize("clusters", [0, 2, 3])
def test_how_many_clusters_a_stream_can_have(clusters: int) -> None:
    device = Device()
    with pytest.raises(ValueError, match="at least one stays"):
        device.simulation.take_clusters(device.stream(), clusters)


def test_what_a_device_lacks() -> None:
    device, other = Device(), Device()
    stream = device.stream()
    with pytest.raises(ValueError, match="no engine 'dma'"):
        device.give(stream, "copy", "dma", 1)
    with pytest.raises(ValueError, match="no resource 'l4'"):
        device.kernel(stream, 1, demand={"l4": 1})
    with pytest.raises(ValueError, match=r"device 0 \(s60\) has no link"):
        device.kernel(stream, 1, demand={"link": 1})
    with pytest.raises(ValueError, match="another device"):
        device.give(stream, "copy", "cdma_up", 1, peer=Peer(device.simulation, "cdma_down"))
    with pytest.raises(ValueError, match=r"device 0 \(s60\) has no link"):
        device.give(stream, "copy", "cdma_up", 1, peer=Peer(other.simulation, "cdma_down", {"link": 1}))
    assert (stream.depth, stream.last, device.simulation.pending) == (0, None, 0)
    device.kernel(stream, 5)
    assert device.simulation.finish_stream(stream) == 5


def test_callbacks_may_come_back() -> None:
    device = Device()
    stream, other = device.stream(), device.stream()
    more: list[Operation] = []

    def launch(operation: Operation) -> None:
        more.append(device.kernel(other, 10, at=operation.end_ns))
        device.simulation.finish(more[-1])

    first = device.kernel(stream, 100, on_done=launch)
    second = device.kernel(stream, 50)
    assert device.simulation.finish_all() == 150
    assert spans(first, *more, second) == [(0, 100), (100, 110), (100, 150)]
    assert device.final == [first, *more, second]


def test_a_host_function_that_fails_is_over() -> None:
    device = Device()
    stream = device.stream()

    def fail(_: Operation) -> None:
        raise RuntimeError("of the user's")

    before = device.kernel(stream, 10)
    device.give(stream, "host", "host", None, on_start=fail)
    behind = device.kernel(stream, 10)
    with pytest.raises(RuntimeError, match="of the user's"):
        device.simulation.finish_all()
    assert device.simulation.finish_all() == 20
    assert spans(before, behind) == [(0, 10), (10, 20)]


def test_a_sink_that_fails_stops_nothing() -> None:
    device = Device()
    done: list[Operation] = []

    def sink(operation: Operation) -> None:
        device.final.append(operation)
        raise RuntimeError("of a tool")

    device.simulation.sink = sink
    kernels = [device.kernel(device.stream(), 10, on_done=done.append) for _ in range(4)]
    with pytest.raises(RuntimeError, match="of a tool"):
        device.simulation.finish(kernels[0])
    assert device.final == done == kernels[:2]
    device.simulation.sink = None
    assert device.simulation.finish_all() == 20


def test_pending_is_known_to_the_runtime() -> None:
    device = Device()
    stream, other = device.stream(), device.stream()
    function = device.give(stream, "host", "host", None)
    marker = device.marker(stream)
    behind = device.kernel(other, None, after=[marker])
    free = device.kernel(device.stream(), 5)
    assert [o.held for o in (function, marker, behind, free)] == [True, True, True, False]
    device.simulation.resolve(behind, 20, 0)  # was run meanwhile: no longer for the host to do
    assert not behind.held
    device.simulation.resolve(function, 3, 3)
    assert device.simulation.finish(behind) == 23


def test_a_reset_drops_what_is_not_done() -> None:
    timeline = Timeline()
    near, far = Device(timeline=timeline), Device(index=1, timeline=timeline)
    stream = near.stream()
    done = near.kernel(stream, 10)
    running = near.kernel(stream, 1000, demand={"l3": 1000 * L3})
    beside = near.kernel(near.stream(), 1000, demand={"l3": 1000 * L3})
    queued = near.kernel(stream, 5)
    stuck = near.give(near.stream(), "host", "host", None)
    copy = near.give(
        near.stream(),
        "copy",
        "cdma_up",
        500,
        demand={"pcie_up": 500 * PCIE},
        peer=Peer(far.simulation, "cdma_down"),
    )
    theirs = far.down(far.stream(), 20)
    waits = far.kernel(far.stream(), 7, after=[queued, stuck])
    timeline.advance(100)
    near.simulation.reset()
    assert near.simulation.pending == 0
    assert near.final == [done]
    assert spans(running, beside, copy) == [(10, 100), (0, 100), (0, 100)]
    assert (queued.end_ns, stuck.end_ns) == (100, 100)
    assert far.simulation.finish_all() == 120
    assert spans(theirs, waits) == [(100, 120), (100, 107)]
    # and it is as new
    later = [near.kernel(near.stream(), 10, at=200, demand={"l3": 10 * L3 // 2}) for _ in range(2)]
    near.simulation.finish_all()
    assert spans(*later) == [(200, 210)] * 2
    again = near.up(stream, 10, at=300)
    near.simulation.finish_all()
    assert spans(again) == [(300, 310)]


def test_use_of_engines() -> None:
    device = Device()
    device.kernel(device.stream(), 100, at=50)
    device.kernel(device.stream(), 60, at=80, clusters=1)
    device.down(device.stream(), 10, at=90, demand={"pcie_down": 99})
    device.simulation.advance(120)
    assert device.simulation.use()[0] == EngineUse("clusters", 2, 70, 0)
    device.simulation.finish_all()
    use = {use.engine: use for use in device.simulation.use()}
    assert use["clusters"] == EngineUse("clusters", 2, 100, 160)
    assert use["cdma_down"] == EngineUse("cdma_down", 1, 10, 10)
    assert use["sdma"] == EngineUse("sdma", 0, 0, 0)
    assert device.simulation.moved_bytes() == {"l3": 0, "pcie_up": 0, "pcie_down": 99}


def test_another_process_is_waited_for() -> None:
    occupancy = LocalOccupancy(SPEC)
    a, b = Device(occupancy=occupancy), Device(occupancy=occupancy)
    first = [a.kernel(a.stream(), 100, clusters=2) for _ in range(2)]
    other = b.kernel(b.stream(), 50, at=10, clusters=2)
    assert b.simulation.finish_all() == 150  # ready at 10: before the second of the first process
    assert a.simulation.finish_all() == 250
    assert spans(*first, other) == [(0, 100), (150, 250), (100, 150)]


def test_what_was_promised_stays() -> None:
    """Bandwidth, too: a copy that comes later has what is left of it, also beside its own process."""
    occupancy = LocalOccupancy(SPEC)
    a, b = Device(occupancy=occupancy), Device(occupancy=occupancy)
    kernel = a.kernel(a.stream(), 100, clusters=2, demand={"l3": 75 * L3})
    other = b.kernel(b.stream(), 50, clusters=2)
    copy = a.give(a.stream(), "copy", "sdma", 100, at=50, demand={"l3": 100 * L3})
    a.simulation.finish_all()
    b.simulation.finish_all()
    # a quarter of its speed up to 100: 12.5 of its 100 are done then
    assert spans(kernel, other, copy) == [(0, 100), (100, 150), (50, 188)]
    assert (copy.contention_ns, kernel.contention_ns) == (38, 0)
    assert a.simulation.moved_bytes()["l3"] == 175 * L3


def test_what_has_nothing_to_move_with_leaves_its_engine() -> None:
    occupancy = LocalOccupancy(SPEC)
    a, b = Device(occupancy=occupancy), Device(occupancy=occupancy)
    all_of_it = a.kernel(a.stream(), 100, clusters=1, demand={"l3": 100 * L3})
    waits = b.kernel(b.stream(), 30, at=10, clusters=1, demand={"l3": 30 * L3})
    small = a.kernel(a.stream(), 40, at=20, clusters=1)
    a.simulation.finish_all()
    b.simulation.finish_all()
    assert spans(all_of_it, waits, small) == [(0, 100), (100, 130), (20, 60)]


def test_kernels_with_sips_of_their_own_wait_for_nobody() -> None:
    occupancy = LocalOccupancy(SPEC)
    a, b = Device(occupancy=occupancy), Device(occupancy=occupancy)
    theirs, own = a.stream(), b.stream()
    own.exclusive = True
    spread = [a.kernel(theirs, 100, clusters=1), b.kernel(own, 70, at=5, clusters=1)]
    a.simulation.finish_all()
    b.simulation.finish_all()
    assert spans(*spread) == [(0, 100), (5, 75)]
    # but of what began before they were reserved
    late = [a.kernel(theirs, 100, at=200, clusters=2), b.kernel(own, 70, at=205, clusters=1)]
    a.simulation.finish_all()
    b.simulation.finish_all()
    assert spans(*late) == [(200, 300), (300, 370)]


def test_a_copy_between_devices_has_a_place_on_both() -> None:
    timeline = Timeline()
    calendars = [LocalOccupancy(SPEC) for _ in range(2)]
    one, two = (Device(index=k, timeline=timeline, occupancy=calendars[k]) for k in range(2))
    others = [Device(occupancy=calendar) for calendar in calendars]
    busy = [other.up(other.stream(), ns) for other, ns in zip(others, (100, 30), strict=True)]
    busy.append(others[1].down(others[1].stream(), 150))
    for other in others:
        other.simulation.finish_all()
    copy = one.up(one.stream(), 50, at=10, peer=Peer(two.simulation, "cdma_down", {"pcie_down": 50}))
    one.simulation.finish_all()
    assert spans(*busy, copy) == [(0, 100), (0, 30), (0, 150), (150, 200)]
    assert (one.simulation.reserved, two.simulation.reserved) == (0, 0)


def test_a_reset_gives_up_what_was_promised() -> None:
    occupancy = LocalOccupancy(SPEC)
    device = Device(occupancy=occupancy)
    device.kernel(device.stream(), 100, clusters=2)
    device.simulation.advance(10)
    device.simulation.reset()
    assert device.simulation.reserved == 0
    again = device.kernel(device.stream(), 10, at=200, clusters=2)
    device.simulation.finish_all()
    assert spans(again) == [(200, 210)]


def test_memory_of_many_operations_is_bounded() -> None:
    device = Device()
    device.simulation.sink = None
    stream, other = device.stream(), device.stream()

    def some(count: int, at: int) -> int:
        for _ in range(count):
            event = device.marker(other, at=at, after=[device.kernel(stream, 900, at=at, demand={"l3": 9})])
            device.down(other, 800, at=at, after=[event], demand={"l3": 800 * L3})
            at += 1000
        return at

    at = some(500, 0)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    some(3000, at)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20_000
    assert device.simulation.finish_all() is not None


def test_ends_that_are_no_longer_valid_do_not_pile_up() -> None:
    """A long kernel beside many copies changes its end with each."""
    device = Device()
    device.kernel(device.stream(), 10**9, demand={"l3": 10**9 * L3})
    stream = device.stream()
    for number in range(4000):
        device.give(stream, "fill", "sdma", 100, at=number * 1000, demand={"l3": 100 * L3})
    assert len(device.timeline._events) <= 1100
    assert device.simulation.finish_all() == 10**9 + 4000 * 100


def test_ctrl_c_while_a_place_is_looked_for_takes_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    occupancy = LocalOccupancy(SPEC)
    device = Device(occupancy=occupancy)
    real, calls = promises.reserve, []

    def interrupted(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(promises, "reserve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.kernel(device.stream(), 100, clusters=2)
    behind = device.kernel(device.stream(), 50, clusters=1)
    device.simulation.finish_all()
    assert spans(behind) == [(100, 150)]
    assert device.simulation.use()[0].operations == 2
