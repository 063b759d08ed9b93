"""A collector that dies at any moment neither loses nor repeats a published record: every step is tried as
its last.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout

from tops_kit.collect import backend, collector, control, finishing, journal, rings, state, sweeping, writing
from tops_kit.collect.recovery import recover
from tops_kit.errors import SessionError
from tops_kit.session import Session, SessionWriter, compact


@pytest.fixture(autouse=True)
def _small_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making large files is all that these tests would wait for."""
    monkeypatch.setattr(journal, "SIZES", (1 << 18,))


class Killed(BaseException):
    """The process ends here."""


class _Inline:
    """Stands for the writing thread: parts are written at once, so that a test can stop anywhere."""

    def __init__(self, part_writer: writing.PartWriter) -> None:
        self._part_writer = part_writer
        self.failure: Exception | None = None
        self.pending = 0

    def wait(self, pending: int, timeout_s: float) -> bool:
        return True

    def submit(self, part: Any, clock: Any) -> None:
        self._part_writer.write(part, clock)

    def stop(self) -> None:
        pass


class _InlineSweeper:
    """Stands for the thread that deletes files."""

    def __init__(self) -> None:
        self.pending: set[str] = set()

    def remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def stop(self) -> None:
        pass


@contextmanager
def dying_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Everything that changes something on disk counts as one step before it and one after it; the given
    one is the last.
    """
    taken: list[str] = []

    def wrap(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            for after in (False, True):
                if after:
                    result = original(*args, **kwargs)
                taken.append(f"{'after' if after else 'before'} {name}")
                if len(taken) == step:
                    raise Killed(taken[-1])
            return result

        patch.setattr(owner, name, run)

    with monkeypatch.context() as patch:
        import tops_kit.session.writer as session_writer

        wrap(session_writer, "write_segment")
        wrap(session_writer, "write_json")
        wrap(journal.Part, "restart")
        wrap(journal.Part, "append_open")
        wrap(rings.Ring, "mark_open_taken")
        wrap(state.State, "save")
        wrap(Path, "unlink")
        wrap(sweeping.shutil, "rmtree")
        yield taken


def new_collector(folder: Path) -> collector.Collector:
    loops, _ = backend.load()
    writer = SessionWriter.create(folder)
    return collector.begin(folder, control.create(folder), writer, loops)


def kill(made: collector.Collector) -> None:
    """Let the collector end as a killed one does: nothing more is written."""
    made.writing.stop()
    made.writer.abandon()


def inline(made: collector.Collector) -> collector.Collector:
    made.writing.stop()
    made.writing = _Inline(made.part_writer)  # type: ignore[assignment]
    made.sweeper = _InlineSweeper()  # type: ignore[assignment]
    return made


def produce(fake_process: Callable[..., Any]) -> Counter[tuple[str, bool]]:
    """Two processes: one that lives (the test itself) and one that is gone; with open ranges and a
    superseded ring.
    """
    now = time.monotonic_ns()
    expected: Counter[tuple[str, bool]] = Counter()
    for pid in (os.getpid(), 2**22 + 5):
        process = fake_process(pid=pid)
        process.set(proc_start=process.header["proc_start"] or 1)
        name, other = process.name(f"work {pid}"), process.name(f"open {pid}")
        counter = process.counter("load", "%")
        old = process.ring(capacity=16)
        for value in range(10):
            old.record(now + value, now + value + 1, name)
        old.set("state", layout.RING_SUPERSEDED)
        old.open(0, now, other)  # the successor has it
        new = process.ring(capacity=32, predecessor=old.serial)
        new.set("last_tick", now + 100)
        for value in range(12):
            new.record(now + 20 + value, now + 21 + value, name)
        new.record(now, struct.unpack("<Q", struct.pack("<d", 1.5))[0], counter, kind=layout.KIND_COUNTER)
        new.open(0, now, other)
        new.open(3, now + 5, other)
        new.set("dropped", 7)
        expected[f"work {pid}", False] += 22
        expected[f"open {pid}", True] += 2
        expected["load", False] += 1
    return expected


def found(folder: Path) -> Counter[tuple[str, bool]]:
    session = Session.open(folder)
    tx = session.table("tx", ["name", "unfinished"])
    rows = Counter(zip(tx["name"].to_pylist(), tx["unfinished"].to_pylist(), strict=True))
    rows.update((name, False) for name in session.table("counter", ["name"])["name"].to_pylist())
    return rows


def work(made: collector.Collector) -> None:
    """A whole recording; what `dying_at` raises ends it as a kill would."""
    try:
        for _ in range(3):
            made.round()
            made.rotate()
            made._last_lifecycle = 0.0
        finishing.finish(made, "complete")
    except Killed:
        made.writer.abandon()
        raise
    assert made.failure is None


def count_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    made = inline(new_collector(folder))
    with dying_at(0, monkeypatch) as taken:
        work(made)
    return len(taken)


@pytest.mark.slow
def test_a_kill_at_any_step_loses_and_repeats_nothing(
    tmp_path: Path, fake_process_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fresh(name: str) -> tuple[Path, Counter[tuple[str, bool]]]:
        folder = tmp_path / name
        (folder / "rings").mkdir(parents=True)
        (folder / "names").mkdir()
        return folder, produce(lambda **options: fake_process_in(folder, **options))

    folder, expected = fresh("whole")
    steps = count_steps(folder, monkeypatch)
    assert found(folder) == expected
    assert steps > 40
    for step in range(1, steps + 1):
        folder, expected = fresh(f"at-{step}")
        made = inline(new_collector(folder))
        with dying_at(step, monkeypatch) as taken, pytest.raises(Killed):
            work(made)
        where = f"step {step} of {steps}: {taken[-1]}"
        recover(folder)  # has nothing to do when the kill came after the removal of `control`
        assert found(folder) == expected, where
        assert not (folder / "control").exists(), where
        assert sorted(path.name for path in folder.iterdir()) == [
            ".writer.lock",
            "segments",
            "session.json",
        ], where
        assert recover(folder) == [], where
        ledger = Session.open(folder).ledger
        assert ledger.total("written") == sum(expected.values()), where


@pytest.mark.slow
def test_a_recovery_that_is_killed_can_be_repeated(
    tmp_path: Path, fake_process_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tops_kit.collect.collector.WritingThread", lambda part_writer, *_: _Inline(part_writer)
    )
    monkeypatch.setattr("tops_kit.collect.collector.Sweeper", _InlineSweeper)
    for step in range(1, 200):
        folder = tmp_path / f"r{step}"
        (folder / "rings").mkdir(parents=True)
        (folder / "names").mkdir()
        expected = produce(lambda folder=folder, **options: fake_process_in(folder, **options))
        made = new_collector(folder)
        made.round()
        made.writer.abandon()  # killed with everything in the journal
        try:
            with dying_at(step, monkeypatch) as taken:
                recover(folder)
        except Killed:
            _release_locks(folder)
            recover(folder)
            assert found(folder) == expected, taken[-1]
            continue
        assert found(folder) == expected
        assert step > 30
        return
    raise AssertionError("recovery never ended")


def _release_locks(folder: Path) -> None:
    """A kill lets go of the lock; an exception in the test's own process doesn't."""
    import gc

    gc.collect()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = entry.readlink()
        except OSError:
            continue
        if target == folder / ".writer.lock":
            os.close(int(entry.name))


@pytest.mark.smoke
def test_recovery_says_what_it_did_and_then_has_nothing_to_do(
    recording: Path, fake_process: Callable[..., Any]
) -> None:
    made = new_collector(recording)
    expected = produce(fake_process)
    made.round()
    kill(made)
    messages = recover(recording)
    assert len(messages) == 1
    assert f"recovered {sum(expected.values())} records" in messages[0]
    assert found(recording) == expected
    assert Session.open(recording).info["status"] == "crashed"
    assert recover(recording) == []
    processes = Session.open(recording).table("process").to_pylist()
    by_pid = {row["pid"]: row for row in processes}
    assert by_pid[os.getpid()]["ended_by"] is None
    assert by_pid[2**22 + 5]["ended_by"] == "unknown"


def test_a_session_that_is_being_recorded_is_not_recovered(recording: Path) -> None:
    made = new_collector(recording)
    with pytest.raises(SessionError, match="nothing to recover"):
        recover(recording)
    finishing.finish(made, "complete")


def test_what_is_no_session_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="does not exist"):
        recover(tmp_path / "nowhere")
    control.create(tmp_path)
    with pytest.raises(SessionError, match=r"no session\.json"):
        recover(tmp_path)
    (tmp_path / "control").unlink()
    with pytest.raises(SessionError, match="is no session"):
        recover(tmp_path)


@pytest.mark.parametrize(
    "left", [None, b"", b"{", b'{"format": [1, 0]}'], ids=["gone", "empty", "cut", "part"]
)
@pytest.mark.parametrize("crashed", [False, True])
def test_a_damaged_manifest_is_made_anew(
    left: bytes | None, crashed: bool, recording: Path, fake_process: Callable[..., Any]
) -> None:
    made = new_collector(recording)
    expected = produce(fake_process)
    made.round()
    if crashed:
        made.rotate()
        made.wait_for_writer()
        kill(made)
    else:
        finishing.finish(made, "complete")
    manifest = recording / "session.json"
    manifest.unlink() if left is None else manifest.write_bytes(left)
    if not crashed:
        with pytest.raises(SessionError, match=r"`topsprof recover .*` makes a new one"):
            Session.open(recording)
    messages = recover(recording)
    assert "made a new session.json" in messages[0]
    assert len(messages) == 1 + crashed
    assert found(recording) == expected
    session = Session.open(recording)
    assert (session.info["kind"], session.info["status"]) == ("recording", "crashed")
    assert any("the command, the attributes" in line for line in session.ledger.lines())
    assert recover(recording) == []
    damaged = recording / "session.json.damaged"
    assert (damaged.read_bytes() if damaged.exists() else None) == left


def test_a_damaged_session_without_segments_is_one_line(recording: Path) -> None:
    (recording / "session.json").write_text("{")
    with pytest.raises(SessionError, match="no segment beside it can be read"):
        recover(recording)


def test_what_a_newer_version_wrote_is_not_recovered(recording: Path) -> None:
    finishing.finish(new_collector(recording), "complete")
    manifest = json.loads((recording / "session.json").read_text())
    (recording / "session.json").write_text(json.dumps(manifest | {"format": [9, 0]}))
    with pytest.raises(SessionError, match=r"has format 9\.0.*upgrade tops-kit"):
        recover(recording)


@pytest.mark.parametrize("content", [b"", bytes(4096), b"garbage" * 1000])
def test_a_damaged_control_file_costs_no_records(
    content: bytes, recording: Path, fake_process: Callable[..., Any]
) -> None:
    made = new_collector(recording)
    expected = produce(fake_process)
    made.round()
    kill(made)
    (recording / "control").unlink()  # the dead collector's mapping stays whole
    (recording / "control").write_bytes(content)
    recover(recording)
    assert found(recording) == expected
    assert "control" in {entry.code for entry in Session.open(recording).ledger.entries if not entry.clean}
    assert recover(recording) == []


def test_a_recording_of_another_version_is_left_alone(recording: Path) -> None:
    made = new_collector(recording)
    kill(made)
    struct.pack_into("<I", made.control.memory, 8, layout.LAYOUT_VERSION + 1)
    with pytest.raises(SessionError, match="another version"):
        recover(recording)
    assert (recording / "control").exists()


def test_a_damaged_state_or_clock_file_costs_no_records(
    recording: Path, fake_process: Callable[..., Any]
) -> None:
    made = new_collector(recording)
    expected = produce(fake_process)
    made.round()
    kill(made)
    (recording / "collector.json").write_text("{")
    (recording / "clock").write_bytes(b"nothing")
    recover(recording)
    assert found(recording) == expected


def test_records_published_after_the_collectors_death_are_recovered(
    recording: Path, fake_process: Callable[..., Any]
) -> None:
    made = new_collector(recording)
    process = fake_process()
    name, ring = process.name("late"), process.ring(capacity=64)
    ring.record(time.monotonic_ns(), time.monotonic_ns(), name)
    made.round()
    kill(made)
    for _ in range(20):
        ring.record(time.monotonic_ns(), time.monotonic_ns(), process.name("later"))
    recover(recording)
    assert found(recording) == Counter({("late", False): 1, ("later", False): 20})


def test_a_kill_before_a_part_is_emptied_repeats_nothing_however_many_rows_there_are(
    recording: Path, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: rows past a limit went into segments that didn't say what they hold."""

    def killed(*_: Any) -> None:
        raise Killed

    made = inline(new_collector(recording))
    expected = produce(fake_process)
    made.round()
    with monkeypatch.context() as patch:
        patch.setattr("tops_kit.session.writer.FLUSH_ROWS", 4)
        patch.setattr("tops_kit.session.writer.FLUSH_BYTES", 1)
        patch.setattr(journal.Part, "restart", killed)
        with pytest.raises(Killed):
            made.rotate()
    made.writer.abandon()
    recover(recording)
    assert found(recording) == expected


def test_a_compaction_in_between_keeps_what_segments_say_of_the_journal(
    recording: Path, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = inline(new_collector(recording))
    expected = produce(fake_process)
    made.round()

    def killed(*_: Any) -> None:
        raise Killed

    # Written to segments, which are merged; but the part was not emptied any more.
    monkeypatch.setattr(journal.Part, "restart", killed)
    with pytest.raises(Killed):
        made.rotate()
    monkeypatch.undo()
    compact(recording)
    assert Session.open(recording).segments("tx")[0].level == "lanes"
    made.writer.abandon()
    recover(recording)
    assert found(recording) == expected
