from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session, SessionWriter, compact, compaction, start_compaction
from tops_kit.session.compaction import COMPACT_LOCK
from tops_kit.session.lock import FolderLock
from tops_kit.session.segment import SEGMENTS

pytestmark = pytest.mark.smoke
Make = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]


def _names(path: Path) -> list[str]:
    return sorted(entry.name for entry in (path / "segments").iterdir())


def test_raw_segments_become_one_that_is_sorted(make_session: Make, rows_of: Rows) -> None:
    path = make_session(segments=4, calls=50)
    before = rows_of(path), rows_of(path, "process")
    done = compact(path)
    assert (done.read, done.written) == (8, 2)
    session = Session.open(path)
    (segment,) = session.segments("tx")
    assert segment.level == "lanes"
    assert segment.user == {"merged": [{"part": i} for i in range(4)]}
    assert (rows_of(path), rows_of(path, "process")) == before
    assert _names(path) == ["process-000008.1", "tx-000007.1"]
    assert compact(path) == compaction.Compaction()


def test_small_sorted_segments_take_part_when_rows_are_added(make_session: Make, rows_of: Rows) -> None:
    path = make_session(segments=2, calls=20)
    compact(path)
    with SessionWriter.resume(path) as writer:
        writer.append("tx", {"start_ns": [1, 2, 3]})
    expected = rows_of(path)
    compact(path)
    assert rows_of(path) == expected
    assert [segment.rows for segment in Session.open(path).segments("tx")] == [len(expected)]


