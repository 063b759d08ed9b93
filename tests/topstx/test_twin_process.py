"""The Python twin over the life of a process: threads, forks, signals, full rings and disks, death."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout, twin, twin_names

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="recording needs a POSIX system")


READER: Any = sys.modules["ring_reader"]  # conftest.py has loaded it


@pytest.fixture
def attached(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Makes a session with the given options of its control file, and attaches."""

    def make(**options: Any) -> Path:
        folder: Path = READER.create_session(tmp_path / "session", **options)
        assert twin.attach(str(folder))
        return folder

    yield make
    twin.detach()


def finish(folder: Path) -> Any:
    twin.detach()
    return READER.read_recording(folder).only


def run(folder: Path, code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh Python that records into `folder` through the twin."""
    head = f"import os, sys\nfrom topstx.recorder import twin\nassert twin.attach({str(folder)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.002)


# -- rings --------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_ring_grows_and_keeps_open_ranges_of_any_depth(attached: Any) -> None:
    folder = attached(policy=layout.POLICY_DROP)
    for depth in range(2000):
        twin.push_range("deep", payload=depth)
    for _ in range(1500):
        twin.pop_range()
    process = finish(folder)
    assert [r.depth for r in process.of()] == list(range(1999, 499, -1))
    assert [r.payload for r in process.of()] == list(range(1999, 499, -1))
    assert sorted(r.depth for r in process.open) == list(range(500))
    assert process.dropped == 0
    assert len([ring for ring in process.rings if ring["state"] == layout.RING_SUPERSEDED]) >= 2


def test_a_full_ring_drops_and_counts_exactly(attached: Any) -> None:
    folder = attached(policy=layout.POLICY_DROP, ring_max_records=1024)
    for number in range(3000):
        twin.mark("m", payload=number if number % 2 else None)
    process = finish(folder)
    assert 0 < len(process.records) < 1024
    assert len(process.records) + process.dropped == 3000


def test_block_waits_for_the_collector_and_says_so(attached: Any) -> None:
    folder = attached(policy=layout.POLICY_BLOCK, ring_max_records=1024)
    stop = threading.Event()

    def beat() -> None:
        """The collector's sign of life."""
        with (folder / "control").open("r+b") as file:
            while not stop.wait(0.05):
                file.seek(layout.CONTROL_OFFSET["heartbeat_ns"])
                file.write(struct.pack("<Q", time.monotonic_ns()))
                file.flush()

    def work() -> None:
        for _ in range(1500):
            twin.mark("m")

    threads = [threading.Thread(target=target) for target in (beat, work)]
    for thread in threads:
        thread.start()
    rings = folder / "rings"
    wait_until(lambda: [ring for ring in rings.iterdir() if ring.stat().st_size])
    (ring,) = rings.iterdir()

    def header() -> dict[str, Any]:
        data = ring.read_bytes()[: layout.RING_HEADER_BYTES]
        return dict(zip(layout.RING_FIELDS, struct.unpack_from(layout.RING_FORMAT, data), strict=True))

    wait_until(lambda: header()["head"] >= 1000)
    time.sleep(0.02)
    assert threads[1].is_alive(), "it went on although the ring is full"
    with ring.open("r+b") as file:  # the collector takes what is there
        file.seek(layout.RING_OFFSET["tail"])
        file.write(struct.pack("<Q", header()["head"]))
    threads[1].join(20)
    stop.set()
    threads[0].join(20)
    assert not threads[1].is_alive()
    process = finish(folder)
    assert process.dropped == 0
    assert len(process.of(layout.KIND_OVERHEAD)) == 1
    assert sum(r["blocked_ns"] for r in process.rings) > 0


def test_block_turns_into_drop_when_no_collector_lives(attached: Any) -> None:
    folder = attached(policy=layout.POLICY_BLOCK, ring_max_records=1024)
    for _ in range(3000):
        twin.mark("m")
    process = finish(folder)
    assert len(process.records) + process.dropped == 3000


def test_threads_share_a_pool_of_rings(attached: Any) -> None:
    folder = attached()

    def work() -> None:
        for _ in range(10):
            with twin.annotate("w"):
                pass

    for _ in range(100):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    # A thread's ring returns a little after its join.
    assert len(list((folder / "rings").iterdir())) < 10
    process = finish(folder)
    assert len(process.records) == 1000
    assert len({record.tid for record in process.records}) == 100


def test_the_bytes_of_all_rings_are_bounded(attached: Any) -> None:
    folder = attached(process_max_bytes=200_000, policy=layout.POLICY_DROP)
    barrier = threading.Barrier(6)

    def work() -> None:
        barrier.wait(10)
        twin.mark("m")
        barrier.wait(10)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process = finish(folder)
    assert sum(path.stat().st_size for path in (folder / "rings").iterdir()) <= 200_000
    assert process.header["lost_threads"] == 3 == process.header["lost_records"]
    assert len(process.records) == 3


@pytest.mark.parametrize("name", ["rings", "names"])
def test_a_folder_that_goes_away_is_no_exception(attached: Any, name: str) -> None:
    folder = attached()
    twin.mark("before")
    for path in (folder / name).iterdir():
        path.unlink()
    (folder / name).rmdir()
    for number in range(5000):
        with twin.annotate(f"name {number}", payload="x" * 100):
            pass
    thread = threading.Thread(target=twin.mark, args=("in a thread",))
    thread.start()
    thread.join()


def test_a_full_disk_loses_and_counts(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    folder = READER.create_session(tmp_path / "session", policy=layout.POLICY_DROP)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))

    done = run(
        folder,
        """
        for number in range(6000):
            twin.mark(f"name {number}")
        print("done")
        """,
        preexec_fn=limit,
    )
    assert done.stdout == "done\n", done.stderr
    process = READER.read_recording(folder).only
    marks = process.of(layout.KIND_MARK)
    assert len(marks) + process.dropped == 6000
    assert process.header["lost_names"] > 0


