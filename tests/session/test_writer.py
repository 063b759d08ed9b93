from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tops_kit.errors import SessionError
from tops_kit.session import Session, SessionWriter, segment_writing, writer

Rows = Callable[..., list[dict[str, Any]]]
pytestmark = pytest.mark.smoke


def test_columns_come_as_arrays_lists_and_scalars(tmp_path: Path, rows_of: Rows) -> None:
    with SessionWriter.create(tmp_path / "a.topsprof") as out:
        out.append(
            "tx",
            {
                "start_ns": np.array([5, 6]),
                "duration_ns": np.array([1, 2], np.uint32),
                "name": ["a", None],
                "process_id": 1,
            },
        )
        out.append(
            "tx", {"start_ns": pa.array([7]), "name": pa.array(["a"]).dictionary_encode(), "payload": ["{}"]}
        )
        out.append("tx", {"start_ns": 8, "name": "b", "color": np.uint32(3)}, rows=2)
        out.append(
            "tx",
            {
                "start_ns": pa.chunked_array([[9], [10]]),
                "name": pa.chunked_array(
                    [pa.array(["x"]).dictionary_encode(), pa.array(["y"]).dictionary_encode()]
                ),
            },
        )
        out.append("tx", {"start_ns": [], "name": []})
    rows = rows_of(
        tmp_path / "a.topsprof", "tx", ["start_ns", "duration_ns", "name", "process_id", "payload", "color"]
    )
    assert [tuple(row.values()) for row in sorted(rows, key=lambda row: row["start_ns"])] == [
        (5, 1, "a", 1, None, None),
        (6, 2, None, 1, None, None),
        (7, 0, "a", None, "{}", None),
        (8, 0, "b", None, None, 3),
        (8, 0, "b", None, None, 3),
        (9, 0, "x", None, None, None),
        (10, 0, "y", None, None, None),
    ]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"start_ns": [1], "nonsense": [1]}, KeyError),
        ({"start_ns": [1, 2], "name": ["a"]}, ValueError),
        ({"start_ns": 1}, ValueError),
        ({"name": ["a"]}, ValueError),
        ({"start_ns": [1, None]}, ValueError),
        ({"start_ns": [1], "process_id": ["x"]}, (ValueError, TypeError)),
        ({"start_ns": np.array([1 << 63], np.uint64)}, ValueError),
    ],
)
def test_rows_that_do_not_fit(tmp_path: Path, columns: dict[str, Any], error: type[Exception]) -> None:
    with SessionWriter.create(tmp_path / "a.topsprof") as out:
        with pytest.raises(error):
            out.append("tx", columns)
        with pytest.raises(KeyError):
            out.append("no such table", {"start_ns": [1]})
    assert Session.open(tmp_path / "a.topsprof").tables() == {}


def test_unused_names_are_left_out(tmp_path: Path) -> None:
    names = pa.array([f"name {i}" for i in range(1000)])
    with SessionWriter.create(tmp_path / "a.topsprof") as out:
        out.append(
            "tx",
            {"start_ns": [1, 2], "name": pa.DictionaryArray.from_arrays(pa.array([7, 3], pa.int32()), names)},
        )
    column = Session.open(tmp_path / "a.topsprof").table("tx", ["name"]).column(0)
    assert column.to_pylist() == ["name 7", "name 3"]
    assert len(column.chunk(0).dictionary) == 2


def test_existing_sessions_are_kept_unless_told(make_session: Callable[..., Path], tmp_path: Path) -> None:
    path = make_session()
    with pytest.raises(SessionError, match="exists"):
        SessionWriter.create(path)
    SessionWriter.create(path, overwrite=True).close()
    assert Session.open(path).tables() == {}
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(SessionError, match="not a session"):
        SessionWriter.create(file, overwrite=True)
    assert file.read_text() == "mine"


