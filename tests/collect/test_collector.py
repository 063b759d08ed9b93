"""The collector as a process, and what it does with damage, full disks and producers of every kind."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout

from tops_kit.collect import (
    backend,
    collector,
    control,
    finishing,
    handle,
    rings,
    start,
    system,
    writing,
)
from tops_kit.collect.process import main
from tops_kit.collect.recovery import recover
from tops_kit.errors import SessionError
from tops_kit.session import Session, SessionWriter


@pytest.fixture
def made(recording: Path, loops: Any) -> Any:
    """A collector in the test's own process, to be driven by rounds."""
    writer = SessionWriter.create(recording)
    return collector.begin(recording, control.create(recording), writer, loops)


def close(made: collector.Collector) -> Session:
    finishing.finish(made, "complete")
    assert made.failure is None
    return Session.open(made.folder)


@pytest.mark.smoke
def test_every_kind_of_record_gets_its_row(made: Any, fake_process: Callable[..., Any]) -> None:
    process = fake_process(backend=layout.BACKEND_C)
    process.entry(layout.ENTRY_PROCESS, b'argv\0["a.out"]')
    work, attr = process.name("work"), process.attr("net", "io", 0xFF00FF00)
    counter = process.counter("load", "%")
    ring, now = process.ring(capacity=64, tid=42), time.monotonic_ns()
    ring.thread(42, now)
    ring.record(now, now + 10, work, attr=attr, depth=3, task=9)
    ring.record(now, now, work, kind=layout.KIND_MARK)
    ring.record(
        now, now + 5, work, flags=layout.FLAG_START_END, more=struct.pack("<BHI", layout.MORE_END_TID, 4, 43)
    )
    ring.record(now, struct.unpack("<Q", struct.pack("<d", -2.5))[0], counter, kind=layout.KIND_COUNTER)
    ring.record(now, now + 7, work, kind=layout.KIND_OVERHEAD)
    ring.record(now, now, work, kind=40)
    ring.record(now, now, 999)
    ring.record(now + 9, now + 3, work)
    ring.record(now + 20, now + 20, 0, kind=layout.KIND_THREAD_END, task=42)
    made.round()
    session = close(made)
    rows = session.table("tx").to_pylist()
    assert [row["style"] for row in rows] == ["PushPop", "Mark", "StartEnd", "PushPop", "PushPop"]
    first = rows[0]
    assert (first["domain"], first["category"], first["color"]) == ("net", "io", 0xFF00FF00)
    assert (first["depth"], first["task_id"], first["thread_id"], first["duration_ns"]) == (3, 9, 42, 10)
    assert abs(first["start_ns"] - time.time_ns()) < 60 * 10**9
    assert (rows[2]["end_thread_id"], rows[3]["name"], rows[4]["duration_ns"]) == (43, "?", 0)
    counters = session.table("counter").to_pylist()
    assert [(row["name"], row["unit"], row["value"]) for row in counters] == [("load", "%", -2.5)]
    assert session.table("overhead")["duration_ns"].to_pylist() == [7]
    thread = session.table("thread").to_pylist()[0]
    assert thread["end_ns"] - thread["start_ns"] == 20
    row = session.table("process").to_pylist()[0]
    assert (row["command"], row["recorder"], row["pid"]) == ('["a.out"]', "C", os.getpid())
    codes = {entry.code: entry.count for entry in session.ledger.entries if not entry.clean}
    assert codes == {"record_kind": 1, "unknown_name": 1, "ends_before_begin": 1}


def test_two_producers_of_one_process_are_one_row(
    made: Any, fake_process: Callable[..., Any], recording: Path
) -> None:
    producers = [fake_process(backend=layout.BACKEND_C), fake_process(backend=layout.BACKEND_HEADER)]
    for producer in producers:
        name, ring = producer.name(f"by {producer.header['backend']}"), producer.ring(capacity=8)
        now = time.monotonic_ns()
        ring.record(now, now, name)
        made.round()
    session = close(made)
    processes = session.table("process").to_pylist()
    assert [(row["pid"], row["recorder"]) for row in processes] == [(os.getpid(), "C, header")]
    assert session.table("tx")["name"].to_pylist() == ["by 1", "by 3"]


def test_damaged_files_are_ledger_lines_and_harm_no_others(
    made: Any, fake_process: Callable[..., Any], recording: Path
) -> None:
    good, nameless = fake_process(), fake_process(pid=2**22 + 1)
    name, ring, orphan = good.name("good"), good.ring(capacity=8), nameless.ring(capacity=8)
    now = time.monotonic_ns()
    ring.record(now, now, name)
    orphan.record(now, now, 5)
    nameless.path.write_bytes(b"garbage")
    (recording / "rings" / "abc.ring").write_bytes(b"garbage" * 1000)
    broken = good.ring(capacity=8)
    made.round()
    broken.set("head", 1 << 50)
    made.round()
    session = close(made)
    assert Counter(session.table("tx")["name"].to_pylist()) == Counter({"good": 1, "?": 1})
    codes = Counter(entry.code for entry in session.ledger.entries if not entry.clean)
    assert set(codes) == {"ring_file", "names_file", "no_names", "unknown_name", "names_damaged"}
    assert not (recording / "rings").exists()


