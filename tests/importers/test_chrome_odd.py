"""Values that no program should write: they become what they can, and never an error of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from topsprof.importers import chrome_ranges
from topsprof.importers.base import ImportOptions, numbers
from topsprof.importers.device_names import copy_of
from topsprof.importers.job import JobOptions, import_files
from topsprof.importers.kineto import KinetoImporter
from topsprof.importers.kineto_tables import table_of

from tops_kit.session import Session

Import = Callable[..., Session]

pytestmark = pytest.mark.usefixtures("backend")

X: dict[str, Any] = {"ph": "X", "name": "a", "ts": 1, "dur": 1, "pid": 100, "tid": 1}
HUGE = "1" * 5000


def codes(session: Session) -> dict[str, int]:
    return {f"{entry.kind}:{entry.code}": entry.count for entry in session.ledger.entries if not entry.clean}


@pytest.mark.parametrize(
    "key", ["samples", "stackFrames", "deviceProperties", "baseTimeNanoseconds", "other"]
)
def test_integers_of_thousands_of_digits_beside_the_events(import_bytes: Import, key: str) -> None:
    session = import_bytes(
        f'{{"traceEvents": [{json.dumps(X)}], "{key}": {HUGE}}}'.encode(), importer="chrome"
    )
    assert session.tables()["tx"] == 1


def test_python_values_that_are_no_json_stay_text(import_events: Import) -> None:
    session = import_events([X], top={"a": "{1: 2, (1, 2): 3}", "b": "{'x': 1e999}", "c": "{'x': 1}"})
    assert session.info["attributes"]["trace"] == {
        "a": "{1: 2, (1, 2): 3}",
        "b": "{'x': 1e999}",
        "c": {"x": 1},
    }


@pytest.mark.parametrize("ts", [1e300, 9e18, "NaN", None, [1]])
def test_samples_at_impossible_times_are_counted(import_events: Import, ts: Any) -> None:
    top = {"samples": [{"sf": "1", "ts": ts}, {"sf": "1", "ts": 5}], "stackFrames": {"1": {"name": "f"}}}
    session = import_events([X], top=top)
    assert session.tables()["sample"] == 1
    assert codes(session) == {"dropped:sample_without_stack": 1}


@pytest.mark.parametrize(
    "data",
    [
        {"cpuProfile": {"nodes": 5, "samples": {"a": 1}}, "timeDeltas": 3},
        {"startTime": 1 << 62, "timeDeltas": [1e300], "cpuProfile": {"nodes": [{"id": 1}], "samples": [1]}},
        {"cpuProfile": {"nodes": [{"id": 1, "children": 7, "callFrame": {"lineNumber": (1 << 63) - 1}}]}},
    ],
)
def test_odd_profiles(import_events: Import, data: Any) -> None:
    profile = {**X, "ph": "P", "name": "Profile", "id": "0x1", "args": {"data": data}}
    assert import_events([X, profile]).tables()["tx"] == 1


def test_ends_beyond_int64_are_clipped(import_events: Import) -> None:
    session = import_events(
        [{**X, "ts": 9.2e15, "dur": 9.2e15}, {**X, "ph": "B", "ts": -9.2e15}, {**X, "ph": "E", "ts": 9.2e15}]
    )
    assert sorted(session.table("tx")["duration_ns"].to_pylist()) == [
        (1 << 63) - 1 - 9_200_000_000_000_000_000,
        (1 << 63) - 1,
    ]
    assert codes(session) == {"clipped:end_beyond_int64": 2}


def test_integers_of_64_unsigned_bits_keep_their_value_in_args(import_events: Import) -> None:
    values = {"value": (1 << 64) - 1, "Addr": (1 << 63) + 5, "bytes": -3}
    session = import_events([{**X, "cat": "user_annotation", "args": values}], importer="kineto")
    assert json.loads(session.table("tx")["args"][0].as_py()) == values


def test_elements_that_give_no_bytes_stay_in_args(import_events: Import) -> None:
    args = {"Collective name": "allreduce", "In msg nelems": 7}
    events = [
        {**X, "cat": "kernel", "ts": i, "args": {**args, "dtype": dtype}}
        for i, dtype in enumerate(("Float", "New"))
    ]
    table = import_events(events, importer="kineto").table("kernel")
    assert table["collective_bytes"].to_pylist() == [28, None]
    assert json.loads(table["args"][1].as_py())["In msg nelems"] == 7


def test_drop_knows_categories_in_comma_lists(import_events: Import) -> None:
    events = [{**X, "cat": "a,b"}, {**X, "cat": "c"}, {**X, "cat": "ab"}]
    assert import_events(events, drop=frozenset({"b"})).tables()["tx"] == 2


def test_device_types_are_those_of_the_framework(import_events: Import) -> None:
    events = [
        {**X, "ph": "i", "name": "[memory]", "ts": kind, "args": {"Bytes": 1, "Device Type": kind}}
        for kind in (0, 1, 6, 7, 12, 20, 99)
    ]
    kinds = import_events(events, importer="kineto").table("memory")["device_type"].to_pylist()
    assert kinds == ["cpu", "cuda", "hip", "fpga", "xpu", "privateuse1", "99"]


@pytest.mark.parametrize(
    ("category", "table"),
    [
        ("newchip_runtime", "api"),
        ("newchip_memcpy", "memcpy"),
        ("hpu_op", "api"),
        ("xpu_driver", "api"),
        ("_sync", None),
    ],
)
def test_categories_are_told_by_their_form(category: str, table: str | None) -> None:
    assert table_of(category) == table


def test_other_programs_categories_make_no_kineto_trace() -> None:
    assert not KinetoImporter().detects(b'[{"ph": "X", "cat": "js_runtime", "ts": 1}]', Path("a.json"))
    assert KinetoImporter().detects(b'[{"ph": "X", "cat": "hip_runtime", "ts": 1}]', Path("a.json"))


def test_copies_as_level_zero_names_them() -> None:
    assert copy_of("Memcpy M2D (Memory -> Device)") == ("HtoD", "Memory", "Device")
    assert copy_of("Memcpy D2S (Device -> Shared)").kind == "DtoS"


def test_long_args_of_open_ranges_are_paired_early(
    import_events: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chrome_ranges, "POOL_BYTES", 1000)
    events = [{**X, "ph": phase, "ts": i, "args": {"x": "y" * 600}} for i, phase in enumerate("BEBEBE")]
    session = import_events(events)
    assert session.tables()["tx"] == 3
    assert codes(session) == {}


@pytest.mark.parametrize("text", ["5-3", "0-99999999999", "a", "1-"])
def test_ranges_of_numbers_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        numbers(text)


def job(tmp_path: Path, origins: tuple[int, int], first: Any, **options: Any) -> Session:
    files = []
    for i, (origin, events) in enumerate(zip(origins, (first, [{**X, "pid": 200}]), strict=True)):
        files.append(tmp_path / f"rank{i}.json")
        step = {**X, "cat": "cpu_op", "name": "ProfilerStep#1", "dur": 100, "pid": 100 * (i + 1)}
        content: Any = {"baseTimeNanoseconds": origin, "traceEvents": [step, *events] if events else 5}
        files[-1].write_text(json.dumps(content))
    import_files(files, tmp_path / "out.topsprof", JobOptions(options=ImportOptions(**options)))
    return Session.open(tmp_path / "out.topsprof")


def test_steps_of_files_that_count_from_other_origins(tmp_path: Path) -> None:
    session = job(tmp_path, (10**9, 10**12), [X], steps=(1, 1))
    assert session.tables()["step"] == 2


def test_the_origin_is_that_of_the_first_file_even_when_it_is_bad(tmp_path: Path) -> None:
    session = job(tmp_path, (10**9, 10**12), None)
    assert session.info["attributes"]["time_origin_ns"] == 10**9
    assert min(session.table("step")["start_ns"].to_pylist()) == 10**12 - 10**9 + 1000
