"""Two processes on one device share its time: engines and bandwidth, never more than there is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gcu.simulation.device import SPEC
from tops_kit.gcu.simulation import DeviceSimulation, Operation, StreamQueue
from tops_kit.gcu.state import Base, Devices, devices
from tops_kit.gcu.state import layout as at

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

ROOT = Path(__file__).resolve().parents[2]
CAPACITY = {"l3": SPEC.l3_bytes_per_s / 1e9, "pcie_up": SPEC.pcie_bytes_per_s / 1e9}
Job = tuple[str, int, int, float, int]  # engine, ns, clusters, load of its resource, gap before it

# One side: gives its jobs to the device at times of a session clock of its own, and tells when each was done
# in the device's time.
_SIDE = """
import json, sys
from tests.gcu.test_state_occupancy import play
from tops_kit.gcu.state import devices

machine = devices()
for line in sys.stdin:
    jobs, begin_ns, identity, share = json.loads(line)
    print(json.dumps(play(machine[share], jobs, begin_ns, identity)), flush=True)
"""


def play(device: Any, jobs: list[Job], begin_ns: int, identity: int, at_end: Any = None) -> list[Any]:
    """Runs jobs on two streams; each one's begin and end in the device's time, units, and bytes."""
    now_ns = begin_ns
    occupancy = device.occupancy(lambda: Base(identity, 0, now_ns))
    simulation = DeviceSimulation(device.spec, occupancy=occupancy)
    streams = [StreamQueue(simulation) for _ in range(2)]
    out = []

    def done(operation: Operation) -> None:
        units = operation.clusters if operation.engine == "clusters" else 1
        times = [operation.start_ns + occupancy.offset_ns, operation.end_ns + occupancy.offset_ns]
        out.append([operation.engine, *times, units, dict(operation.demand)])

    for number, (engine, ns, clusters, load, gap_ns) in enumerate(jobs):
        now_ns += gap_ns
        resource = "pcie_up" if engine == "cdma_up" else "l3"
        demand = {resource: size} if (size := int(load * ns * CAPACITY[resource])) else {}
        simulation.submit(
            Operation(
                "kernel", streams[number % 2], engine, ns, submit_ns=now_ns, demand=demand,
                clusters=clusters, on_done=done,
            )
        )  # fmt: skip
    simulation.finish_all()
    return out


JOBS = st.lists(
    st.tuples(
        st.sampled_from(("clusters", "clusters", "cdma_up", "sdma")), st.integers(1, 5000), st.integers(1, 2),
        st.sampled_from((0.0, 0.3, 0.9, 1.0, 1.5)), st.sampled_from((0, 0, 100, 3000)),
    ),
    max_size=12,
)  # fmt: skip


def start(environ: dict[str, str], text: str = _SIDE) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **environ, "PYTHONPATH": path},
    )  # fmt: skip


def ask(side: subprocess.Popen[str], *what: Any) -> None:
    assert side.stdin is not None
    side.stdin.write(json.dumps(what) + "\n")
    side.stdin.flush()


def told(side: subprocess.Popen[str]) -> Any:
    assert side.stdout is not None
    return json.loads(side.stdout.readline())


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[Any]]]:
    """Runs two processes' jobs at once, beside a third process that keeps the device's time."""
    environ = {"TOPS_STATE_DIR": str(tmp_path_factory.mktemp("state")), "TOPS_DEVICES": "s60"}
    machine = devices(environ)
    both = [start(environ) for _ in range(2)]
    begin_ns = 10**9

    def run(jobs: Sequence[list[Job]], together: int, apart_ns: int) -> list[Any]:
        nonlocal begin_ns
        begin_ns += 10**6
        machine[0].occupancy(lambda: Base(together, 0, begin_ns)).alone(begin_ns)
        for side, own, late_ns in zip(both, jobs, (0, apart_ns), strict=True):
            ask(side, own, begin_ns + late_ns, together, 0)
        return [done for side in both for done in told(side)]

    yield run
    for side in both:
        side.communicate()
    machine.close()


def check(done: list[Any]) -> None:
    """Engines are used once, and what lies whole in an interval is no more than can be moved in it."""
    for engine, begin, *_ in done:
        used = sum(units for e, b, n, units, _ in done if e == engine and b <= begin < n)
        assert used <= (SPEC.clusters if engine == "clusters" else 1)
    for resource, rate in CAPACITY.items():
        moved = [(b, n, demand[resource]) for _, b, n, _, demand in done if resource in demand]
        for begin, _, _ in moved:
            for end in (n for _, n, _ in moved if n > begin):
                inside = sum(size for b, n, size in moved if begin <= b and n <= end)
                assert inside <= rate * (end - begin + 1) + 1


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JOBS, JOBS, st.integers(0, 1), st.integers(0, 20_000))
def test_a_device_never_does_more_than_one_can(
    sides: Callable[..., list[Any]], one: list[Job], other: list[Job], together: int, apart_ns: int
) -> None:
    """Two processes run at once, with one session time, or each with its own."""
    done = sides((one, other), together, apart_ns)
    assert len(done) == len(one) + len(other)
    check(done)


def test_one_waits_for_the_other(machine: Devices, environ: dict[str, str]) -> None:
    """What a process alone has begun is waited for by one that comes."""
    occupancy = machine[0].occupancy(lambda: Base(7, 0, 1000))
    simulation = DeviceSimulation(SPEC, occupancy=occupancy)
    kernel = Operation("kernel", StreamQueue(simulation), "clusters", 5000, submit_ns=1000, clusters=2)
    simulation.submit(kernel)
    assert not occupancy.shared
    other = start(environ)
    ask(other, [("clusters", 300, 2, 0.0, 10)], 1000, 7, 0)
    assert told(other) == [["clusters", 6000, 6300, 2, {}]]
    assert occupancy.shared
    late = Operation("kernel", StreamQueue(simulation), "clusters", 50, submit_ns=2000, clusters=2)
    simulation.submit(late)
    simulation.finish_all()
    assert (kernel.start_ns, kernel.end_ns, late.start_ns) == (1000, 6000, 6300)
    other.communicate()
    assert occupancy.alone(9000)


def test_a_killed_process_gives_back_its_time(machine: Devices, environ: dict[str, str]) -> None:
    occupancy = machine[0].occupancy(lambda: Base(7, 0, 1000))
    occupancy.alone(1000)
    other = start(environ)
    ask(other, [("clusters", 10**9, 2, 0.0, 0)], 1000, 7, 0)
    assert told(other)[0][:3] == ["clusters", 1000, 10**9 + 1000]
    other.send_signal(signal.SIGKILL)
    other.communicate()
    occupancy._looked_ns = 0  # it looked just now
    simulation = DeviceSimulation(SPEC, occupancy=occupancy)
    kernel = Operation("kernel", StreamQueue(simulation), "clusters", 50, submit_ns=2000, clusters=2)
    simulation.submit(kernel)
    simulation.finish_all()
    assert (kernel.start_ns, kernel.end_ns) == (2000, 2050)
    assert not occupancy.shared
    assert machine[0].card.state.words[at.H_SHARERS] == 1


def test_slices_and_devices_have_times_of_their_own(tmp_path: Path) -> None:
    environ = {"TOPS_STATE_DIR": str(tmp_path), "TOPS_DEVICES": "s60"}
    card = devices(environ)[0].card
    card.set_drs(True)
    card.create_slices(2)
    ours = devices(environ)
    occupancy = ours[0].occupancy(lambda: Base(7, 0, 1000))
    occupancy.alone(1000)
    other = start(environ)
    ask(other, [("clusters", 10**6, 1, 0.0, 0)], 1000, 7, 1)
    assert told(other)[0][1] == 1000
    assert occupancy.alone(2000)
    other.communicate()
    ours.close()


def test_who_is_far_behind_is_put_beside_the_others(machine: Devices, environ: dict[str, str]) -> None:
    """A calendar forgets; who would have to be placed there has his time moved, and does not wait for it."""
    occupancy = machine[0].occupancy(lambda: Base(0, 0, 1000))
    occupancy.alone(1000)
    other = start(environ)
    ask(other, [("clusters", 10 + n % 7, 2, 0.0, 50) for n in range(3 * at.ENTRIES)], 1000, 0, 0)
    last_ns = told(other)[-1][2]
    simulation = DeviceSimulation(SPEC, occupancy=occupancy)
    kernel = Operation("kernel", StreamQueue(simulation), "clusters", 5, submit_ns=1001, clusters=2)
    simulation.submit(kernel)
    simulation.finish_all()
    assert kernel.end_ns < 1200
    assert kernel.end_ns + occupancy.offset_ns > last_ns / 4
    other.communicate()
