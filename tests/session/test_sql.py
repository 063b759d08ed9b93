from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tops_kit.session import Selection, Session, SessionWriter, compact
from tops_kit.session import reader as reader_module
from tops_kit.session.schema import TABLES

Make = Callable[..., Path]


@pytest.fixture(params=["raw", "compacted"])
def session(request: pytest.FixtureRequest, make_session: Make) -> Session:
    path = make_session(segments=2, calls=50)
    if request.param == "compacted":
        compact(path)
    return Session.open(path)


@pytest.mark.smoke
def test_tables_are_views(session: Session) -> None:
    connection = session.sql_connection()
    expected: dict[str, int] = {}
    for row in session.table("tx").to_pylist():
        expected[row["name"]] = expected.get(row["name"], 0) + row["duration_ns"]
    assert dict(connection.sql("select name, sum(duration_ns) from tx group by name").fetchall()) == expected
    assert connection.sql("select sum(end_ns - start_ns) from tx").fetchall() == [(sum(expected.values()),)]
    for name in TABLES:
        connection.sql(f"select * from {name}").fetchall()  # the empty ones too
        assert connection.sql(f"select count(*) from {name}").fetchall() == [(session.tables().get(name, 0),)]


def test_conditions_on_every_kind_of_column(session: Session) -> None:
    connection = session.sql_connection()
    rows = session.table("tx").to_pylist()
    for condition, test in (
        ("name = 'range 5'", lambda r: r["name"] == "range 5"),
        ("name like 'range 1%' and depth = 1", lambda r: r["name"].startswith("range 1") and r["depth"] == 1),
        ("thread_id = 8 and duration_ns > 3000", lambda r: r["thread_id"] == 8 and r["duration_ns"] > 3000),
        ("payload is null and domain = ''", lambda r: True),
        ("style in ('Mark', 'StartEnd')", lambda r: False),
        ("end_ns between 100000 and 200000", lambda r: 100000 <= r["end_ns"] <= 200000),
    ):
        expected = sum(map(test, rows))
        assert connection.sql(f"select count(*) from tx where {condition}").fetchall() == [(expected,)], (
            condition
        )
        assert connection.sql(f"select sum(duration_ns) from tx where {condition}").fetchall() == [
            (sum(row["duration_ns"] for row in rows if test(row)) if expected else None,)
        ], condition


def test_views_of_a_selection(session: Session) -> None:
    selection = Selection(time=(0, 100_000), names="range 1")
    expected = session.table("tx", selection=selection).num_rows
    connection = session.sql_connection(selection)
    assert 0 < expected < 600
    assert connection.sql("select count(*) from tx").fetchall() == [(expected,)]
    assert connection.sql("select count(*) from slice where depth >= 0").fetchall() == [(expected,)]
    assert connection.sql("select count(*) from process").fetchall() == [(1,)]


def test_slice_unites_the_interval_tables(tmp_path: Path) -> None:
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        writer.append(
            "kernel",
            {
                "start_ns": [10],
                "duration_ns": [5],
                "name": ["k"],
                "device_id": 1,
                "stream_id": 7,
                "args": ['{"a":1}'],
            },
        )
        writer.append(
            "op",
            {"start_ns": [1], "duration_ns": [50], "name": ["aten::mm"], "thread_id": 3, "scope": "cpu_op"},
        )
        writer.append(
            "tx",
            {
                "start_ns": [2],
                "duration_ns": [1],
                "name": ["t"],
                "domain": "d",
                "category": "c",
                "depth": [4],
            },
        )
        writer.append("counter", {"start_ns": [2], "name": ["c"], "value": [1.0]})
    connection = Session.open(tmp_path / "a.topsprof").sql_connection()
    rows = connection.sql(
        "select table_name, start_ns, end_ns, duration_ns, name, thread_id, device_id, stream_id, domain,"
        " category, depth, args from slice order by start_ns"
    ).fetchall()
    assert rows == [
        ("op", 1, 51, 50, "aten::mm", 3, None, None, None, "cpu_op", None, None),
        ("tx", 2, 3, 1, "t", None, None, None, "d", "c", 4, None),
        ("kernel", 10, 15, 5, "k", None, 1, 7, None, None, None, '{"a":1}'),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "attach '{folder}/x.db'",
        "copy tx to '{folder}/x.csv'",
        "copy (select 1) to '{folder}/x.parquet'",
        "export database '{folder}/x'",
        "select * from read_csv('{folder}/secret.csv')",
        "select * from '{folder}/secret.csv'",
        "select * from read_text('{folder}/secret.csv')",
        "select * from glob('{folder}/*')",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "reset enable_external_access",
        "set python_enable_replacements = true",
        "set allowed_directories = ['/']",
        "select * from secret_frame",
        "select * from read_parquet('http://127.0.0.1:9/x')",
        "load '{folder}/x.so'",
    ],
)
def test_nothing_else_is_within_reach(session: Session, tmp_path: Path, statement: str) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    secret_frame = session.table("tx")
    assert secret_frame.num_rows
    connection = session.sql_connection()
    with pytest.raises(duckdb.Error):
        connection.execute(statement.format(folder=tmp_path.as_posix())).fetchall()
    assert not list(tmp_path.glob("x*"))
    assert connection.sql("select count(*) from tx").fetchall() == [(300 * 2,)]


def test_the_session_is_not_changed_by_statements(session: Session) -> None:
    connection = session.sql_connection()
    with pytest.raises(duckdb.Error):
        connection.execute("delete from tx")
    with pytest.raises(duckdb.Error):
        connection.execute("insert into tx (start_ns) values (1)")


def test_only_the_columns_of_a_query_are_read(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session.open(make_session(segments=1, calls=10))
    asked: list[list[str]] = []
    scan = reader_module.Session.scan

    def spy(self: Session, table: object, columns: list[str] | None, selection: object) -> object:
        asked.append(list(columns or []))
        return scan(self, table, columns, selection)  # type: ignore[arg-type]

    monkeypatch.setattr(reader_module.Session, "scan", spy)
    connection = session.sql_connection()
    asked.clear()
    connection.sql("select name, sum(duration_ns) from tx where thread_id = 7 group by name").fetchall()
    assert {frozenset(columns) for columns in asked} == {frozenset({"name", "duration_ns", "thread_id"})}
    asked.clear()
    connection.sql("select sum(duration_ns) from slice where table_name = 'tx'").fetchall()
    assert all(set(columns) == {"duration_ns"} for columns in asked)


def test_a_connection_outlives_a_compaction(make_session: Make) -> None:
    path = make_session(segments=3, calls=20)
    connection = Session.open(path).sql_connection()
    compact(path)
    assert connection.sql("select count(*), count(distinct thread_id) from tx").fetchall() == [(360, 2)]