def test_rings_are_deleted_when_their_producer_left_them(
    made: Any, fake_process: Callable[..., Any], recording: Path, wait_for: Callable[..., Any]
) -> None:
    process = fake_process()
    name, old = process.name("x"), process.ring(capacity=8)
    now = time.monotonic_ns()
    old.record(now, now, name)
    old.open(0, now, name)
    new = process.ring(capacity=16, predecessor=old.serial)
    new.open(0, now, name)
    idle = process.ring(capacity=8, state=layout.RING_IDLE)
    made.round()
    old.set("state", layout.RING_SUPERSEDED)
    made._last_lifecycle = 0.0
    made.round()
    wait_for(lambda: not old.path.exists(), "the superseded ring's deletion")
    assert new.path.exists()
    assert idle.path.exists()
    session = close(made)
    assert sorted(session.table("tx")["unfinished"].to_pylist()) == [False, True]


def test_a_range_that_ends_while_the_recording_stops_is_there_once(
    made: Any, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = fake_process()
    name, ring = process.name("x"), process.ring(capacity=8)
    begin = time.monotonic_ns()
    ring.open(0, begin, name)
    made.round()
    original = type(made).take_anchor

    def end_meanwhile(self: Any) -> Any:
        if ring.head == 0:
            ring.close_open(0)
            ring.record(begin, begin + 5, name)
        return original(self)

    monkeypatch.setattr(type(made), "take_anchor", end_meanwhile)
    rows = close(made).table("tx").to_pylist()
    assert [(row["unfinished"], row["duration_ns"]) for row in rows] == [(False, 5)]


def test_a_full_disk_stops_recording_and_recovery_finds_everything(
    made: Any, fake_process: Callable[..., Any], recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = fake_process()
    name, ring = process.name("x"), process.ring(capacity=64)
    now = time.monotonic_ns()
    for value in range(10):
        ring.record(now + value, now + value, name)
    made.round()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        import tops_kit.session.writer as session_writer

        patch.setattr(session_writer, "write_segment", full)
        assert made.rotate()
        made.wait_for_writer()
        assert isinstance(made.failure, SessionError)
        assert "disk is full" in str(made.failure)
        ring.record(now + 10, now + 10, name)
        finishing.finish(made, "complete")
        assert made.failure is not None
    assert made.control.policy == layout.POLICY_DROP
    assert made.control.recording == layout.RECORDING_OFF
    recover(recording)
    assert Session.open(recording).tables()["tx"] == 11


def test_a_disk_that_has_room_again_at_the_end_completes_the_session(
    made: Any, fake_process: Callable[..., Any], recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = fake_process()
    name, ring = process.name("x"), process.ring(capacity=64)
    ring.record(1, 1, name)
    made.round()
    with monkeypatch.context() as patch:
        import tops_kit.session.writer as session_writer

        patch.setattr(
            session_writer,
            "write_segment",
            lambda *a, **k: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")),
        )
        made.rotate()
        made.wait_for_writer()
        assert made.failure is not None
    ring.record(2, 2, name)
    session = close(made)
    assert session.tables()["tx"] == 2
    assert not session.ledger.clean  # says that recording stopped early


def test_many_processes_that_end_at_once_are_looked_for_once(
    made: Any, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        process = fake_process(pid=2**22 + 1 + number)
        process.ring(capacity=8).record(1, 2, process.name("x"))
    made.look()
    done: Counter[str] = Counter()
    with monkeypatch.context() as patch:
        for name, original in (("look", made.look), ("save_state", made.save_state)):
            patch.setattr(made, name, lambda n=name, do=original: (done.update([n]), do()))
        made.end_processes()
    assert done["look"] == 1
    assert done["save_state"] <= 2  # with the counts of the rings, and with the ends
    session = close(made)
    assert session.tables()["tx"] == 30
    assert {row["ended_by"] for row in session.table("process").to_pylist()} == {"unknown"}


def test_a_ring_that_no_file_is_left_for_is_taken_later(
    made: Any, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = fake_process()
    process.ring(capacity=8).record(1, 2, process.name("x"))
    with monkeypatch.context() as patch:

        def no_file(*_: Any) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        patch.setattr(rings.mmap, "mmap", no_file)
        made.round()
        assert len(made.table) == 0
    made.round()
    session = close(made)
    assert session.tables()["tx"] == 1
    assert session.ledger.clean


def test_watching_processes_leaves_files_for_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_file_limit", lambda: 0)
    with subprocess.Popen(["sleep", "1000"]) as process:
        status = system.stat(process.pid)
        assert status is not None
        watch = system.Watch(process.pid, status.start)
        assert watch.fd is None
        assert watch.alive()
        process.kill()
    assert not watch.alive()


def test_a_writing_thread_without_memory_is_a_failure_and_no_hang(
    recording: Path, loops: Any, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: Any) -> None:
        raise MemoryError("for columns")

    with monkeypatch.context() as patch, SessionWriter.create(recording) as writer:
        patch.setattr(writing.PartWriter, "warm_up", no_memory)
        made = collector.begin(recording, control.create(recording), writer, loops)
        process = fake_process()
        process.ring(capacity=8).record(1, 2, process.name("x"))
        made.round()
        made.rotate()
        assert made.writing.wait(0, 20)
        finishing.finish(made, "complete")
    assert isinstance(made.failure, MemoryError)
    recover(recording)
    assert Session.open(recording).tables()["tx"] == 1


def test_a_signal_after_the_end_writes_into_no_other_file(made: Any) -> None:
    close(made)
    pipes = [os.pipe() for _ in range(4)]  # they get the numbers that are free now
    made.wake()
    for read, write in pipes:
        os.close(write)
        assert os.read(read, 1) == b""
        os.close(read)


def test_texts_that_are_no_utf8_are_kept_with_escapes(made: Any) -> None:
    made.note("collector", "dropped:ring_file", 1, "ring file \udcff.ring")
    assert "ring file \\udcff.ring" in close(made).ledger.lines()[0]


def test_a_start_that_is_interrupted_leaves_no_process(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []

    def interrupted(process: subprocess.Popen[str]) -> str:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(handle, "_first_word", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(recording)
    assert started[0].returncode is not None


def test_a_collector_that_works_on_is_waited_for(recording: Path) -> None:
    held = start(recording)
    os.kill(held.process.pid, signal.SIGSTOP)  # as on a machine that gives it no time
    switches = control.open_control(recording)
    beating = threading.Event()

    def beat() -> None:
        while not beating.wait(0.02):
            switches.heartbeat += 1

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        held.process.terminate()
        threading.Timer(1.0, os.kill, (held.process.pid, signal.SIGCONT)).start()
        held.wait(patience_s=0.3)
    finally:
        beating.set()
        thread.join()
        held.process.kill()
    assert held.ended


def test_a_collector_that_does_nothing_is_given_up(recording: Path) -> None:
    held = start(recording)
    os.kill(held.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(SessionError, match=f"does not end; kill process {held.process.pid}"):
            held.wait(patience_s=0.2)
        assert not held.ended
    finally:
        held.process.kill()
        held.process.wait()


def test_the_process_is_ready_closes_on_request_and_leaves_only_the_session(
    recording: Path,
    fake_process: Callable[..., Any],
    wait_for: Callable[..., Any],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Files of the user's in the working folder are not for the collector, nor for what it starts.
    monkeypatch.chdir(recording.parent)
    (recording.parent / "numpy.py").write_text("print('loaded', flush=True)")
    monkeypatch.setenv("PYTHONPATH", str(recording.parent))
    with start(recording, command=["python", "x.py", "\udcff"]) as running:
        process = fake_process()
        name, ring = process.name("x"), process.ring(capacity=8)
        for value in range(30):
            wait_for(lambda: ring.room, "room that the collector makes")
            ring.record(value + 1, value + 1, name)
        assert running.process.poll() is None
    session = Session.open(recording)
    assert session.tables()["tx"] == 30
    assert session.info["status"] == "complete"
    assert "loaded" not in capfd.readouterr().out
    assert session.info["command"] == ["python", "x.py", "\\xff"]
    assert sorted(path.name for path in recording.iterdir()) == [".writer.lock", "segments", "session.json"]


def test_problems_at_the_start_are_one_line(recording: Path) -> None:
    with start(recording), pytest.raises(SessionError, match=r"exists|being recorded"):
        start(recording)
    with pytest.raises(SessionError, match="exists"):
        start(recording)
    with start(recording, overwrite=True):
        pass
    blocked = recording / "file"
    blocked.write_text("")
    with pytest.raises(SessionError) as caught:
        start(blocked / "x.topsprof")
    assert "\n" not in str(caught.value)


def test_interrupts_are_for_the_program(recording: Path, wait_for: Callable[..., Any]) -> None:
    with start(recording) as running:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(running.process.pid, number)
        beat = control.open_control(recording)
        before = beat.heartbeat
        wait_for(lambda: beat.heartbeat != before, "a heartbeat")
    assert Session.open(recording).info["status"] == "complete"


def test_the_help_of_the_module_needs_no_session(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    assert "folder" in capsys.readouterr().out


def test_the_twin_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPSKIT_PURE", "1")
    assert backend.load()[1] == "twin"