def test_segments_stay_within_bounds(
    make_session: Make, rows_of: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_session(segments=6, calls=20)
    expected = rows_of(path)
    monkeypatch.setattr(compaction, "MOST_ROWS", 300)
    monkeypatch.setattr(compaction, "FULL_ROWS", 200)
    compact(path)
    assert [segment.rows for segment in Session.open(path).segments("tx")] == [240, 240, 240]
    assert rows_of(path) == expected


def test_live_merges_only_what_fills_a_segment(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_session(segments=3, calls=20)
    assert compact(path, live=True) == compaction.Compaction()
    monkeypatch.setattr(compaction, "FULL_ROWS", 200)
    monkeypatch.setattr(compaction, "MOST_ROWS", 240)
    assert compact(path, live=True).written == 1
    assert not (path / "summary").exists()


def test_while_it_is_written_and_read(
    make_session: Make, rows_of: Rows, nested_ranges: Callable[..., dict[str, Any]]
) -> None:
    path = make_session(segments=3, calls=20)
    early = Session.open(path)
    with SessionWriter.resume(path) as writer:
        for number in range(3):
            writer.append("tx", nested_ranges(10, seed=number))
            writer.flush()
            assert start_compaction(path).wait(60) == 0
            assert Session.open(path).tables()["tx"] == 360 + 30 * (number + 1)
    assert early.tables()["tx"] == 360
    early.refresh()
    assert len(rows_of(early)) == 450
    assert early.ledger.clean


def test_modules_in_the_working_folder_stand_in_for_none(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_session(segments=2, calls=5)
    for name in ("numpy", "argparse", "tops_kit"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert start_compaction(path).wait(60) == 0


def test_one_compaction_at_a_time(make_session: Make) -> None:
    path = make_session(segments=2, calls=5)
    lock = FolderLock(path / COMPACT_LOCK)
    assert lock.acquire()
    assert compact(path) == compaction.Compaction()
    lock.release()
    assert compact(path).written == 2


def test_replaced_segments_that_could_not_be_deleted(
    make_session: Make, rows_of: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_session(segments=3, calls=20)
    expected = rows_of(path)
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "delete_segment", lambda _session, _name: None)
        compact(path)
        assert rows_of(path) == expected
        with SessionWriter.resume(path) as writer:
            writer.append("tx", {"start_ns": [1]})
        compact(path)
        assert len(_names(path)) > 5
        assert Session.open(path).tables()["tx"] == len(expected) + 1
    # Deleted in any order, none of the replaced ones comes back.
    stale = [
        name
        for name in _names(path)
        if name.startswith("tx-") and not name.endswith(".2") and name != "tx-000009.1"
    ]
    shutil.rmtree(path / "segments" / stale[-1])
    assert Session.open(path).tables()["tx"] == len(expected) + 1
    compact(path)
    assert len(_names(path)) == 2
    assert Session.open(path).tables()["tx"] == len(expected) + 1


def test_a_damaged_segment_does_not_hinder_the_others(make_session: Make) -> None:
    path = make_session(segments=3, calls=20)
    hot = path / "segments" / "tx-000003" / "hot.arrow"
    content = bytearray(hot.read_bytes())
    content[-300:] = bytes(300)
    hot.write_bytes(content)
    compact(path)
    session = Session.open(path)
    assert session.table("tx").num_rows == 240
    assert session.ledger.total("dropped", code="damaged_segment") == 120
    assert hot.exists()  # kept: someone may know how to mend it


def test_sorted_on_demand(make_session: Make) -> None:
    session = Session.open(make_session(segments=2, calls=5))
    assert not session.indexed
    session.ensure_indexed()
    assert session.indexed
    assert session.table("tx").num_rows == 60


def test_a_flush_can_sort_at_once(
    tmp_path: Path, nested_ranges: Callable[..., dict[str, Any]], rows_of: Rows
) -> None:
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        writer.append("tx", nested_ranges(20))
        writer.append("process", {"process_id": [1]})
        writer.flush(level="lanes")
        with pytest.raises(ValueError, match="level"):
            writer.flush(level="best")
    assert Session.open(tmp_path / "a.topsprof").indexed
    assert len(rows_of(tmp_path / "a.topsprof")) == 60


def test_as_a_command(make_session: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_session(segments=2, calls=5)
    assert compaction.main([str(path), "--live"]) == 0
    assert not Session.open(path).indexed
    assert compaction.main([str(path)]) == 0
    assert Session.open(path).indexed
    assert compaction.main([str(tmp_path / "absent")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_replaced_segment_that_is_half_deleted_is_not_damage(make_session: Make, rows_of: Rows) -> None:
    path = make_session()
    before = rows_of(path)
    kept = path.with_name("kept")
    shutil.copytree(path / SEGMENTS, kept)
    compact(path)
    for old in kept.iterdir():  # as rmtree leaves it when it is killed in the middle
        (old / "meta.json").unlink()
        shutil.copytree(old, path / SEGMENTS / old.name)
    session = Session.open(path)
    assert session.ledger.clean
    assert rows_of(session) == before


def test_a_reader_finds_a_segment_gone_while_it_is_being_deleted(
    make_session: Make, rows_of: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_session()
    before = rows_of(path)
    session = Session.open(path)  # its files are not mapped yet
    monkeypatch.setattr(
        "tops_kit.session.segment.remove_folder",
        lambda folder: (folder / "hot.arrow").unlink(missing_ok=True),
    )
    compact(path)
    assert rows_of(session) == before
    assert session.ledger.clean


def test_a_segment_that_goes_while_the_folder_is_listed(
    make_session: Make, rows_of: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_session()
    before = rows_of(path)
    compacted: list[Path] = []

    def listed(folder: Any) -> Any:
        entries = scandir(folder)
        if not compacted and Path(folder).name == SEGMENTS:
            compacted.append(path)
            entries.close()
            entries = _Listed(list(scandir(folder)))
            compact(path)
        return entries

    scandir = os.scandir
    monkeypatch.setattr("tops_kit.session.catalog.os.scandir", listed)
    session = Session.open(path)
    assert compacted
    assert rows_of(session) == before


class _Listed(list[Any]):
    def __enter__(self) -> _Listed:
        return self

    def __exit__(self, *error: object) -> None:
        pass
