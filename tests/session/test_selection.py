from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tops_kit.errors import UserError
from tops_kit.session import Filter, Selection, Session, SessionWriter, Windows, compact, selecting
from tops_kit.session.selection import OPERATORS, parse_time

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5s", 1_500_000_000),
        ("200ms", 200_000_000),
        ("12us", 12_000),
        ("7ns", 7),
        ("3", 3_000_000_000),
        (".5us", 500),
        ("-2ms", -2_000_000),
        ("0.000000001", 1),
        ("1.50000000000s", 1_500_000_000),
    ],
)
def test_times_are_exact(text: str, expected: int) -> None:
    assert parse_time(text) == expected


@pytest.mark.parametrize("text", ["", "s", "1.5.2s", "0.5ns", "1 fortnight", "1e3s", "."])
def test_malformed_times(text: str) -> None:
    with pytest.raises(UserError):
        parse_time(text)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text()
)
columns = st.sampled_from(["name", "stream_id", "duration_ns"])
filters = st.builds(Filter, columns, st.sampled_from([o for o in OPERATORS if "~" not in o]), scalars)
ends = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
selections = st.builds(
    Selection,
    st.one_of(st.none(), st.tuples(ends, ends), st.just("1.2s/3s"), st.just("/5ms")),
    st.lists(st.dictionaries(columns, scalars, min_size=1), max_size=3).map(tuple),
    st.one_of(st.none(), st.just("gemm|conv"), st.just("")),
    st.lists(filters, max_size=3).map(tuple),
)


@given(selections)
def test_text_and_json_round_trip(selection: Selection) -> None:
    assert Selection.from_json(selection.to_json()) == selection
    assert Selection.parse(str(selection)) == selection
    assert hash(Selection.parse(str(selection))) == hash(selection)


@pytest.mark.parametrize(
    "text",
    [
        "5s",
        "3s/1s",
        "{",
        '{"time": [1]}',
        '{"time": 5}',
        '{"names": "("}',
        '{"filters": ["="]}',
        '{"filters": 3}',
        '{"tracks": [1]}',
        '{"other": 1}',
        "a/b",
    ],
)
def test_malformed_texts(text: str) -> None:
    with pytest.raises(UserError) as error:
        Selection.parse(text)
    assert "\n" not in str(error.value)


@pytest.fixture(params=["raw", "sorted", "many lanes"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    path = tmp_path / "s.topsprof"
    with SessionWriter.create(path) as writer:
        writer.append(
            "kernel",
            {
                "start_ns": [100, 200, 300, 400],
                "duration_ns": [50, 150, 0, 10],
                "name": ["gemm", "conv", "gemm", None],
                "stream_id": [7, 7, 8, None],
                "device_id": 0,
                "occupancy": [0.5, 1.5, None, 2.0],
            },
        )
        writer.append("tx", {"start_ns": [150], "duration_ns": [10], "name": ["step"], "unfinished": [True]})
        writer.append("process", {"process_id": [1]})
    if request.param != "raw":
        compact(path)
    if request.param == "sorted":
        monkeypatch.setattr(selecting, "ROWS_OF_A_LANE", 0)
    return Session.open(path)


@pytest.mark.parametrize(
    ("selection", "starts"),
    [
        (Selection(), [100, 200, 300, 400]),
        (Selection(time=(150, 300)), [200]),
        (Selection(time=(149, 301)), [100, 200, 300]),
        (Selection(time=(None, 150)), [100]),
        (Selection(time=(300, None)), [200, 300, 400]),
        (Selection(time=(1000, None)), []),
        (Selection(time="50ns/101ns"), [200]),
        (Selection(names="^ge"), [100, 300]),
        (Selection(filters=(Filter("stream_id", "=", 7),)), [100, 200]),
        (Selection(filters=(Filter("stream_id", "!=", 7),)), [300, 400]),
        (Selection(filters=(Filter("stream_id", "=", None),)), [400]),
        (Selection(filters=(Filter("name", "!=", "gemm"),)), [200, 400]),
        (Selection(filters=(Filter("name", "=", None),)), [400]),
        (Selection(filters=(Filter("name", "!~", "m"),)), [200, 400]),
        (Selection(filters=(Filter("occupancy", ">", 1),)), [200, 400]),
        (Selection(filters=(Filter("end_ns", ">=", 350),)), [200, 400]),
        (Selection(filters=(Filter("device_id", "=", 0),)), [100, 200, 300, 400]),
        (Selection(filters=(Filter("device_id", "=", 1),)), []),
        (Selection(filters=(Filter("context_id", "=", None),)), [100, 200, 300, 400]),
        (Selection(filters=(Filter("task_id", "=", 0),)), []),
        (Selection(tracks=({"stream_id": 8}, {"stream_id": 7, "device_id": 1})), [300]),  # type: ignore[arg-type]
        (Selection(time=(0, 250), names="conv", filters=(Filter("stream_id", "<", 8),)), [200]),
    ],
)
def test_rows_that_a_selection_takes(session: Session, selection: Selection, starts: list[int]) -> None:
    assert sorted(session.table("kernel", ["start_ns"], selection).column(0).to_pylist()) == starts
    for name in session.tables():
        session.table(name, selection=selection)  # fits every table


def test_plain_tables_are_not_restricted(session: Session) -> None:
    assert session.table("process", selection=Selection(time=(0, 1))).num_rows == 1


@pytest.mark.parametrize(
    "text", ["stream_id=x", "stream_id=true", "stream_id=99999999999999999999", "name>null"]
)
def test_values_that_do_not_fit(session: Session, text: str) -> None:
    with pytest.raises(UserError, match="doesn't fit"):
        session.table("kernel", selection=Selection(filters=(Filter.parse(text),)))


@given(st.text())
def test_any_text_gives_a_selection_or_one_line(text: str) -> None:
    try:
        value: Any = Selection.parse(text)
        assert isinstance(value, Selection)
    except UserError:
        pass


@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 30)), min_size=1, max_size=40),
    st.lists(st.integers(-5, 160), max_size=12, unique=True),
    st.booleans(),
)
def test_windows_take_what_overlaps_one_of_them(
    rows: list[tuple[int, int]], borders: list[int], by_lane: bool
) -> None:
    borders = sorted(borders)[: len(borders) // 2 * 2]
    windows = list(zip(borders[::2], borders[1::2], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.topsprof"
        with SessionWriter.create(path) as writer:
            writer.append(
                "tx",
                {
                    "start_ns": [start for start, _ in rows],
                    "duration_ns": [duration for _, duration in rows],
                    "process_id": 1,
                    "thread_id": 1,
                },
            )
            writer.flush(level="lanes" if by_lane else "raw")
        (segment,) = Session.open(path).segments("tx")
        mask = Windows(windows).mask(segment)
        starts, ends = segment.times()
        expected = [
            any(start < end and max(stop, start + 1) > begin for begin, end in windows)
            for start, stop in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        assert (mask.tolist() if isinstance(mask, np.ndarray) else [mask] * len(rows)) == expected
