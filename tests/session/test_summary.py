from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tops_kit.session import Selection, Session, SessionWriter, compact, summary
from tops_kit.session.schema import TABLES
from tops_kit.session.segment import SUMMARY, SegmentData

Make = Callable[..., Path]


def _expected(rows: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], dict[str, float]]:
    """Statistics by the slow road: rows of (*group, value)."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for *key, value in rows:
        if value is not None:
            groups.setdefault(tuple(key), []).append(value)
    return {
        key: {
            "count": len(values),
            "total": sum(values),
            "min": min(values),
            "max": max(values),
            "mean": sum(values) / len(values),
            "median": statistics.median(values),
            "stddev": statistics.stdev(values) if len(values) > 1 else 0.0,
            "p90": float(np.percentile(values, 90)),
            "p95": float(np.percentile(values, 95)),
            "p99": float(np.percentile(values, 99)),
        }
        for key, values in groups.items()
    }


def _check(
    table: pa.Table, group: tuple[str, ...], expected: dict[tuple[Any, ...], dict[str, float]]
) -> None:
    rows = table.to_pylist()
    assert {tuple(row[name] for name in group) for row in rows} == set(expected)
    assert len(rows) == len(expected)
    for row in rows:
        wanted = expected[tuple(row[name] for name in group)]
        for name in ("count", "total", "min", "max"):
            assert row[name] == wanted[name]
        for name, value in wanted.items():
            assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-6)
    totals = table.column("total").to_pylist()
    assert totals == sorted(totals, reverse=True)


@pytest.mark.smoke
@pytest.mark.parametrize("group", [("name",), ("domain", "name", "style"), ("thread_id", "depth"), ()])
@pytest.mark.parametrize("compacted", [False, True])
def test_exact_statistics(make_session: Make, group: tuple[str, ...], compacted: bool) -> None:
    path = make_session(segments=3, calls=100)
    if compacted:
        compact(path)
    session = Session.open(path)
    columns = [*group, "duration_ns"]
    rows = [tuple(row[name] for name in columns) for row in session.table("tx", columns).to_pylist()]
    _check(session.summary("tx", group), group, _expected(rows))


value_rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from(["a", "b", "ä\N{SNOWMAN}"])),
        st.one_of(st.none(), st.integers(0, 3)),
        st.one_of(st.none(), st.integers(0, 2**40)),
    ),
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(value_rows, max_size=3))
def test_any_rows(pieces: list[list[tuple[Any, ...]]]) -> None:
    table = TABLES["memcpy"]
    group = ("copy_kind", "stream_id")

    def data() -> list[SegmentData]:
        return [
            SegmentData(
                len(piece),
                {
                    "copy_kind": pa.array([row[0] for row in piece], pa.string()).dictionary_encode(),
                    "stream_id": pa.array([row[1] for row in piece], pa.int64()),
                    "size_bytes": pa.array([row[2] for row in piece], pa.int64()),
                },
            )
            for piece in pieces
        ]

    _check(
        summary.summarise(table, group, "size_bytes", data),
        group,
        _expected([row for piece in pieces for row in piece]),
    )


def test_several_passes_give_the_same(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session.open(make_session(segments=2, calls=100))
    whole = session.summary("tx", ("name", "thread_id"), selection=Selection(time=(0, 2**62)))
    monkeypatch.setattr(summary, "PASS_ROWS", 100)
    assert session.summary("tx", ("name", "thread_id"), selection=Selection(time=(0, 2**62))).equals(whole)


def test_without_the_extension(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session.open(make_session(segments=2, calls=100))
    first = session.summary("tx", ("name",), selection=Selection(names="."))
    monkeypatch.setenv("TOPSKIT_PURE", "1")
    assert session.summary("tx", ("name",), selection=Selection(names=".")).equals(first)


def test_of_a_selection(make_session: Make) -> None:
    session = Session.open(make_session(segments=2, calls=100))
    selection = Selection(time=(100_000, 20_100_000), names="1")
    rows = [
        tuple(row.values()) for row in session.table("tx", ["name", "duration_ns"], selection).to_pylist()
    ]
    assert rows
    _check(session.summary("tx", ("name",), selection=selection), ("name",), _expected(rows))
    assert session.summary("tx", selection=Selection(names="no such")).num_rows == 0


def test_kept_until_rows_are_added(make_session: Make) -> None:
    path = make_session(segments=1, calls=10)
    session = Session.open(path)
    first = session.summary("tx")
    kept = list((path / "summary").glob("*.arrow"))
    assert len(kept) == 1
    stamp = kept[0].stat().st_mtime_ns
    assert Session.open(path).summary("tx").equals(first)
    assert kept[0].stat().st_mtime_ns == stamp
    with SessionWriter.resume(path) as writer:
        writer.append("tx", {"start_ns": [5], "duration_ns": [10**9], "name": ["new"]})
    again = Session.open(path).summary("tx")
    assert again.column("name")[0].as_py() == "new"
    compact(path)
    assert Session.open(path).summary("tx").equals(again)


def test_a_damaged_cache_is_made_anew(make_session: Make) -> None:
    path = make_session(segments=1, calls=10)
    first = Session.open(path).summary("tx")
    (kept,) = (path / "summary").glob("*.arrow")
    for damage in (b"", b"nonsense", kept.read_bytes()[:-100]):
        kept.write_bytes(damage)
        assert Session.open(path).summary("tx").equals(first)


def test_a_folder_that_may_not_be_written_is_no_hindrance(make_session: Make) -> None:
    path = make_session(segments=1, calls=10)
    (path / "summary").write_text("in the way")
    assert Session.open(path).summary("tx").num_rows


def test_compaction_keeps_the_summaries_that_the_schema_declares(make_session: Make) -> None:
    path = make_session(segments=2, calls=10)
    compact(path)
    kept = {file.name for file in (path / "summary").glob("*.arrow")}
    assert kept == {"tx-domain+name+style-duration_ns.arrow"}


def test_the_parts_in_the_segments_merge_to_the_whole(
    make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_session(segments=1, calls=50)
    compact(path, summaries=False)
    session = Session.open(path)
    (segment,) = session.segments("tx")
    parts = segment.extra(SUMMARY)
    assert parts is not None
    assert set(parts.column("group").to_pylist()) == {"domain,name,style"}
    exact = {row["name"]: row for row in session.summary("tx", ("domain", "name", "style")).to_pylist()}
    for part in parts.to_pylist():
        row = exact[part["name"]]
        assert all(part[name] == row[name] for name in ("count", "total", "min", "max"))
        assert (part["square_deviation"] / max(part["count"] - 1, 1)) ** 0.5 == pytest.approx(row["stddev"])


def test_groups_that_every_row_has_for_itself_are_no_summary(tmp_path: Path) -> None:
    path = tmp_path / "a.topsprof"
    with SessionWriter.create(path) as writer:
        starts = list(range(3000))
        writer.append("kernel", {"start_ns": starts, "name": "k", "full_name": "k", "grid_x": starts})
    compact(path)
    session = Session.open(path)
    parts = session.segments("kernel")[0].extra(SUMMARY)
    assert parts is not None
    assert not any("grid_x" in group for group in parts.column("group").to_pylist())
    assert not any("grid_x" in file.name for file in (path / "summary").iterdir())
    assert session.summary("kernel", ("grid_x",)).num_rows == 3000


def test_a_kept_summary_needs_no_heavy_library(make_session: Make) -> None:
    import subprocess
    import sys

    path = make_session(segments=1, calls=10)
    compact(path)
    code = (
        "import sys; from tops_kit.session import Session;"
        f"Session.open({str(path)!r}).summary('tx', ('domain', 'name', 'style'));"
        "heavy = ('pandas', 'duckdb', 'pyarrow.dataset', 'pyarrow.parquet');"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
