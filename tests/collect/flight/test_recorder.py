"""A collector that keeps its last seconds, in the test's own process."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topstx.recorder import layout

from tops_kit.collect import collector, control, finishing
from tops_kit.collect.flight import plan, snapshots
from tops_kit.collect.flight.plan import FlightPlan, Request
from tops_kit.collect.recovery import recover
from tops_kit.session import Session, SessionWriter


class Flight:
    """A recording of a fake process."""

    def __init__(self, folder: Path, loops: Any, **options: Any) -> None:
        self.folder = folder
        FlightPlan(60, str(folder.with_suffix("")) + "-%s%n", **options).save(folder)
        writer = SessionWriter.create(folder)
        self.collector = collector.begin(folder, control.create(folder), writer, loops)

    def ask(self, **fields: Any) -> dict[str, Any]:
        """Ask, and drive the collector until there is an answer."""
        key = plan.ask(self.folder, Request("command", **fields))
        deadline = time.monotonic() + 30
        while (found := plan.reply(self.folder, key)) is None:
            assert time.monotonic() < deadline and self.collector.failure is None
            self.collector.round()
            time.sleep(0.002)
        return found

    def close(self) -> Session:
        finishing.finish(self.collector, "complete")
        assert self.collector.failure is None
        return Session.open(self.folder)


@pytest.fixture
def flight(recording: Path, loops: Any) -> Any:
    return lambda **options: Flight(recording, loops, **options)


def test_open_ranges_are_told_from_those_that_just_ended(
    flight: Any, fake_process: Callable[..., Any]
) -> None:
    one = flight()
    process = fake_process()
    name, ring, now = process.name("x"), process.ring(capacity=64), time.monotonic_ns()
    ring.open(0, now, name)
    ring.open(1, now + 5, name, depth=1)
    ring.record(now + 5, now + 9, name, depth=1)  # it ended: its place in the table is not cleared yet
    first = Session.open(one.ask()["path"])
    rows = sorted(first.table("tx").to_pylist(), key=lambda row: row["start_ns"])
    assert [(row["unfinished"], row["depth"]) for row in rows] == [(True, 0), (False, 1)]
    ring.close_open(0)
    ring.close_open(1)
    ring.record(now, now + 20, name)
    second = Session.open(one.ask()["path"])
    assert sorted(second.table("tx")["unfinished"].to_pylist()) == [False, False]
    session = one.close()
    assert session.tables()["tx"] == 2  # the recording itself has each once
    for each in (first, second, session):
        assert each.ledger.clean
        assert each.ledger.total("written", f"process:{os.getpid()}") == each.tables()["tx"] - (each is first)


def test_a_snapshot_that_can_not_be_written_harms_nothing(
    flight: Any, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = flight()
    process = fake_process()
    name, ring = process.name("x"), process.ring(capacity=64)
    ring.record(1, 2, name)
    assert one.ask(output=str(one.folder / "no" / "where")).get("error")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tops_kit.collect.flight.retention._link", full)
        assert "the disk is full" in one.ask()["error"]
    ring.record(3, 4, name)
    assert Session.open(one.ask()["path"]).tables()["tx"] == 2
    assert not list(one.folder.glob("snapshots/stage*"))
    session = one.close()
    assert session.tables()["tx"] == 2
    assert session.ledger.total("dropped", "snapshots", "failed") == 2 and not session.ledger.clean


def test_without_links_files_are_copied(
    flight: Any, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = flight()
    process = fake_process()
    process.ring(capacity=64).record(1, 2, process.name("x"))

    def none(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    rename = Path.rename

    def elsewhere(self: Path, target: Path) -> Path:
        if self.parent.name == "snapshots":
            raise OSError(errno.EXDEV, "another disk")
        return rename(self, target)

    monkeypatch.setattr(os, "link", none)
    monkeypatch.setattr(Path, "rename", elsewhere)
    output = tmp_path / "other.topsprof"
    assert one.ask(output=str(output)) == {
        "path": str(output), "by": "command", "why": "", "label": "", "rows": 1,
    }  # fmt: skip
    assert Session.open(output).tables()["tx"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case.topsprof", "other.topsprof"]
    monkeypatch.undo()
    one.close()


def test_a_full_disk_costs_the_oldest_part_of_the_window(
    flight: Any, fake_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = flight()
    process = fake_process()
    name, ring, made = process.name("x"), process.ring(capacity=64), one.collector
    for number in range(1, 5):
        ring.record(number, number, name)
        made.round()
        made.rotate()
        made.wait_for_writer()
    import tops_kit.session.writer as session_writer

    write, failures = session_writer.write_segment, [1, 1]

    def full(*args: Any, **named: Any) -> None:
        if failures:
            failures.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*args, **named)

    monkeypatch.setattr(session_writer, "write_segment", full)
    ring.record(5, 5, name)
    made.round()
    made.rotate()
    made.wait_for_writer()
    assert made.failure is None
    session = one.close()
    assert 1 <= session.tables()["tx"] < 4
    lost = session.ledger.total("dropped", "window:tx", "window_size")
    assert lost + session.tables()["tx"] == 5 and not session.ledger.clean


def test_a_crash_leaves_window_and_ledger_to_recovery(
    flight: Any, fake_process: Callable[..., Any], recording: Path
) -> None:
    one = flight(keep_bytes=1)
    process = fake_process()
    name, ring, made = process.name("x"), process.ring(capacity=64), one.collector
    for number in range(1, 4):
        ring.record(number, number, name)
        made.round()
        made.rotate()
        made.wait_for_writer()
        with made.part_writer.lock:
            made.flight.window.age()
    ring.record(9, 9, name)  # only in the ring
    (recording / "snapshots" / f"{snapshots.STAGE}7" / "segments").mkdir(parents=True)
    made.writing.stop()
    made.writer.abandon()  # as if it had been killed
    recover(recording)
    session = Session.open(recording)
    assert session.info["status"] == "crashed"
    assert session.tables()["tx"] == 2
    assert not (recording / "snapshots").exists()


def test_processes_that_ended_before_the_window_are_forgotten(
    flight: Any, fake_process: Callable[..., Any], recording: Path
) -> None:
    one = flight()
    made = one.collector
    parent = fake_process()
    parent.ring(capacity=8).record(1, 2, parent.name("p"))
    gone = [fake_process(pid=2**22 + 1 + number) for number in range(5)]
    for process in gone:
        process.ring(capacity=8).record(1, 2, process.name("x"))
    forked = fake_process(pid=2**22 + 100)
    child = fake_process(parent=forked, serial=77)  # it lives, and its first names are those of `forked`
    child.ring(capacity=8).record(1, 2, 1)
    made.round()
    made.end_processes()
    made.rotate()
    made.wait_for_writer()
    numbers = {row.process_id: row.number for row in made.processes.rows.values()}
    rows = made.processes.forget(time.time_ns() + 10**12)
    assert {row.pid for row in rows} == {process.pid for process in gone}
    assert made.processes.forget(time.time_ns() + 10**12) == []
    assert {row.process_id: row.number for row in made.processes.rows.values()}.items() <= numbers.items()
    later = fake_process(pid=2**22 + 200)
    made.look()
    assert made.processes.by_serial[later.serial].number == len(numbers) + 1
    one.close()


def test_requests_that_are_none_are_thrown_away(flight: Any, recording: Path) -> None:
    one = flight(ask_limit=2)
    folder = recording / plan.FOLDER
    (folder / "a.request").write_text("{")
    (folder / "b.request").write_text("[]")
    (folder / "c.request").write_bytes(b"\xff\xfe")
    for number in range(5):
        (folder / f"{number}.request").write_text(json.dumps({"who": "program", "label": f"n{number}"}))
    one.ask(label="mine")
    assert not list(folder.glob("*.request"))
    session = one.close()
    assert session.ledger.total("dropped", "snapshots", "held_back") == 3
    assert [each["label"] for each in session.info["attributes"]["snapshots"]].count("mine") == 1
    assert len(session.info["attributes"]["snapshots"]) == 3


def test_the_clock_keeps_what_the_window_needs(flight: Any) -> None:
    one = flight()
    clock = one.collector.clock
    first = clock.first.monotonic_ns
    from tops_kit.collect.clock import Anchor

    for second in range(1, 5000):
        base = clock.last
        tsc = base.tsc + 2 * 10**9 + second % 3 if base.tsc else 0
        clock.add(Anchor(tsc, base.monotonic_ns + 10**9, base.realtime_ns + 10**9))
    before = clock.freeze()
    one.collector.thin_clock(first + 4900 * 10**9)
    assert len(clock) < 110
    after = clock.freeze()
    for kind in (layout.CLOCK_MONOTONIC, layout.CLOCK_TSC):
        last = int(before.pieces(kind).ticks[-1]) - 50 * 10**9
        assert after.to_ns(last, kind) == before.to_ns(last, kind)
    anchors, _ = one.collector.clock_file.read()
    assert anchors == clock.anchors
    one.collector.writing.stop()
    one.collector.writer.abandon()
