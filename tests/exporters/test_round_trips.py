"""Every exporter comes back through its importer: made sessions, and what the real traces hold."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from topsprof.exporters.chrome_args import known_columns
from topsprof.exporters.frames import DEEPEST
from topsprof.exporters.links import last_reaching

from tops_kit.session import Session
from tops_kit.session.schema import TABLES, Kind

TRACES = (
    "kineto/alexnet.json.gz",
    "kineto/rocm_mi250.json.gz",
    "kineto/sampled_rank0.json.gz",
    "kineto/nccl.json.gz",
    "chrome/chrome116.json",
    "viztracer/multithread.json",
)
# No shrinking: an example writes two sessions, and thousands of them take minutes.
quick = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def intervals(session: Session) -> list[str]:
    return [name for name in session.tables() if TABLES[name].kind is Kind.INTERVAL]


def base_shift(path: Path, session: Session) -> int:
    """What a chrome export's times count from, beyond what the session's did."""
    base: int = json.loads(path.read_bytes()).get("baseTimeNanoseconds", 0)
    return base - session.info["attributes"].get("time_origin_ns", 0) if base else 0


def slices(session: Session, *columns: str) -> Counter[tuple[Any, ...]]:
    """Start, duration (and more) of all slices, whatever table they are in."""
    found: Counter[tuple[Any, ...]] = Counter()
    for name in intervals(session):
        data = session.table(name, ["start_ns", "duration_ns", *columns])
        found.update(zip(*(column.to_pylist() for column in data.columns), strict=True))
    return found


@pytest.mark.parametrize("kind", ["sqlite", "csv", "parquet"])
def test_tables_come_back_whole(
    kind: str, session_rows: Any, make_session: Any, export: Any, import_file: Any, rows_of: Any
) -> None:
    @quick
    @given(session_rows())
    def check(rows: dict[str, list[dict[str, Any]]]) -> None:
        session = make_session(rows)
        path, exported = export(session, kind)
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        back = import_file(*files)
        assert back.ledger.clean, back.ledger.lines()
        assert exported.rows == sum(map(len, rows.values()))
        for table in rows:
            if kind == "sqlite" and table in (
                "kernel",
                "api",
            ):  # there kernels always have a full name, calls a domain
                for name in set(TABLES[table].column_names) - {"full_name", "domain"}:
                    assert rows_of(back, table, name) == rows_of(session, table, name), name
            else:
                assert rows_of(back, table) == rows_of(session, table), table

    check()


def test_chrome_keeps_slices_names_times_and_counters(
    session_rows: Any, make_session: Any, export: Any, import_file: Any, rows_of: Any
) -> None:
    @quick
    @given(session_rows())
    def check(rows: dict[str, list[dict[str, Any]]]) -> None:
        session = make_session(rows)
        path, _ = export(session, "chrome")
        events = json.loads(path.read_bytes())["traceEvents"]
        times = [event["ts"] for event in events if event["ph"] != "M"]
        assert times == sorted(times)
        back = import_file(path, shift_ns=base_shift(path, session))
        made, got = slices(session), slices(back)
        instants = sum(
            row["size_bytes"] is None for row in rows["memory"]
        )  # without a size they are no allocation
        assert sum(got.values()) - instants == sum(made.values())
        assert not made - got
        assert rows_of(back, "counter", "start_ns", "name", "value") == rows_of(
            session, "counter", "start_ns", "name", "value"
        )

    check()


@pytest.mark.traces
@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("kind", ["chrome", "perfetto", "sqlite"])
def test_real_traces_come_back_into_the_same_tables(
    kind: str, trace: str, traces_dir: Path, export: Any, import_file: Any, rows_of: Any
) -> None:
    session = import_file(traces_dir / trace)
    path, exported = export(session, kind)
    back = import_file(path, shift_ns=base_shift(path, session) if kind == "chrome" else 0)
    assert {name: back.tables()[name] for name in intervals(session)} == {
        name: session.tables()[name] for name in intervals(session)
    }
    for table in intervals(session):
        columns = [name for name in TABLES[table].column_names if name not in ("args", "depth")]
        if kind == "chrome":
            columns = [
                name for name in columns if name in known_columns(TABLES[table]) | {"process_id", "thread_id"}
            ]
        if kind == "sqlite":
            columns.remove("full_name") if "full_name" in columns else None
        assert rows_of(back, table, *columns) == rows_of(session, table, *columns), table
    missing = rows_of(session, "link", "source_ns", "target_ns") - rows_of(
        back, "link", "source_ns", "target_ns"
    )
    assert sum(missing.values()) == sum(rows for rows, why in exported.left_out if why.startswith("links"))


@pytest.mark.traces
@pytest.mark.parametrize("trace", [*TRACES, "speedscope/simple.speedscope.json"])
def test_speedscope_keeps_every_slice(trace: str, traces_dir: Path, export: Any, import_file: Any) -> None:
    session = import_file(traces_dir / trace)
    path, _ = export(session, "speedscope")
    back = import_file(path)
    assert back.ledger.clean
    assert slices(back, "name") == slices(session, "name")


def test_speedscope_keeps_made_slices(
    session_rows: Any, make_session: Any, export: Any, import_file: Any
) -> None:
    @quick
    @given(session_rows())
    def check(rows: dict[str, list[dict[str, Any]]]) -> None:
        session = make_session(rows)
        if not intervals(session):
            return
        path, _ = export(session, "speedscope")
        back = import_file(path)
        assert back.ledger.clean, back.ledger.lines()
        assert slices(back, "name") == slices(session, "name")

    check()


def stacks(session: Session) -> Counter[str]:
    """Weight of each sampled stack, as text."""
    nodes = {row["stack_id"]: row for row in session.table("stack").to_pylist()}
    found: Counter[str] = Counter()
    for row in session.table("sample", ["stack_id", "weight"]).to_pylist():
        frames, at = [], row["stack_id"]
        while at is not None:
            frames.append((nodes[at]["name"], nodes[at]["file"], nodes[at]["line"]))
            at = nodes[at]["parent_id"]
        found[str(frames[::-1])] += row["weight"]
    return found


@pytest.mark.traces
@pytest.mark.parametrize("kind", ["collapsed", "speedscope"])
def test_sampled_stacks_come_back(kind: str, traces_dir: Path, export: Any, import_file: Any) -> None:
    session = import_file(traces_dir / "collapsed" / "vertx.txt")
    path, _ = export(session, kind)
    assert stacks(import_file(path)) == stacks(session)


def test_collapsed_slices_weigh_their_own_time(make_session: Any, export: Any, import_file: Any) -> None:
    def row(name: str, start: int, duration: int) -> dict[str, Any]:
        return {"start_ns": start, "duration_ns": duration, "name": name, "process_id": 1, "thread_id": 1}

    session = make_session(
        {
            "tx": [
                row("a;b", 0, 100),
                row("c\\", 10, 30),
                row("leaf 7", 12, 5),
                row("c\\", 50, 20),
                row("a;b", 200, 1),
            ]
        }
    )
    path, _ = export(session, "collapsed")
    assert stacks(import_file(path)) == {
        "[('a;b', None, None)]": 51,
        "[('a;b', None, None), ('c\\\\', None, None)]": 45,
        "[('a;b', None, None), ('c\\\\', None, None), ('leaf 7', None, None)]": 5,
    }


def test_stacks_of_endless_recursion_are_cut(make_session: Any, export: Any) -> None:
    depth = 3000
    rows = [
        {
            "start_ns": i,
            "duration_ns": 2 * (depth - i),
            "name": "f",
            "style": "PushPop",
            "process_id": 1,
            "thread_id": 1,
        }
        for i in range(depth)
    ]
    path, exported = export(make_session({"tx": rows}), "collapsed")
    lines = path.read_text().splitlines()
    assert len(lines) == DEEPEST + 1
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 2 * depth
    assert lines[-1].count(";") == DEEPEST and ";… " in lines[-1]
    assert [count for count, _ in exported.left_out] == [depth - DEEPEST]


@pytest.mark.parametrize("kind", ["collapsed", "speedscope"])
def test_sampled_stacks_of_endless_recursion_are_cut(make_session: Any, export: Any, kind: str) -> None:
    depth = 3000
    nodes = [{"stack_id": i, "parent_id": i - 1 if i else None, "name": "f"} for i in range(depth)]
    samples = [
        {"start_ns": i, "stack_id": i, "weight": 1.0, "unit": "samples", "process_id": 1, "thread_id": 1}
        for i in range(depth)
    ]
    path, _ = export(make_session({"stack": nodes, "sample": samples}), kind)
    assert path.stat().st_size < 40 * depth * DEEPEST / 8


@pytest.mark.parametrize("kind", ["sqlite", "speedscope", "perfetto"])
def test_an_end_beyond_the_largest_time_is_that_time(
    kind: str, make_session: Any, export: Any, import_file: Any
) -> None:
    last = (1 << 63) - 1
    row = {"start_ns": last - 10, "duration_ns": 100, "name": "late", "process_id": 1, "thread_id": 1}
    path, _ = export(make_session({"tx": [row]}), kind)
    back = import_file(path)
    (name,) = [name for name in back.tables() if TABLES[name].kind is Kind.INTERVAL]
    assert back.table(name, ["start_ns", "duration_ns"]).to_pylist() == [
        {"start_ns": last - 10, "duration_ns": 10}
    ]


def test_a_link_from_behind_many_inner_slices_is_of_the_outer_one(
    make_session: Any, export: Any, import_file: Any
) -> None:
    place = {"process_id": 1, "thread_id": 1, "style": "PushPop"}
    inner = [{"start_ns": 10 * i, "duration_ns": 5, "name": "inner", **place} for i in range(200)]
    link = {
        "kind": "flow",
        "link_id": 1,
        **{f"{side}_{name}": 1 for side in ("source", "target") for name in ("process_id", "thread_id")},
        "source_ns": 12,
        "target_ns": 2500,
    }
    session = make_session(
        {"tx": [{"start_ns": 0, "duration_ns": 3000, "name": "outer", **place}, *inner], "link": [link]}
    )
    for kind in ("perfetto", "chrome"):
        path, exported = export(session, kind)
        assert not exported.left_out
        assert import_file(path).tables()["link"] == 1


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(-1, 39), st.integers(0, 10)), max_size=20),
)
def test_the_last_place_that_reaches(values: list[int], asked: list[tuple[int, int]]) -> None:
    upto = [min(place, len(values) - 1) for place, _ in asked]
    least = [one for _, one in asked]
    found = last_reaching(*(np.array(one, np.int64) for one in (values, upto, least)))
    assert found.tolist() == [
        max((i for i in range(last + 1) if values[i] >= one), default=-1)
        for last, one in zip(upto, least, strict=True)
    ]
