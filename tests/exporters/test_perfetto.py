"""The Perfetto export: it comes back whole through our importer, and Perfetto's own engine sees the same
slices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from topsprof.exporters import assemble
from topsprof.importers import wire

from tops_kit.session.schema import TABLES, Kind

FUNCTION = HealthCheck.function_scoped_fixture


@pytest.mark.parametrize("implementation", ["extension", "twin"])
def test_every_column_of_every_slice_comes_back(
    implementation: str,
    session_rows: Any,
    make_session: Any,
    export: Any,
    import_file: Any,
    rows_of: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if implementation == "twin":
        monkeypatch.setattr(assemble, "_extension", lambda: None)
        monkeypatch.setattr(wire, "_extension", lambda: None)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(session_rows())
    def check(rows: dict[str, list[dict[str, Any]]]) -> None:
        session = make_session(rows)
        path, exported = export(session, "perfetto")
        back = import_file(path)
        assert back.ledger.clean, back.ledger.lines()
        for table in rows:
            assert rows_of(back, table) == rows_of(session, table), table
        assert exported.rows == sum(map(len, rows.values()))

    check()


def test_perfettos_engine_sees_every_slice(
    trace_processor: Any, session_rows: Any, make_session: Any, export: Any
) -> None:
    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(session_rows(), st.just(0))
    def check(rows: dict[str, list[dict[str, Any]]], _: int) -> None:
        session = make_session(rows)
        path, _exported = export(session, "perfetto")
        slices, counters, problems = trace_processor(
            path,
            "select ts, dur, name from slice order by 1, 2, 3",
            "select ts, value from counter order by 1, 2",
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        )
        assert problems == []
        expected = sorted(
            (row["start_ns"], row.get("duration_ns", 0), row["name"].encode())
            for name, table in rows.items()
            for row in table
            if TABLES[name].kind is not Kind.COUNTER
        )
        assert sorted((ts, dur, name.encode()) for ts, dur, name in slices) == expected
        assert counters == sorted((row["start_ns"], row["value"]) for row in rows["counter"])

    check()
