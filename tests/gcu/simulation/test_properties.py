"""Random graphs of operations: what holds of all of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from dataclasses import field as member
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tops_kit import gcu
from tops_kit.gcu.simulation import DeviceSimulation, LocalOccupancy, Operation, Peer, StreamQueue, Timeline

S60, T20 = gcu.load("s60"), gcu.load("t20")
CLUSTERS = S60.clusters
RESOURCES = ("l3", "pcie_up", "pcie_down")

WHAT = ("clusters", "clusters", "cdma_up", "cdma_down", "sdma", "host", "late", "marker", "peer")


@dataclass(frozen=True)
class Step:
    """One operation of a random program, submitted `gap_ns` after the one before it."""

    device: int
    stream: int
    what: str  # "clusters", "cdma_up", ..., "host", "late", "marker"
    duration_ns: int
    gap_ns: int
    clusters: int
    load: float  # of what its resource can do in the duration
    resource: str
    after: tuple[int, ...]  # of earlier steps, counted backwards


STEP = st.builds(
    Step,
    st.integers(0, 1), st.integers(0, 2),
    st.sampled_from(WHAT),
    st.integers(0, 300), st.sampled_from((0, 0, 0, 1, 40, 250)), st.integers(1, 3),
    st.sampled_from((0.0, 0.3, 0.8, 1.0, 1.7)), st.sampled_from(RESOURCES),
    st.lists(st.integers(1, 6), max_size=2).map(tuple),
)  # fmt: skip
PROGRAM = st.lists(STEP, min_size=1, max_size=25)


@dataclass
class Run:
    """A program as it went: its operations, what each waited for, and what the sinks saw."""

    operations: list[Operation] = member(default_factory=list)
    before: list[list[Operation]] = member(default_factory=list)
    final: list[Operation] = member(default_factory=list)
    moved: list[dict[tuple[int, str], int]] = member(default_factory=list)

    def times(self) -> list[tuple[int, int, int]]:
        return [(o.start_ns, o.end_ns, o.contention_ns) for o in self.operations]


def run(program: list[Step], looks: dict[int, list[int]] | None = None, **options: Any) -> Run:
    """Submits a program; `looks`: after which step to advance, and to which times after its submit."""
    out = Run()
    timeline = Timeline()
    devices = [
        DeviceSimulation(S60, index=i, timeline=timeline, sink=out.final.append, **options) for i in range(2)
    ]
    streams = [[StreamQueue(device, priority=i - 1) for i in range(3)] for device in devices]
    last: dict[StreamQueue, Operation] = {}
    now_ns = 0
    for number, step in enumerate(program):
        now_ns += step.gap_ns
        stream = streams[step.device][step.stream]
        after = [out.operations[-back] for back in step.after if back <= number]
        operation = _operation(step, stream, devices[1 - step.device], now_ns)
        operation.after = list(after)
        out.before.append(after + ([last[stream]] if stream in last else []))
        out.operations.append(operation)
        out.moved.append(_moved(step))
        last[stream] = operation
        devices[step.device].submit(operation)
        for look in (looks or {}).get(number, ()):
            gap_ns = program[number + 1].gap_ns if number + 1 < len(program) else 1000
            timeline.advance(now_ns + min(look, gap_ns))
    for device in devices:
        assert device.finish_all() is not None
    return out


def _operation(step: Step, stream: StreamQueue, other: DeviceSimulation, now_ns: int) -> Operation:
    if step.what == "marker":
        return Operation("marker", stream, submit_ns=now_ns)
    if step.what == "host":

        def host(operation: Operation) -> None:
            operation.duration_ns = step.duration_ns

        return Operation("host", stream, "host", None, submit_ns=now_ns, on_start=host)
    demand = {name: size for (device, name), size in _moved(step).items() if device == step.device}
    if step.what == "late":

        def prepare(operation: Operation) -> None:
            operation.duration_ns, operation.demand = step.duration_ns, demand

        return Operation("kernel", stream, "clusters", None, submit_ns=now_ns, on_start=prepare)
    if step.what == "peer":
        return Operation(
            "copy", stream, "cdma_up", step.duration_ns, submit_ns=now_ns, demand=demand,
            peer=Peer(other, "cdma_down", {"pcie_down": sum(demand.values())}),
        )  # fmt: skip
    kind = "kernel" if step.what == "clusters" else "copy"
    clusters = step.clusters if kind == "kernel" else 1
    return Operation(
        kind, stream, step.what, step.duration_ns, submit_ns=now_ns, demand=demand, clusters=clusters
    )


def _capacity(resource: str) -> float:
    return (S60.l3_bytes_per_s if resource == "l3" else S60.pcie_bytes_per_s) / 1e9


def _moved(step: Step) -> dict[tuple[int, str], int]:
    if step.what in ("marker", "host"):
        return {}
    resource = "pcie_up" if step.what == "peer" else step.resource
    size = int(step.load * step.duration_ns * _capacity(resource))
    if not size:
        return {}
    out = {(step.device, resource): size}
    if step.what == "peer":
        out[1 - step.device, "pcie_down"] = size
    return out


@settings(max_examples=80, deadline=None)
@given(PROGRAM)
def test_order_and_dependencies_hold(program: list[Step]) -> None:
    result = run(program)
    for step, operation, before in zip(program, result.operations, result.before, strict=True):
        assert operation.start_ns >= operation.submit_ns
        assert all(operation.start_ns >= other.end_ns for other in before)
        duration_ns = 0 if step.what == "marker" else step.duration_ns
        assert operation.end_ns - operation.start_ns == duration_ns + operation.contention_ns
        assert operation.contention_ns >= 0
    assert sorted(result.final, key=lambda o: (o.end_ns, o.sequence)) == result.final
    assert set(result.final) == set(result.operations)


def _spans(program: list[Step], result: Run) -> dict[tuple[int, str], list[tuple[int, int, int]]]:
    """By device and engine: begin, end, units."""
    out = defaultdict(list)
    for step, o in zip(program, result.operations, strict=True):
        if step.what not in ("marker", "host"):
            clusters = min(step.clusters, CLUSTERS) if step.what == "clusters" else 1
            engine = {"late": "clusters", "peer": "cdma_up"}.get(step.what, step.what)
            out[step.device, engine].append((o.start_ns, o.end_ns, clusters))
            if step.what == "peer":
                out[1 - step.device, "cdma_down"].append((o.start_ns, o.end_ns, 1))
    return out


@settings(max_examples=80, deadline=None)
@given(PROGRAM)
def test_no_engine_does_more_than_it_can(program: list[Step]) -> None:
    result = run(program)
    for (_, engine), spans in _spans(program, result).items():
        capacity = CLUSTERS if engine == "clusters" else 1
        for at_ns, _, _ in spans:
            assert sum(units for begin, end, units in spans if begin <= at_ns < end) <= capacity


@settings(max_examples=80, deadline=None)
@given(PROGRAM)
def test_no_interval_is_above_a_peak(program: list[Step]) -> None:
    """What lies whole in an interval has not moved more bytes than the resource can in it."""
    result = run(program)
    users = defaultdict(list)
    for operation, moved in zip(result.operations, result.moved, strict=True):
        for key, size in moved.items():
            users[key].append((operation.start_ns, operation.end_ns, size))
    for (_, resource), spans in users.items():
        for begin, _, _ in spans:
            for end in (e for _, e, _ in spans if e > begin):
                inside = sum(size for b, e, size in spans if begin <= b and e <= end)
                assert inside <= _capacity(resource) * (end - begin) + 1


@settings(max_examples=80, deadline=None)
@given(PROGRAM, st.dictionaries(st.integers(0, 24), st.lists(st.integers(0, 600), max_size=4).map(sorted)))
def test_looking_changes_nothing(program: list[Step], looks: dict[int, list[int]]) -> None:
    plain = run(program)
    looked = run(program, looks)
    assert plain.times() == looked.times()
    assert [o.sequence for o in plain.final] == [o.sequence for o in looked.final]
    assert run(program).times() == plain.times()


@settings(max_examples=80, deadline=None)
@given(PROGRAM)
def test_nothing_waits_without_a_reason(program: list[Step]) -> None:
    """An operation begins when it is submitted, or when something ends: before it, or on its engine."""
    result = run(program)
    ends = {o.end_ns for o in result.operations}
    for operation in result.operations:
        assert operation.start_ns == operation.submit_ns or operation.start_ns in ends


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**7),
    st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 10**9)),
    st.floats(1, 10),
)
def test_more_bandwidth_never_makes_one_operation_later(
    duration_ns: int, demand: dict[str, int], factor: float
) -> None:
    ends = []
    for spec in (S60, S60.scaled(l3=factor, pcie=factor)):
        device = DeviceSimulation(spec)
        device.submit(
            Operation("kernel", StreamQueue(device), "clusters", duration_ns, submit_ns=3, demand=demand)
        )
        end_ns = device.finish_all()
        assert end_ns is not None
        ends.append(end_ns)
    assert ends[1] <= ends[0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 200), st.integers(1, 2)), max_size=20),
    st.integers(0, 60),
)
def test_processes_that_share_a_device_take_turns(jobs: list[tuple[int, int, int]], gap_ns: int) -> None:
    """Two simulations over one calendar: the clusters are never used twice."""
    occupancy = LocalOccupancy(S60)
    devices = [DeviceSimulation(S60, occupancy=occupancy) for _ in range(2)]
    streams = [[StreamQueue(device) for _ in range(2)] for device in devices]
    spans: list[Operation] = []
    for number, (process, duration_ns, clusters) in enumerate(jobs):
        operation = Operation(
            "kernel", streams[process][number % 2], "clusters", duration_ns, submit_ns=number * gap_ns,
            clusters=clusters,
        )  # fmt: skip
        for device in devices:
            device.advance(number * gap_ns)
        devices[process].submit(operation)
        spans.append(operation)
    now_ns = len(jobs) * gap_ns
    while any(device.pending for device in devices):  # both follow one clock
        events = [ns for device in devices if (ns := device.next_event_ns()) is not None]
        now_ns = max(now_ns, min(events))
        for device in devices:
            device.advance(now_ns)
    for at in spans:
        used = [o for o in spans if o.start_ns <= at.start_ns < o.end_ns]
        assert sum(min(o.clusters, CLUSTERS) for o in used) <= CLUSTERS
    for device_streams in streams:
        for stream in device_streams:
            own = [o for o in spans if o.stream is stream]
            assert all(a.end_ns <= b.start_ns for a, b in pairwise(own))


def test_a_part_with_a_link_shares_it() -> None:
    timeline = Timeline()
    a, b = (DeviceSimulation(T20, index=i, timeline=timeline) for i in range(2))
    bytes_per_ns = T20.link_bytes_per_s / 1e9
    size = int(1000 * bytes_per_ns)
    there = Operation(
        "copy", StreamQueue(a), "link", 1000, demand={"link": size}, peer=Peer(b, "link", {"link": size})
    )
    back = Operation(
        "copy", StreamQueue(b), "link", 1000, demand={"link": size}, peer=Peer(a, "link", {"link": size})
    )
    a.submit(there)
    b.submit(back)
    assert a.finish_all() == 1000
    assert b.finish_all() == 2000
    assert a.moved_bytes()["link"] == b.moved_bytes()["link"] == 2 * size
