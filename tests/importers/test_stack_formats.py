"""speedscope, collapsed stacks and viztracer: what each may hold, and what is wrong with some files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from topsprof.exporters.collapsed import escaped
from topsprof.importers.collapsed import split_frames
from topsprof.importers.decimals import nanoseconds
from topsprof.importers.stacks import Frame, StackTree

from tops_kit.errors import TraceError
from tops_kit.session import Session


def rows(session: Session, table: str, *columns: str) -> list[tuple[Any, ...]]:
    data = session.table(table, columns)
    return list(zip(*(data[name].to_pylist() for name in columns), strict=True))


def codes(session: Session) -> dict[str, int]:
    return {f"{entry.kind}:{entry.code}": entry.count for entry in session.ledger.entries if not entry.clean}


def stacks(session: Session) -> dict[tuple[str, ...], float]:
    nodes = {row[0]: row[1:] for row in rows(session, "stack", "stack_id", "parent_id", "name")}
    out: dict[tuple[str, ...], float] = {}
    for at, weight in rows(session, "sample", "stack_id", "weight"):
        path: list[str] = []
        while at is not None:
            at, name = nodes[at]
            path.insert(0, name)
        out[tuple(path)] = out.get(tuple(path), 0) + weight
    return out


@pytest.mark.smoke
def test_collapsed_frames_may_hold_spaces_digits_and_separators(import_bytes: Any) -> None:
    text = "# a comment\nmain;work item 12 3\nmain;f(int, char*);step 2 0.5\r\nmain;a\\;b;c 1e2\n\nmain  7\n"
    text += "no weight here\n"
    session = import_bytes(text.encode(), name="a.folded")
    assert stacks(session) == {
        ("main", "work item 12"): 3,
        ("main", "f(int, char*)", "step 2"): 0.5,
        ("main", "a;b", "c"): 100,
        ("main",): 7,
    }
    assert codes(session) == {"dropped:line_without_weight": 1}
    assert {unit for _, unit in rows(session, "sample", "weight", "unit")} == {"samples"}


def test_collapsed_frames_that_name_a_place(import_bytes: Any) -> None:
    session = import_bytes(b"<module> (app.py:3);malloc (/lib/libc.so.6);f (int) 2\n", name="a.collapsed")
    assert rows(session, "stack", "name", "file", "line") == [
        ("<module>", "app.py", 3),
        ("malloc", "/lib/libc.so.6", None),
        ("f (int)", None, None),
    ]


@given(st.lists(st.text(st.sampled_from("a;\\ 1"), min_size=1, max_size=6), min_size=1, max_size=4))
def test_escaped_frames_are_split_as_they_were(frames: list[str]) -> None:
    stack = ";".join(escaped(frame) for frame in frames)
    assert split_frames(stack + ";end") == [*frames, "end"]


def test_nothing_but_prose_is_no_collapsed_file(import_bytes: Any) -> None:
    with pytest.raises(TraceError, match="frame;frame weight"):
        import_bytes(b"just words\nand more\n", name="a.collapsed", importer="collapsed")


def speedscope(*profiles: dict[str, Any], frames: list[dict[str, Any]] | None = None) -> bytes:
    named = (
        frames
        if frames is not None
        else [{"name": "a"}, {"name": "b"}, {"name": "f", "file": "x.py", "line": 4}]
    )
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "shared": {"frames": named},
            "profiles": list(profiles),
        }
    ).encode()


def evented(*events: tuple[str, float, int], unit: str = "nanoseconds", end: float = 100) -> dict[str, Any]:
    return {
        "type": "evented",
        "name": "p",
        "unit": unit,
        "startValue": 0,
        "endValue": end,
        "events": [{"type": kind, "at": at, "frame": frame} for kind, at, frame in events],
    }


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("unit", "factor"),
    [("nanoseconds", 1), ("microseconds", 10**3), ("milliseconds", 10**6), ("seconds", 10**9)],
)
def test_speedscope_units(import_bytes: Any, unit: str, factor: int) -> None:
    session = import_bytes(
        speedscope(evented(("O", 1, 0), ("O", 2, 2), ("C", 5, 2), ("C", 9, 0), unit=unit)), name="a.json"
    )
    assert rows(session, "tx", "name", "start_ns", "duration_ns") == [("a", factor, 8 * factor)]
    assert rows(session, "python", "name", "file", "line", "start_ns", "duration_ns") == [
        ("f", "x.py", 4, 2 * factor, 3 * factor)
    ]


def test_speedscope_repairs_are_counted(import_bytes: Any) -> None:
    session = import_bytes(
        speedscope(evented(("C", 1, 0), ("O", 10, 0), ("O", 5, 1), ("C", 20, 0), ("O", 30, 1), ("O", 31, 99)))
    )
    assert codes(session) == {
        "dropped:close_without_open": 1,
        "repaired:time_goes_back": 1,
        "repaired:close_of_another_frame": 1,
        "repaired:open_without_close": 2,
        "dropped:unknown_event": 1,
    }
    assert sorted(rows(session, "tx", "name", "start_ns", "duration_ns")) == [
        ("a", 10, 90),
        ("b", 10, 10),
        ("b", 30, 70),
    ]


def test_speedscope_with_several_profiles(import_bytes: Any) -> None:
    sampled = {
        "type": "sampled",
        "name": "s",
        "unit": "milliseconds",
        "startValue": 5,
        "endValue": 8,
        "samples": [[0, 1], [0], []],
        "weights": [1, 1.5, 0.5],
    }
    sizes = {
        "type": "sampled",
        "name": "m",
        "unit": "bytes",
        "startValue": 0,
        "endValue": 0,
        "samples": [[1]],
        "weights": [4096],
    }
    session = import_bytes(speedscope(evented(("O", 1, 0), ("C", 2, 0)), sampled, sizes))
    assert rows(session, "sample", "start_ns", "weight", "unit", "thread_id") == [
        (5_000_000, 1e6, "ns", 2),
        (6_000_000, 1.5e6, "ns", 2),
        (7_500_000, 0.5e6, "ns", 2),
        (0, 4096.0, "bytes", 3),
    ]
    assert [name for _, name in rows(session, "thread", "thread_id", "name")] == ["p", "s", "m"]


@pytest.mark.parametrize(
    "damage",
    [
        b"{",
        b'{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": 3}',
        speedscope({"type": "sampled", "unit": "none", "samples": [[77]], "weights": [1]}),
        speedscope(evented(("O", 1, 0)) | {"events": [{"type": "O", "at": "x", "frame": 0}]}),
    ],
)
def test_damaged_speedscope_files_give_one_line(import_bytes: Any, damage: bytes) -> None:
    with pytest.raises(TraceError) as raised:
        import_bytes(damage, name="a.speedscope.json", importer="speedscope")
    assert "\n" not in str(raised.value)


@given(st.lists(st.integers(-(10**18), 10**18), min_size=1, max_size=6), st.sampled_from([0, 3, 6, 9]))
def test_decimals_are_exact(values: list[int], digits: int) -> None:
    texts = []
    for value in values:
        sign, size = "-" if value < 0 else "", abs(value)
        whole, part = divmod(size, 10**digits)
        texts.append(f"{sign}{whole}" + (f".{part:0{digits}}" if digits else ""))
    assert nanoseconds(pa.array(texts), digits).tolist() == values


def test_a_stack_tree_holds_each_path_once() -> None:
    tree = StackTree()
    nodes = tree.add(np.array([0, 2, 4, 4, 5]), np.array([0, 1, 0, 2, 0]))
    assert nodes.tolist() == [2, 3, -1, 1]
    columns = tree.take_rows([Frame("r"), Frame("x"), Frame("y", "f.py", 3)])
    assert columns is not None
    assert columns["name"] == ["r", "x", "y"]
    assert columns["parent_id"].to_pylist() == [None, 1, 1]
    assert tree.take_rows([]) is None
    assert tree.path(3) == [0, 2]


def test_viztracer_calls_go_to_python_with_file_and_line(import_bytes: Any) -> None:
    events = [
        {"ph": "X", "cat": "FEE", "name": "work (/app/main.py:12)", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2},
        {"ph": "X", "cat": "FEE", "name": "builtins.len", "pid": 1, "tid": 2, "ts": 2, "dur": 0.5},
        {"ph": "X", "cat": "other", "name": "user", "pid": 1, "tid": 2, "ts": 9, "dur": 1},
        {"ph": "C", "name": "gc", "pid": 1, "tid": 2, "ts": 9, "args": {"collected": 3}},
    ]
    session = import_bytes(
        json.dumps({"traceEvents": events, "viztracer_metadata": {"version": "1.1"}}).encode()
    )
    assert rows(session, "python", "name", "file", "line", "start_ns", "duration_ns", "thread_id") == [
        ("work", "/app/main.py", 12, 1500, 2000, 2),
        ("builtins.len", None, None, 2000, 500, 2),
    ]
    assert rows(session, "tx", "name", "domain") == [("user", "other")]
    assert rows(session, "counter", "name", "value") == [("gc", 3.0)]
    assert session.ledger.clean


_VIZTRACER_1 = (
    b'{"traceEvents":[{"ph":"M","pid":7,"tid":7,"name":"process_name","args":{"name":"MainProcess"}},'
    b'{"pid":7,"tid":7,"ts":10.431,"ph":"X","cat":"fee","dur":0.59,"name":"A.g (/app/main.py:3)"},'
    b'{"pid":7,"tid":7,"ts":10.5,"ph":"X","cat":"fee","dur":0.2,"name":"builtins.sum"}%s],'
    b'"viztracer_metadata":{"overflow":false,"version":"1.1.1"},"file_info":{"files":{},"functions":{}}}'
)


@pytest.mark.parametrize("more", [0, 3000], ids=["small", "metadata beyond the head"])
def test_viztracer_1_writes_another_category_and_itself_at_the_end(import_bytes: Any, more: int) -> None:
    event = b',{"pid":7,"tid":7,"ts":%d,"ph":"X","cat":"fee","dur":0.5,"name":"f (/app/main.py:1)"}'
    session = import_bytes(_VIZTRACER_1 % b"".join(event % (20 + n) for n in range(more)))
    assert session.tables() == {"python": 2 + more, "process": 1, "thread": 1}
    calls = sorted(rows(session, "python", "start_ns", "name", "file", "line", "duration_ns"))
    assert calls[:2] == [(10431, "A.g", "/app/main.py", 3, 590), (10500, "builtins.sum", None, None, 200)]


def test_a_category_called_fee_is_not_viztracers_unless_one_says_so(import_bytes: Any) -> None:
    events = [{"ph": "X", "name": "pay", "cat": "fee", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]
    data = json.dumps(events).encode()
    assert import_bytes(data).tables()["tx"] == 1
    assert import_bytes(data, importer="viztracer").tables()["python"] == 1


@pytest.mark.traces
def test_the_real_viztracer_trace(traces_dir: Path, import_bytes: Any) -> None:
    raw = (traces_dir / "viztracer" / "multithread.json").read_bytes()
    session = import_bytes(raw)
    expected = [event for event in json.loads(raw)["traceEvents"] if event.get("cat") == "FEE"]
    assert session.tables()["python"] == len(expected)
    assert session.ledger.total("dropped") == 0


def test_collapsed_heads_with_odd_lines(import_bytes: Any) -> None:
    for head in (";;; 5\n", "\n  \n\n", "# made by\n  # another\n", "; 1\n;; 2\n"):
        session = import_bytes((head + "main;work 3\n" * 2).encode(), name="a.txt")
        assert stacks(session)[("main", "work")] == 6, head


def test_collapsed_files_that_begin_with_many_single_frames(import_bytes: Any) -> None:
    text = "".join(f"frame {number} 1\n" for number in range(200)) + "main;work 3\n"
    assert stacks(import_bytes(text.encode(), name="a.txt"))[("main", "work")] == 3


def test_speedscope_profiles_that_are_none(import_bytes: Any) -> None:
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": "f"}]},
        "profiles": [None, 7, {"type": "sampled", "name": "p", "samples": [[0]], "weights": [1]}],
    }
    session = import_bytes(json.dumps(document).encode(), name="a.json")
    assert codes(session) == {"dropped:no_profile": 2}
    assert session.tables()["sample"] == 1