def test_a_folder_with_other_things_of_a_recording_becomes_the_session(tmp_path: Path) -> None:
    (tmp_path / "a.topsprof" / "rings").mkdir(parents=True)
    SessionWriter.create(tmp_path / "a.topsprof").close()
    assert (tmp_path / "a.topsprof" / "rings").is_dir()
    (tmp_path / "documents").mkdir()
    SessionWriter.create(tmp_path / "documents").close()  # an empty folder is fine
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.jpg").write_text("cat")
    for overwrite in (False, True):
        with pytest.raises(SessionError, match="folder of other things"):
            SessionWriter.create(tmp_path / "pictures", overwrite=overwrite)
    assert [entry.name for entry in (tmp_path / "pictures").iterdir()] == ["cat.jpg"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.topsprof"
    with SessionWriter.create(path) as out:
        assert Session.open(path).live
        for act in (lambda: SessionWriter.create(path, overwrite=True), lambda: SessionWriter.resume(path)):
            with pytest.raises(SessionError, match="is being written by process") as error:
                act()
            assert "\n" not in str(error.value)
        code = f"from tops_kit.session import SessionWriter; SessionWriter.resume({str(path)!r})"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "being written" in run.stderr
        out.append("tx", {"start_ns": [1]})
    assert not Session.open(path).live
    assert Session.open(path).tables() == {"tx": 1}


def test_resume_appends(make_session: Callable[..., Path]) -> None:
    path = make_session()
    before = Session.open(path)
    rows = before.tables()["tx"]
    with SessionWriter.resume(path) as out:
        out.ledger.count("process:1", "dropped", 3)
        out.append("tx", {"start_ns": [1]})
        out.set_attribute("key", [1, "x"])
    after = Session.open(path)
    assert after.tables()["tx"] == rows + 1
    assert after.info["attributes"] == {"key": [1, "x"]}
    assert after.ledger.lines() == ["process:1: dropped 3"]
    assert after.info["command"] == ["app", "--x"]


def test_flush_keeps_what_the_caller_wants_to_remember(make_session: Callable[..., Path]) -> None:
    session = Session.open(make_session())
    assert [segment.user for segment in session.segments("tx")] == [{"part": 0}, {"part": 1}, {"part": 2}]


def test_status(tmp_path: Path) -> None:
    path = tmp_path / "a.topsprof"
    out = SessionWriter.create(path)
    assert json.loads((path / "session.json").read_text())["status"] == "recording"
    out.close("stopped")
    out.close()
    assert Session.open(path).info["status"] == "stopped"
    with pytest.raises(ValueError, match="closed"):
        out.append("tx", {"start_ns": [1]})
    with pytest.raises(RuntimeError), SessionWriter.create(path, overwrite=True) as other:
        other.append("tx", {"start_ns": [1]})
        raise RuntimeError
    assert Session.open(path).info["status"] == "crashed"
    assert Session.open(path).tables() == {"tx": 1}


def test_large_appends_are_flushed_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FLUSH_ROWS", 100)
    with SessionWriter.create(tmp_path / "a.topsprof") as out:
        for start in range(0, 1000, 30):
            out.append("tx", {"start_ns": np.arange(start, start + 30)})
        assert len(Session.open(out.path).segments("tx")) >= 8
    assert Session.open(out.path).tables()["tx"] == 34 * 30


def test_a_full_disk_is_one_line_and_earlier_segments_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = SessionWriter.create(tmp_path / "a.topsprof")
    out.append("tx", {"start_ns": [1, 2]})
    out.flush()

    def full(*_args: object, **_options: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(segment_writing, "write_arrow", full)
        out.append("tx", {"start_ns": [3]})
        with pytest.raises(SessionError, match="disk is full") as error:
            out.flush()
        assert "\n" not in str(error.value)
        assert Session.open(out.path).tables() == {"tx": 2}
    out.close()  # there is room again: nothing was lost
    assert Session.open(out.path).tables() == {"tx": 3}
    assert not [entry for entry in (out.path / "segments").iterdir() if entry.name.startswith(".")]


def test_a_vanished_folder_is_one_line(tmp_path: Path) -> None:
    out = SessionWriter.create(tmp_path / "a.topsprof")
    out.append("tx", {"start_ns": [1]})
    shutil.rmtree(out.path)
    with pytest.raises(SessionError, match="folder is gone") as error:
        out.flush()
    assert "\n" not in str(error.value)
    out.abandon()


def test_an_unwritable_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionError):
        SessionWriter.create(tmp_path / "file" / "a.topsprof")
