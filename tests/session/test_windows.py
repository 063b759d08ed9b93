"""What is drawn of a lane: exact events, and runs of the pyramid that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session, SessionWriter, compact
from tops_kit.session.segment import PYRAMID

pytestmark = pytest.mark.smoke


@pytest.fixture(params=["raw", "compacted"])
def session(request: pytest.FixtureRequest, make_session: Callable[..., Path]) -> Session:
    path = make_session(segments=2, calls=2000)
    if request.param == "compacted":
        compact(path)
    return Session.open(path)


def test_lanes_are_tracks_at_a_depth(session: Session) -> None:
    lanes = session.lanes("tx")
    found = lanes.table.select(["process_id", "thread_id", "task_id", "lane_depth"]).to_pylist()
    assert [tuple(lane.values()) for lane in found] == [
        (1, thread, 0, depth) for thread in (7, 8) for depth in (0, 1)
    ]
    assert sum(lanes.table.column("rows").to_pylist()) == session.tables()["tx"]


def test_a_window_holds_just_the_events_that_overlap_it(session: Session) -> None:
    lanes = session.lanes("tx")
    every = session.table("tx", ["start_ns", "end_ns", "name", "thread_id", "depth"]).to_pylist()
    for lane in range(len(lanes)):
        key = lanes.table.slice(lane, 1).to_pylist()[0]
        mine = [
            row for row in every if row["thread_id"] == key["thread_id"] and row["depth"] == key["lane_depth"]
        ]
        for begin, end in ((0, 2**62), (3_000_000, 3_200_000), (12_000_000, 12_000_001), (-5, 0)):
            rows = session.window("tx", lane, begin, end).to_pylist()
            expected = sorted(
                (row["start_ns"], row["end_ns"], row["name"])
                for row in mine
                if row["start_ns"] < end and row["end_ns"] > begin
            )
            assert sorted((row["start_ns"], row["end_ns"], row["name"]) for row in rows) == expected
            assert all(row["count"] == 1 and row["busy_ns"] == row["longest_ns"] for row in rows)


def test_wide_buckets_give_few_runs_that_stand_for_all(session: Session) -> None:
    lanes = session.lanes("tx")
    for lane in range(len(lanes)):
        exact = lanes.window(lane, -(2**62), 2**62)
        previous = exact.num_rows
        for bucket in (1 << 14, 1 << 18, 1 << 22):
            runs = lanes.window(lane, -(2**62), 2**62, bucket)
            assert runs.num_rows <= previous
            previous = runs.num_rows
            assert sum(runs.column("count").to_pylist()) == exact.num_rows
            assert sum(runs.column("busy_ns").to_pylist()) == sum(exact.column("busy_ns").to_pylist())
        assert previous < exact.num_rows / 8


def test_the_pyramid_is_small(make_session: Callable[..., Path]) -> None:
    path = make_session(segments=1, calls=20_000)
    compact(path)
    (segment,) = Session.open(path).segments("tx")
    assert segment.files[PYRAMID] <= 0.4 * segment.files["hot.arrow"]
    assert (segment.files["hot.arrow"] + segment.files["wide.arrow"]) / segment.rows <= 20


def test_instants_and_counters_have_lanes(tmp_path: Path) -> None:
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        writer.append(
            "counter", {"start_ns": [1, 2, 3, 4], "name": ["a", "b", "a", "b"], "value": [1.0, 2, 3, 4]}
        )
        writer.append("sample", {"start_ns": [5, 6], "thread_id": [1, 2]})
    for prepare in (lambda: None, lambda: compact(tmp_path / "a.topsprof")):
        prepare()
        session = Session.open(tmp_path / "a.topsprof")
        lanes = session.lanes("counter")
        assert lanes.table.column("name").to_pylist() == ["a", "b"]
        assert lanes.window(1, 0, 10).column("start_ns").to_pylist() == [2, 4]
        assert session.lanes("sample").window(0, 0, 10).column("name").to_pylist() == [None]
    with pytest.raises(ValueError, match="no time"):
        session.lanes("process")


def test_the_latest_possible_times(tmp_path: Path) -> None:
    last: Any = 2**63 - 1
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        writer.append(
            "tx",
            {"start_ns": [last - 1, last, -(2**63)], "duration_ns": [last, 5, 1], "name": ["a", "b", "c"]},
        )
    compact(tmp_path / "a.topsprof")
    session = Session.open(tmp_path / "a.topsprof")
    assert (session.start_ns, session.end_ns) == (-(2**63), last)
    assert sorted(session.table("tx", ["end_ns"]).column(0).to_pylist()) == [-(2**63) + 1, last, last]
    ends = [
        end
        for lane in range(len(session.lanes("tx")))
        for end in session.window("tx", lane, 0, last).column(1).to_pylist()
    ]
    assert ends == [last]
