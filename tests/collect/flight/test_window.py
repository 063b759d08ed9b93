"""What a window keeps and deletes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tops_kit.collect.flight.retention import Window, WindowClock
from tops_kit.session import Session, SessionWriter


class Clock(WindowClock):
    """Stands at `at`."""

    at = 0.0

    def now(self) -> float:
        return self.at


class Kept:
    """A window over a session; `put` writes a segment of each table named."""

    def __init__(self, folder: Path, keep_s: float, keep_bytes: int = 1 << 30) -> None:
        self.writer = SessionWriter.create(folder)
        self.window = Window(folder, keep_s, keep_bytes, self.writer.ledger)
        self.window.clock = self.clock = Clock()
        self.folder = folder
        self.count = 0

    def put(self, rows: int = 3, **stacks: Any) -> None:
        start = np.arange(self.count, self.count + rows, dtype=np.int64)
        self.count += rows
        columns = {"start_ns": start, "name": "x", "process_id": 1, "thread_id": 1}
        self.writer.append("tx", columns | {"duration_ns": 0})
        for tree, ids in stacks.items():
            number = (1 << 20) + int(tree.removeprefix("tree"))
            self.window.see_samples(number)
            at = (number << 32) + np.array(ids, np.int64)
            self.writer.append("stack", {"stack_id": at, "name": "f"})
        self.window.add(self.writer.flush())

    def starts(self) -> list[int]:
        return sorted(Session.open(self.folder).table("tx")["start_ns"].to_pylist())


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    def make(keep_s: float, keep_bytes: int = 1 << 30) -> Kept:
        return Kept(tmp_path / "a.topsprof", keep_s, keep_bytes)

    return make


def test_what_came_before_the_window_is_deleted_and_counted(kept: Any) -> None:
    one = kept(10)
    for second in range(30):
        one.clock.at = second
        one.put()
        one.window.age()
    assert one.starts() == list(range(57, 90))  # all of the last ten seconds
    assert one.writer.ledger.total("dropped", "window:tx", "aged") == 57
    assert one.writer.ledger.clean
    one.writer.close()
    assert Session.open(one.folder).ledger.clean


def test_what_is_too_much_is_deleted_oldest_first_and_is_a_loss(kept: Any) -> None:
    one = kept(3600, keep_bytes=1)
    one.put()
    one.clock.at = 1
    one.put()
    one.window.age()
    assert one.starts() == [3, 4, 5]  # the newest stays, however large
    assert one.writer.ledger.total("dropped", "window:tx", "window_size") == 3
    assert not one.writer.ledger.clean


def test_a_long_window_has_few_segments(kept: Any) -> None:
    one = kept(640)
    for second in range(1000):
        one.clock.at = second
        one.put(1)
        one.window.age()
        one.window.merge()
    assert len(one.window.names) < 80
    starts = one.starts()
    assert starts == list(range(starts[0], 1000)) and 1000 - 640 - 22 <= starts[0] <= 1000 - 640
    assert one.writer.ledger.total("dropped", "window:tx", "aged") == starts[0]


def test_a_short_window_is_exact(kept: Any) -> None:
    one = kept(5)
    for second in range(100):
        one.clock.at = second
        one.put(1)
        one.window.age()
        one.window.merge()
    assert one.starts() == list(range(94, 100))


def test_stacks_stay_as_long_as_there_are_samples_of_their_tree(kept: Any) -> None:
    one = kept(5)
    one.put(tree1=[1, 2])
    for second in range(200):
        one.clock.at = second
        one.window.see_samples((1 << 20) + 1)
        one.put(1, **{"tree2" if second < 100 else "tree3": [second]})
        one.window.age()
        one.window.merge()
    ids = Session.open(one.folder).table("stack")["stack_id"].to_pylist()
    assert {number & 0xFFFFFFFF for number in ids if number >> 32 == (1 << 20) + 1} == {1, 2}
    assert not [number for number in ids if number >> 32 == (1 << 20) + 2]
    assert len(one.window.names) < 60


def test_stacks_of_runtime_calls_stay(kept: Any) -> None:
    one = kept(5)
    one.writer.append("stack", {"stack_id": np.array([(3 << 32) + 1]), "name": "f"})
    for second in range(100):
        one.clock.at = second
        one.put(1)
        one.window.age()
        one.window.merge()
    assert Session.open(one.folder).tables()["stack"] == 1


def test_a_full_disk_gives_up_the_older_half(kept: Any) -> None:
    one = kept(3600)
    for second in range(8):
        one.clock.at = second
        one.put(1)
    assert one.window.make_room()
    assert one.starts() == [5, 6, 7] or one.starts() == [4, 5, 6, 7]
    while one.window.make_room():
        pass
    assert one.starts() == []


def test_a_second_name_outlives_the_window(kept: Any, tmp_path: Path) -> None:
    one = kept(5)
    one.put()
    stage = tmp_path / "b.topsprof"
    (stage / "segments").mkdir(parents=True)
    assert one.window.give(stage, leave_out=()) == 3
    one.clock.at = 100
    one.window.age()
    assert one.window.names == []
    (stage / "session.json").write_text((one.folder / "session.json").read_text())
    assert Session.open(stage).tables() == {"tx": 3}


def test_time_stands_still_while_recording_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = WindowClock(0.0, now)
    now = 103.0
    assert clock.now() == 3
    clock.run(False)
    now = 200.0
    assert clock.now() == 3
    clock.run(True)
    now = 201.0
    assert clock.now() == 4