def test_names_past_the_limit_are_counted(attached: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "NAMES_MAX", 50)
    folder = attached()
    for number in range(100):
        twin.mark(f"name {number}")
    process = finish(folder)
    assert len(process.records) == 100
    assert (
        process.header["too_many"] == len([r for r in process.records if not r.name.startswith("name")]) > 40
    )


# -- descriptors, signals -----------------------------------------------------------------------------------


def test_no_descriptor_is_kept(attached: Any) -> None:
    fds = Path("/proc/self/fd")
    if not fds.is_dir():
        pytest.skip("no /proc")
    before = len(list(fds.iterdir()))
    attached()
    twin.push_range("a")
    twin.start_range("b")
    assert len(list(fds.iterdir())) == before


def test_the_mmap_module_serves_where_there_is_no_ctypes(
    attached: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    folder = attached()
    for _ in range(3000):
        with twin.annotate("a"):
            pass
    process = finish(folder)
    assert len(process.records) == 3000


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer")
def test_signal_handlers_record_in_the_midst_of_records(attached: Any) -> None:
    folder = attached(policy=layout.POLICY_DROP)
    handled = 0

    def handler(*_: object) -> None:
        nonlocal handled
        twin.push_range("signal")
        twin.mark("mark")
        twin.pop_range()
        handled += 1

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    made = 0
    try:
        while handled < 40:
            with twin.annotate("work", payload=made):
                made += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    process = finish(folder)
    lost = process.dropped + process.header["lost_records"]
    assert len(process.records) + lost == 2 * handled + made
    assert not process.open and process.unbalanced == 0


@pytest.mark.parametrize("size", [8, 60_000])
def test_a_name_that_a_signal_handler_adds_within_another_ones_entry(
    attached: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Where functions are called a handler may run: it adds names of its own, and the file may grow."""
    folder = attached()
    entry = twin_names._ENTRY
    handled: list[str] = []

    class Interrupted:
        def pack(self, *values: Any) -> bytes:
            if len(handled) < 40:
                handled.append(f"{'h' * min(size, 4000)}{len(handled)}")
                twin.mark(handled[-1])
            return entry.pack(*values)

    monkeypatch.setattr(twin_names, "_ENTRY", Interrupted())
    marks = [f"outer {number}" for number in range(4)]
    for text in marks:
        twin.mark(text, payload="p" * size)
    process = finish(folder)
    assert len(handled) == 40
    assert sorted(process.names(layout.KIND_MARK)) == sorted(marks + handled)


# -- processes ----------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_fork_child_is_a_process_of_its_own(tmp_path: Path) -> None:
    folder = READER.create_session(tmp_path / "session")
    done = run(
        folder,
        """
        twin.push_range("parent")
        started = twin.start_range("started")
        entered = twin.annotate("entered")
        entered.__enter__()
        if os.fork() == 0:
            entered.__exit__(None, None, None)  # these are the parent's
            twin.end_range(started)
            twin.pop_range()
            with twin.annotate("child"):
                twin.mark("parent")  # a name that the parent's file has
            twin.note_exit(1, 7)
            os._exit(7)
        os.wait()
        entered.__exit__(None, None, None)
        twin.end_range(started)
        twin.pop_range()
        """,
    )
    assert done.returncode == 0, done.stderr
    parent, child = READER.read_recording(folder).processes
    assert sorted(parent.names()) == ["entered", "parent", "started"]
    assert child.names() == ["child"] and child.names(layout.KIND_MARK) == ["parent"]
    assert child.header["parent_serial"] == parent.header["process_serial"]
    assert (child.header["exit_known"], child.header["exit_status"]) == (1, 7)
    assert child.header["parent_pid"] == parent.pid != child.pid
    assert not parent.open and not child.open
    assert (parent.unbalanced, child.unbalanced) == (0, 1)
    assert {ring["state"] for ring in parent.rings} == {layout.RING_RETIRED}


@pytest.mark.parametrize("way", ["os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_nothing_published_is_lost_in_a_sudden_death(tmp_path: Path, way: str) -> None:
    folder = READER.create_session(tmp_path / "session")
    done = run(
        folder,
        f"""
        twin.start_range("across", payload="p")
        twin.push_range("outer", domain="d")
        for number in range(2500):
            with twin.annotate("done", payload=number):
                pass
        with twin.annotate("inner", payload=12):
            {way}
        """,
    )
    assert done.returncode in (-9, 3), done.stderr
    process = READER.read_recording(folder).only
    assert [record.payload for record in process.of()] == list(range(2500))
    assert [(r.name, r.domain, r.payload, r.depth) for r in sorted(process.open, key=lambda r: r.begin)] == [
        ("across", "", "p", 0),
        ("outer", "d", None, 0),
        ("inner", "", 12, 1),
    ]


def test_other_sessions_and_none(tmp_path: Path) -> None:
    assert not twin.attach(str(tmp_path / "absent"))
    (tmp_path / "control").write_bytes(b"x" * 4096)
    assert not twin.attach(str(tmp_path))
    first, second = (READER.create_session(tmp_path / name) for name in ("first", "second"))
    assert twin.attach(str(first)) and twin.attach(str(first))
    twin.push_range("left open")
    assert twin.attach(str(second)) and twin.session() == str(second)
    twin.pop_range()
    twin.mark("here")
    assert finish(second).names(layout.KIND_MARK) == ["here"]
    left = READER.read_recording(first).only
    assert [r.name for r in left.open] == ["left open"] and left.header["end_tick"]
    assert not twin.is_recording()


@pytest.mark.parametrize("end", range(4))
def test_armed_recording_waits_for_its_range(attached: Any, end: int) -> None:
    folder = attached(
        recording=layout.RECORDING_ARMED,
        capture_name="step",
        capture_domain="train",
        capture_end=end,
        capture_repeats=2,
    )
    for _ in range(3):
        twin.mark("between")
        twin.push_range("step")  # of another domain
        with twin.annotate("step", domain="train"):
            twin.mark("within")
        twin.pop_range()
    control = READER.get_control(folder)
    process = finish(folder)
    captured = {0: 1, 1: 1, 2: 1, 3: 2}[end]
    marks = process.names(layout.KIND_MARK)
    if end == layout.CAPTURE_END_NONE:
        assert marks == ["within", "between", "within", "between", "within"]
    else:
        assert marks == ["within"] * captured
    assert control["capture_count"] == captured
    assert control["shutdown_request"] == (end == layout.CAPTURE_END_STOP_SHUTDOWN)


def test_pushes_while_off_pair_with_their_pops(attached: Any) -> None:
    folder = attached()
    twin.push_range("kept")
    READER.set_control(folder, recording=layout.RECORDING_OFF)
    twin.push_range("unseen")
    READER.set_control(folder, recording=layout.RECORDING_ON)
    twin.pop_range()
    twin.push_range("inner")
    READER.set_control(folder, recording=layout.RECORDING_OFF)
    twin.pop_range()  # begun while on, so it counts
    READER.set_control(folder, recording=layout.RECORDING_ON)
    twin.pop_range()
    process = finish(folder)
    assert [(r.name, r.depth) for r in process.of()] == [("inner", 1), ("kept", 0)]
    assert process.unbalanced == 0


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({"domain_include": ("a",)}, ["a"]),
        ({"domain_exclude": ("a",)}, ["", "b"]),
        ({"domain_include": ("default", "b")}, ["", "b"]),
        ({"domain_exclude": ("default",)}, ["a", "b"]),
    ],
)
def test_filtered_domains_record_nothing(attached: Any, options: dict[str, Any], seen: list[str]) -> None:
    folder = attached(**options)
    for name in (None, "a", "b"):
        domain = twin.get_domain(name)
        domain.push_range("r")
        domain.mark("m")
        domain.counter("c", "u").sample(1)
        domain.end_range(domain.start_range("s"))
        with domain.annotate("w"):
            pass
        domain.pop_range()
    process = finish(folder)
    assert sorted({record.domain for record in process.records}) == seen
    assert len(process.records) == 5 * len(seen)
    assert process.unbalanced == 0
