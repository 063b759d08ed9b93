from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tops_kit.errors import SessionError
from tops_kit.session import Session, SessionWriter, compact, info

pytestmark = pytest.mark.smoke
Make = Callable[..., Path]


def test_tables_and_times(make_session: Make) -> None:
    session = Session.open(make_session(segments=2, calls=10))
    assert session.tables() == {"tx": 2 * 2 * 30, "process": 1}
    table = session.table("tx", ["start_ns", "end_ns", "duration_ns"])
    rows = table.to_pylist()
    assert all(row["end_ns"] == row["start_ns"] + row["duration_ns"] for row in rows)
    assert (session.start_ns, session.end_ns) == (
        min(r["start_ns"] for r in rows),
        max(r["end_ns"] for r in rows),
    )
    assert session.names("tx") == sorted(set(session.table("tx", ["name"]).column(0).to_pylist()))
    assert len(session.table("tx", ["name"]).column(0).chunk(0).dictionary) == 20
    for wrong in (
        lambda: session.table("no"),
        lambda: session.table("tx", ["no"]),
        lambda: session.summary("tx", ("no",)),
    ):
        with pytest.raises(KeyError):
            wrong()


def test_what_is_told_of_a_process_in_several_rows_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.topsprof"
    with SessionWriter.create(path) as writer:
        writer.append("process", {"process_id": [1, 2], "pid": [10, 20], "name": ["a", "b"]})
        writer.flush()
        writer.append(
            "process", {"process_id": [2, 1, 3], "exit_status": [0, 1, None], "name": [None, "better", None]}
        )
        writer.append("thread", {"process_id": 1, "thread_id": [5, 5, 6], "name": ["x", None, "y"]})
    for prepare in (lambda: None, lambda: compact(path)):
        prepare()
        session = Session.open(path)
        rows = session.table("process", ["process_id", "pid", "name", "exit_status"]).to_pylist()
        assert [tuple(row.values()) for row in rows] == [
            (1, 10, "better", 1),
            (2, 20, "b", 0),
            (3, None, None, None),
        ]
        assert session.table("thread", ["name"]).column(0).to_pylist() == ["x", "y"]
        assert session.sql_connection().sql("select count(*) from process").fetchall() == [(3,)]
        assert session.tables() == {"process": 3, "thread": 2}


def test_a_session_is_readable_while_it_grows(tmp_path: Path) -> None:
    writer = SessionWriter.create(tmp_path / "a.topsprof")
    session = Session.open(writer.path)
    assert session.live
    assert session.tables() == {}
    writer.append("tx", {"start_ns": [1, 2]})
    writer.flush()
    assert session.tables() == {}
    session.refresh()
    assert session.tables() == {"tx": 2}
    first = session.table("tx")
    writer.append("tx", {"start_ns": [3]})
    writer.flush()
    late = Session.open(writer.path)
    compact(writer.path)
    # The segments that this reader knows are gone before it read them; their rows lie in another.
    assert late.table("tx").num_rows == 3
    session.refresh()
    assert session.table("tx").num_rows == 3
    assert first.num_rows == 2
    writer.close()


def test_recovery_is_called_for_a_recording_that_was_not_closed(tmp_path: Path) -> None:
    writer = SessionWriter.create(tmp_path / "a.topsprof")
    (writer.path / "control").write_bytes(b"")
    called: list[Path] = []
    Session.open(writer.path, recover=called.append)
    assert called == []  # it is being written
    writer.abandon()
    Session.open(writer.path, recover=called.append)
    assert called == [writer.path]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: shutil.rmtree(path), "does not exist"),
        (lambda path: (path / "session.json").unlink(), "not a session"),
        (lambda path: (path / "session.json").write_text("{"), "damaged"),
        (lambda path: (path / "session.json").write_text("[]"), "damaged"),
        (lambda path: (path / "session.json").write_text("{}"), "no format version"),
        (lambda path: (path / "session.json").write_bytes(b"\xff\xfe"), "damaged"),
        (lambda path: (path / "session.json").write_text("[" * 100_000), "damaged"),
        (lambda path: (shutil.rmtree(path), path.write_text("x")), "is a file"),
    ],
)
def test_what_is_no_session_is_one_line(
    make_session: Make, damage: Callable[[Path], Any], message: str
) -> None:
    path = make_session(segments=1, calls=1)
    damage(path)
    with pytest.raises(SessionError, match=message) as error:
        Session.open(path)
    assert "\n" not in str(error.value)


def _edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_newer_format_is_one_line(make_session: Make) -> None:
    path = make_session(segments=1, calls=1)
    _edit(path / "session.json", format=[2, 0])
    with pytest.raises(SessionError, match=r"has format 2\.0.*upgrade"):
        Session.open(path)
    _edit(path / "session.json", format=[1, 99])
    assert Session.open(path).tables()["tx"] == 6


def test_a_newer_segment_is_left_out_and_counted(make_session: Make) -> None:
    path = make_session(segments=2, calls=1)
    _edit(path / "segments" / "tx-000001" / "meta.json", format=[2, 0])
    session = Session.open(path)
    assert session.tables()["tx"] == 6
    assert session.ledger.total("dropped", code="newer_segment") == 6
    assert "upgrade" in session.ledger.lines()[0]


def test_columns_of_a_later_minor_version_are_ignored(make_session: Make) -> None:
    path = make_session(segments=1, calls=1)
    meta = path / "segments" / "tx-000001" / "meta.json"
    _edit(meta, constants=json.loads(meta.read_text())["constants"] | {"invented_later": 5}, format=[1, 7])
    session = Session.open(path)
    assert session.table("tx").num_rows == 6
    assert session.ledger.clean


def test_info(make_session: Make) -> None:
    path = make_session(segments=2, calls=10)
    told = info(path)
    assert json.loads(json.dumps(told)) == told
    assert told["tables"]["tx"]["rows"] == 120
    assert told["tables"]["tx"]["raw_segments"] == 2
    assert told["status"] == "complete"
    assert told["command"] == ["app", "--x"]
    assert told["ledger_clean"]
    compact(path)
    assert info(path)["tables"]["tx"]["raw_segments"] == 0
