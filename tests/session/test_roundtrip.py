"""Whatever is written comes back: every table and column type, in every state of the session."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tops_kit.session import Session, SessionWriter, compact, pack, unpack
from tops_kit.session.columns import arrow_type
from tops_kit.session.reader import MERGE_KEYS
from tops_kit.session.schema import TABLES, Column, Kind, Table

INT64 = st.integers(-(2**63), 2**63 - 1)
# Text as Arrow holds it: no lone surrogates.
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": INT64,
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint8": st.integers(0, 255),
    "float64": st.floats(),
    "bool": st.booleans(),
    "text": TEXT,
    "name": TEXT,
}


def _values(table: Table, column: Column) -> st.SearchStrategy[Any]:
    if table.kind is not Kind.PLAIN and column.name == "start_ns":
        return INT64
    if column.name == "duration_ns":
        return st.one_of(st.integers(0, 2**32), st.integers(0, 2**63 - 1))
    # Few distinct values make constant columns and shared names likely.
    return st.one_of(
        st.none(),
        st.sampled_from([0, 1]) if column.type.startswith("int") else VALUES[column.type],
        VALUES[column.type],
    )


@st.composite
def batches(draw: st.DrawFn) -> tuple[Table, list[list[dict[str, Any]]]]:
    table = draw(st.sampled_from([table for name, table in TABLES.items() if name not in MERGE_KEYS]))
    given_columns = draw(st.sets(st.sampled_from(table.column_names)))
    row = st.fixed_dictionaries(
        {
            column.name: _values(table, column)
            for column in table.columns
            if column.name in given_columns
            or (table.kind is not Kind.PLAIN and column.name in ("start_ns", "duration_ns"))
        }
    )
    return table, draw(st.lists(st.lists(row, max_size=6), min_size=1, max_size=4))


def _comparable(table: Table, rows: list[dict[str, Any]]) -> list[str]:
    plain = []
    for row in rows:
        full = {name: row.get(name) for name in table.column_names}
        if full.get("duration_ns") is None and "duration_ns" in full:
            full["duration_ns"] = 0
        plain.append(
            repr([(k, "nan" if isinstance(v, float) and math.isnan(v) else v) for k, v in full.items()])
        )
    return sorted(plain)


@pytest.mark.smoke
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches())
def test_rows_survive_writing_compaction_and_packing(drawn: tuple[Table, list[list[dict[str, Any]]]]) -> None:
    table, parts = drawn
    rows = [row for part in parts for row in part]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.topsprof"
        writer = SessionWriter.create(path)
        for number, part in enumerate(parts):
            if part and part[0]:
                types = {
                    name: pa.string() if table.column(name).type == "name" else arrow_type(table.column(name))
                    for name in part[0]
                }
                writer.append(
                    table.name,
                    {name: pa.array([row[name] for row in part], type_) for name, type_ in types.items()},
                )
            elif part:
                writer.append(table.name, {}, rows=len(part))
            if number % 2:
                writer.flush()
        writer.close()
        expected = _comparable(table, rows)
        assert _comparable(table, Session.open(path).table(table.name).to_pylist()) == expected
        compact(path)
        session = Session.open(path)
        assert _comparable(table, session.table(table.name).to_pylist()) == expected
        assert session.indexed
        other = unpack(pack(path, Path(folder) / "a.topspack"), Path(folder) / "b.topsprof")
        again = Session.open(other)
        assert _comparable(table, again.table(table.name).to_pylist()) == expected
        assert again.ledger.clean
        if table.kind is Kind.PLAIN:  # their order has a meaning
            assert again.table(table.name).to_pylist() == session.table(
                table.name
            ).to_pylist() or "nan" in str(expected)


def test_sessions_without_any_row(tmp_path: Path) -> None:
    SessionWriter.create(tmp_path / "a.topsprof").close()
    compact(tmp_path / "a.topsprof")
    session = Session.open(unpack(pack(tmp_path / "a.topsprof"), tmp_path / "b.topsprof"))
    assert session.tables() == {}
    assert (session.start_ns, session.end_ns) == (0, 0)
    for name, table in TABLES.items():
        assert session.table(name).num_rows == 0
        assert set(table.column_names) <= set(session.table(name).column_names)
        if table.kind is not Kind.PLAIN:
            assert len(session.lanes(name)) == 0
        for group in table.summary:
            assert session.summary(name, group).num_rows == 0
    assert session.sql_connection().sql("select count(*) from slice").fetchall() == [(0,)]
