"""The cases of "what breaks trace importers" in docs/import.md, by their numbers there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tops_kit.errors import TraceError, UserError
from tops_kit.session import Session

Import = Callable[..., Session]

pytestmark = pytest.mark.usefixtures("backend")


def rows(session: Session, table: str = "tx", *columns: str) -> list[dict[str, Any]]:
    """Rows of a table by start, then longest first; without the columns that are null in all rows."""
    found = session.table(table, list(columns) or None).to_pylist()
    return sorted(found, key=lambda row: (row.get("start_ns", 0), -row.get("duration_ns", 0)))


def spans(session: Session, table: str = "tx") -> list[tuple[str, int, int]]:
    return [(row["name"], row["start_ns"], row["end_ns"]) for row in rows(session, table)]


def codes(session: Session) -> dict[str, int]:
    return {f"{entry.kind}:{entry.code}": entry.count for entry in session.ledger.entries if not entry.clean}


def x(name: str, ts: Any, dur: Any, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1, **more}


def b(name: str | None, ts: Any, **more: Any) -> dict[str, Any]:
    return {"ph": "B", "ts": ts, "pid": 1, "tid": 1, **({} if name is None else {"name": name}), **more}


def e(name: str | None, ts: Any, **more: Any) -> dict[str, Any]:
    return {**b(name, ts, **more), "ph": "E"}


@pytest.mark.smoke
def test_01_overlapping_slices_of_a_thread_are_all_kept(import_events: Import) -> None:
    session = import_events([x("a", 0, 10), x("b", 5, 10), x("c", 7, 1)])
    assert spans(session) == [("a", 0, 10_000), ("b", 5_000, 15_000), ("c", 7_000, 8_000)]
    assert codes(session) == {"moved:overlapping": 1}


@pytest.mark.parametrize("overlap_ns", [1, 39, 40])
def test_02_siblings_that_overlap_by_rounding_stay_siblings(import_events: Import, overlap_ns: int) -> None:
    end = f"{10 + overlap_ns / 1000:.3f}"
    session = import_events([x("parent", 0, 30), x("a", 0, float(end)), x("b", 10, 10), x("c", 20, 5)])
    assert spans(session)[1:] == [("a", 0, 10_000), ("b", 10_000, 20_000), ("c", 20_000, 25_000)]
    assert codes(session) == {"clipped:overlap_by_rounding": 1}


def test_02_more_than_rounding_is_left_as_it_is(import_events: Import) -> None:
    session = import_events([x("a", 0, 10.041), x("b", 10, 10)])
    assert spans(session) == [("a", 0, 10_041), ("b", 10_000, 20_000)]


@pytest.mark.parametrize(("start", "over_ns"), [(0.08, 1), (0.08, 19), (5, 1), (5, 40)])
def test_02_a_child_that_ends_after_its_parent_by_rounding_stays_its_child(
    import_events: Import, start: float, over_ns: int
) -> None:
    end = 0.1 if start < 1 else 10
    session = import_events([x("parent", 0, end), x("child", start, round(end - start + over_ns / 1000, 3))])
    assert spans(session) == [
        ("parent", 0, round(end * 1000)),
        ("child", round(start * 1000), round(end * 1000)),
    ]
    assert codes(session) == {"clipped:overlap_by_rounding": 1}


def test_02_strict_keeps_the_times(import_events: Import) -> None:
    session = import_events([x("a", 0, 10.001), x("b", 10, 10)], on_error="strict")
    assert spans(session)[0] == ("a", 0, 10_001)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1712195495896244.5", 1712195495896244500),
        ("1712195495896244.567", 1712195495896244567),
        ("4458677083132.704", 4458677083132704),
        ("1.5e3", 1500000),
        ("-2.5", -2500),
        ('"1712195495896244.567"', 1712195495896244567),
        ('" 12 "', 12000),
        ("0.0004", 0),
        ("0.0005", 1),
        ("9223372036854775", 9223372036854775000),
        ("123E-3", 123),
        ("9007199254740993.001", 9007199254740993001),
    ],
)
def test_03_times_are_exact(import_bytes: Import, text: str, expected: int) -> None:
    event = b'{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": %s, "dur": 0.001}' % text.encode()
    session = import_bytes(b'{"traceEvents": [%s]}' % event)
    assert [(row["start_ns"], row["duration_ns"]) for row in rows(session)] == [(expected, 1)]


@pytest.mark.parametrize("first", [True, False])
def test_04_time_origin_before_or_after_the_events(import_bytes: Import, first: bool) -> None:
    base = '"baseTimeNanoseconds": 1735632360000000123'
    events = f'"traceEvents": [{json.dumps(x("a", 1.5, 1))}]'
    session = import_bytes(("{" + ", ".join([base, events] if first else [events, base]) + "}").encode())
    assert session.info["attributes"]["time_origin_ns"] == 1735632360000000123
    assert spans(session) == [("a", 1500, 2500)]


@pytest.mark.parametrize("unit", ["ms", "ns", "fortnight"])
def test_05_display_unit_changes_nothing(import_events: Import, unit: str) -> None:
    assert spans(import_events([x("a", 3, 4)], top={"displayTimeUnit": unit})) == [("a", 3000, 7000)]


@pytest.mark.smoke
def test_06_numbers_as_strings_and_names_as_numbers(import_events: Import) -> None:
    session = import_events(
        [
            {"ph": "X", "name": "text", "ts": "1.25", "dur": "2", "pid": "12", "tid": "7"},
            {"ph": "X", "name": "names", "ts": 5, "dur": 1, "pid": "Spans", "tid": "PyTorch Profiler"},
            {"ph": "X", "name": "big", "ts": 8, "dur": 1, "pid": 12, "tid": 139872645224448},
            {"ph": "X", "name": "zero", "ts": 9, "dur": 1, "pid": 12, "tid": 0},
            {"ph": "X", "name": "one", "ts": 9, "dur": 1, "pid": 12, "tid": 1},
            {"ph": "X", "name": "negative", "ts": 11, "dur": 1, "pid": 12, "tid": -247463936},
        ]
    )
    found = {row["name"]: row for row in rows(session)}
    assert (found["text"]["process_id"], found["text"]["thread_id"], found["text"]["start_ns"]) == (
        12,
        7,
        1250,
    )
    assert found["big"]["thread_id"] == 139872645224448
    assert (found["zero"]["thread_id"], found["one"]["thread_id"]) == (0, 1)
    assert found["negative"]["thread_id"] == -247463936
    process = {row["process_id"]: row for row in session.table("process").to_pylist()}
    assert process[found["names"]["process_id"]]["name"] == "Spans"
    thread = {row["thread_id"]: row["name"] for row in session.table("thread").to_pylist()}
    assert thread[found["names"]["thread_id"]] == "PyTorch Profiler"
    assert session.ledger.clean


class TestBeginAndEnd:
    """Case 7."""

    @pytest.mark.smoke
    def test_pairs(self, import_events: Import) -> None:
        session = import_events([b("a", 0), b("b", 1), e("b", 2), e("a", 3)])
        assert spans(session) == [("a", 0, 3000), ("b", 1000, 2000)]
        assert session.ledger.clean

    def test_end_without_a_name(self, import_events: Import) -> None:
        session = import_events([b("a", 0), b("b", 1), e(None, 2), e(None, 3)])
        assert spans(session) == [("a", 0, 3000), ("b", 1000, 2000)]
        assert session.ledger.clean

    def test_end_of_another_name_closes_the_innermost(self, import_events: Import) -> None:
        session = import_events([b("a", 0), b("b", 1), e("other", 2), e("a", 3)])
        assert spans(session) == [("a", 0, 3000), ("b", 1000, 2000)]
        assert codes(session) == {"repaired:end_of_another_name": 1}

    def test_end_of_an_outer_name_closes_what_is_inside(self, import_events: Import) -> None:
        session = import_events([b("a", 0), b("b", 1), e("a", 2)])
        assert spans(session) == [("a", 0, 2000), ("b", 1000, 2000)]
        assert codes(session) == {"repaired:begin_closed_by_outer_end": 1}

    def test_missing_begin(self, import_events: Import) -> None:
        session = import_events([e("a", 0), b("b", 1), e("b", 2)])
        assert spans(session) == [("b", 1000, 2000)]
        assert codes(session) == {"dropped:end_without_begin": 1}

    def test_missing_end_lasts_to_the_end_of_the_trace(self, import_events: Import) -> None:
        session = import_events([b("a", 0), x("b", 1, 8)])
        assert spans(session) == [("a", 0, 9000), ("b", 1000, 9000)]
        assert [row["unfinished"] for row in rows(session)] == [True, None]
        assert codes(session) == {"repaired:begin_without_end": 1}

    def test_threads_do_not_mix(self, import_events: Import) -> None:
        session = import_events([b("a", 0), b("b", 1, tid=2), e(None, 2), e(None, 3, tid=2)])
        assert spans(session) == [("a", 0, 2000), ("b", 1000, 3000)]

    def test_args_of_both_ends_are_united(self, import_events: Import) -> None:
        session = import_events([b("a", 0, args={"x": 1}), e("a", 1, args={"y": [2]})])
        assert json.loads(rows(session)[0]["args"]) == {"x": 1, "y": [2]}


class TestOrder:
    """Case 8."""

    def test_unsorted(self, import_events: Import) -> None:
        session = import_events([e("a", 9), x("c", 2, 1), b("b", 4), e("b", 5), b("a", 0)])
        assert spans(session) == [("a", 0, 9000), ("c", 2000, 3000), ("b", 4000, 5000)]
        assert session.ledger.clean

    def test_end_before_begin_at_one_instant(self, import_events: Import) -> None:
        session = import_events([b("a", 0), b("b", 1), e("a", 1), e("b", 2)])
        assert spans(session) == [("a", 0, 1000), ("b", 1000, 2000)]
        assert session.ledger.clean

    def test_zero_length_range(self, import_events: Import) -> None:
        session = import_events([b("a", 0), b("z", 1), e("z", 1), e("a", 2)])
        assert spans(session) == [("a", 0, 2000), ("z", 1000, 1000)]
        assert session.ledger.clean

    def test_zero_length_range_whose_end_stands_first(self, import_events: Import) -> None:
        session = import_events([e("z", 1), b("z", 1)])
        assert spans(session) == [("z", 1000, 1000)]
        assert session.ledger.clean

    def test_longest_of_one_start_is_the_parent(self, import_events: Import) -> None:
        session = import_events([x("child", 0, 1), x("parent", 0, 5), x("next", 1, 1)])
        assert session.ledger.clean


class TestDamage:
    """Case 9."""

    def text(self, *events: str) -> str:
        return '{"traceEvents": [' + ", ".join(events) + "]}"

    def good(self, name: str = "a", ts: int = 0) -> str:
        return json.dumps(x(name, ts, 1))

    @pytest.mark.parametrize(
        ("data", "code"),
        [
            ("[%s, %s", "repaired:missing_bracket"),
            ("[%s, %s,", "repaired:missing_bracket"),
            ("[%s, %s,]", "repaired:extra_comma"),
            ('{"traceEvents": [%s, %s, {}]}', "repaired:empty_event"),
            ('{"traceEvents": [%s, %s}', "repaired:missing_bracket"),
            ('{"traceEvents": [%s %s]}', "repaired:missing_comma"),
            ('{"traceEvents": [%s,, %s]}', "repaired:extra_comma"),
            ('{"traceEvents": [%s, 5, %s]}', "dropped:not_an_object"),
            ('{"traceEvents": [%s, {"ph": oops}, %s]}', "dropped:malformed_event"),
            ('{"traceEvents": [%s, %s, {"ph": "X", "na', "dropped:truncated_event"),
            ('{"traceEvents": [%s, %s], "other": {"a": [1, ', "dropped:truncated_metadata"),
            ('{"traceEvents": [%s, %s]} and more', "repaired:trailing_data"),
            ('{"bad": oops, "traceEvents": [%s, %s]}', "dropped:malformed_metadata"),
        ],
    )
    def test_what_is_whole_is_kept(self, import_bytes: Import, data: str, code: str) -> None:
        text = data % (self.good("a"), self.good("b", 5))
        session = import_bytes(text.encode(), importer="chrome")
        assert [name for name, *_ in spans(session)] == ["a", "b"]
        assert code in codes(session)
        with pytest.raises(TraceError, match=code.partition(":")[2].replace("_", " ")):
            import_bytes(text.encode(), importer="chrome", on_error="strict")

    def test_raw_control_characters(self, import_bytes: Import) -> None:
        session = import_bytes(self.text(self.good("a@b")).replace("@", "\n\t\x01").encode())
        assert spans(session)[0][0] == "a\n\t\x01b"
        assert codes(session) == {"repaired:control_character": 1}

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "nan", "-inf"])
    def test_no_numbers(self, import_bytes: Import, number: str) -> None:
        text = self.text(json.dumps(x("a", 0, 1, args={"value": "@", "other": 1})).replace('"@"', number))
        session = import_bytes(text.encode())
        assert json.loads(rows(session)[0]["args"]) == {"value": None, "other": 1}
        assert codes(session) == {"repaired:not_a_number": 1}

    def test_bad_unicode(self, import_bytes: Import) -> None:
        text = self.text(self.good("@"), self.good("\ud83d\ude00", 2)).replace("@", r"\ud800x").encode()
        session = import_bytes(text.replace(b"\\ud800x", b"\\ud800\xff", 1))
        assert [name for name, *_ in spans(session)] == ["\ufffd\ufffd", "\U0001f600"]
        assert codes(session) == {"repaired:bad_text": 1}

    def test_durations(self, import_events: Import) -> None:
        session = import_events([x("none", 0, None), x("negative", 1, -5), x("word", 2, "long")])
        assert [end - start for _, start, end in spans(session)] == [0, 0, 0]
        assert codes(session) == {
            "repaired:duration_missing": 1,
            "repaired:duration_negative": 1,
            "repaired:duration_no_number": 1,
        }

    def test_events_without_time(self, import_events: Import) -> None:
        session = import_events([x("a", 0, 1), x("b", None, 1), x("c", "soon", 1), x("d", 1e300, 1)])
        assert [name for name, *_ in spans(session)] == ["a"]
        assert codes(session) == {"dropped:event_without_time": 1, "dropped:event_with_bad_time": 2}

    @pytest.mark.parametrize(
        "data", [b"", b"   ", b"{}", b"[]", b"hello", b"5", b'{"a": 1}', b'"traceEvents"']
    )
    def test_nothing_to_import(self, import_bytes: Import, data: bytes) -> None:
        if data == b"[]":
            assert import_bytes(data, importer="chrome").tables() == {}
            return
        with pytest.raises(UserError) as caught:
            import_bytes(data, importer="chrome")
        assert "\n" not in str(caught.value)

    def test_errors_have_a_position(self, import_bytes: Import) -> None:
        text = '{"traceEvents": [' + self.good() + ', {"ph": oops}]}'
        position = text.index('{"ph": oops')
        with pytest.raises(TraceError, match=f"byte {position}"):
            import_bytes(text.encode(), importer="chrome", on_error="strict")

    def test_deep_nesting_is_no_crash(self, import_bytes: Import) -> None:
        deep = "[" * 5000 + "]" * 5000
        text = self.text(
            self.good("a"), '{"ph": "X", "ts": 1, "args": {"deep": ' + deep + "}}", self.good("b", 4)
        )
        assert [name for name, *_ in spans(import_bytes(text.encode()))] == ["a", "b"]


class TestMetadata:
    """Case 10."""

    def test_names_late_and_without_time(self, import_events: Import) -> None:
        session = import_events(
            [
                x("a", 0, 1, pid=7, tid=8),
                {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "server"}},
                {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "main"}},
                {"ph": "M", "name": "process_sort_index", "pid": 7, "args": {"sort_index": -6}},
                {"ph": "M", "name": "thread_sort_index", "pid": 7, "tid": 8, "args": {"sort_index": "3"}},
                {"ph": "M", "name": "process_labels", "pid": 7, "args": {"labels": "GPU 0"}},
                {"ph": "M", "name": "process_labels", "pid": 7, "args": {"labels": "fast"}},
                {"ph": "M", "name": "num_cpus", "pid": 7, "args": {"number": 16}},
                {"ph": "M", "name": "process_name", "pid": 7, "args": {}},
            ]
        )
        (process,) = session.table("process").to_pylist()
        assert (process["process_id"], process["pid"], process["name"]) == (7, 7, "server")
        assert (process["sort_index"], process["labels"]) == (-6, "GPU 0, fast")
        assert json.loads(process["args"]) == {"num_cpus": {"number": 16}}
        (thread,) = session.table("thread").to_pylist()
        assert (thread["process_id"], thread["thread_id"], thread["name"], thread["sort_index"]) == (
            7,
            8,
            "main",
            3,
        )
        assert session.ledger.clean


def flow(phase: str, ts: float, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": "f", "cat": "c", "id": 1, "ts": ts, "pid": 1, "tid": 1, **more}


class TestFlows:
    """Case 11."""

    def links(self, session: Session) -> list[tuple[int, int]]:
        return sorted((row["source_ns"], row["target_ns"]) for row in session.table("link").to_pylist())

    @pytest.mark.smoke
    def test_start_steps_end(self, import_events: Import) -> None:
        session = import_events([flow("s", 1), flow("t", 2, tid=2), flow("f", 3, tid=3, bp="e")])
        assert self.links(session) == [(1000, 2000), (2000, 3000)]
        first = session.table("link").to_pylist()[0]
        assert (first["kind"], first["link_id"], first["target_thread_id"]) == ("c", 1, 2)

    def test_binds_to_the_next_slice_without_bp(self, import_events: Import) -> None:
        session = import_events(
            [x("a", 0, 2), x("b", 5, 1, tid=2), x("c", 8, 1, tid=2), flow("s", 1), flow("f", 3, tid=2)]
        )
        assert self.links(session) == [(1000, 5000)]
        assert self.links(
            import_events([x("b", 5, 1, tid=2), flow("s", 1), flow("f", 3, tid=2, bp="e")])
        ) == [(1000, 3000)]

    def test_reused_ids(self, import_events: Import) -> None:
        session = import_events([flow("s", 1), flow("f", 2, bp="e"), flow("s", 3), flow("f", 4, bp="e")])
        assert self.links(session) == [(1000, 2000), (3000, 4000)]

    def test_hexadecimal_ids_are_numbers(self, import_events: Import) -> None:
        session = import_events([flow("s", 1, id="0x1f"), flow("f", 2, id="1F", bp="e")])
        assert self.links(session) == [(1000, 2000)]
        assert session.table("link")["link_id"].to_pylist() == [31]

    def test_names_and_categories_tell_flows_apart(self, import_events: Import) -> None:
        session = import_events([flow("s", 1), flow("f", 2, name="g", bp="e"), flow("f", 3, cat="d", bp="e")])
        assert "link" not in session.tables()
        assert codes(session) == {"unsupported:flow_start_alone": 1, "unsupported:flow_end_alone": 2}

    def test_15_an_end_before_its_start_stays_a_link(self, import_events: Import) -> None:
        session = import_events([flow("s", 5), flow("f", 4, bp="e")])
        assert self.links(session) == [(5000, 4000)]
        assert codes(session) == {"moved:flow_ends_before_it_starts": 1}


class TestIdsAndOtherPhases:
    """Case 12."""

    def test_async_by_category_and_id(self, import_events: Import) -> None:
        def a(phase: str, ts: float, name: str, id_: Any, cat: str = "c", **more: Any) -> dict[str, Any]:
            return {"ph": phase, "ts": ts, "name": name, "id": id_, "cat": cat, "pid": 1, "tid": 1, **more}

        session = import_events(
            [
                a("b", 0, "p", 1),
                a("b", 1, "q", "0x2"),
                a("b", 2, "inner", 1),
                a("n", 3, "tick", 1),
                a("e", 4, "inner", 1, tid=9),
                a("e", 5, "p", 1),
                a("e", 6, "q", 2),
                a("b", 7, "other", 1, cat="d"),
                a("e", 8, "other", 1, cat="d"),
            ]
        )
        found = {row["name"]: row for row in rows(session)}
        assert {name: (row["start_ns"], row["end_ns"]) for name, row in found.items()} == {
            "p": (0, 5000),
            "q": (1000, 6000),
            "inner": (2000, 4000),
            "tick": (3000, 3000),
            "other": (7000, 8000),
        }
        assert found["inner"]["end_thread_id"] == 9
        assert {name: row["style"] for name, row in found.items()} == dict.fromkeys(
            ("p", "q", "inner", "other"), "StartEnd"
        ) | {"tick": "Mark"}
        assert session.ledger.clean

    def test_local_and_global_ids(self, import_events: Import) -> None:
        def a(phase: str, ts: float, pid: int, where: str) -> dict[str, Any]:
            return {
                "ph": phase,
                "ts": ts,
                "name": where,
                "cat": "c",
                "id2": {where: "0x5"},
                "pid": pid,
                "tid": 1,
            }

        session = import_events(
            [
                a("b", 0, 1, "local"),
                a("b", 1, 2, "local"),
                a("e", 2, 1, "local"),
                a("e", 3, 2, "local"),
                a("b", 5, 1, "global"),
                a("e", 6, 2, "global"),
            ]
        )
        assert spans(session) == [("local", 0, 2000), ("local", 1000, 3000), ("global", 5000, 6000)]
        assert session.ledger.clean

    def test_old_async(self, import_events: Import) -> None:
        session = import_events([flow("S", 1), flow("T", 2), flow("p", 3), flow("F", 4)])
        assert spans(session) == [("f", 1000, 4000), ("f", 2000, 2000), ("f", 3000, 3000)]

    @pytest.mark.smoke
    def test_counters(self, import_events: Import) -> None:
        session = import_events(
            [
                {
                    "ph": "C",
                    "name": "memory",
                    "ts": 1,
                    "pid": 1,
                    "args": {"used": 5, "free": "7.5", "note": "x"},
                },
                {"ph": "C", "name": "memory", "ts": 2, "pid": 1, "id": 3, "args": {"used": 6}},
                {"ph": "C", "name": "memory", "ts": 3, "pid": 1, "args": {}},
            ]
        )
        found = session.table("counter").to_pylist()
        assert [(r["start_ns"], r["name"], r["series"], r["value"]) for r in found] == [
            (1000, "memory", "used", 5.0),
            (1000, "memory", "free", 7.5),
            (2000, "memory[3]", "used", 6.0),
        ]
        assert json.loads(found[0]["args"]) == {"note": "x"}
        assert codes(session) == {"dropped:counter_without_value": 1}

    @pytest.mark.parametrize("phase", ["i", "I", "R"])
    def test_instants(self, import_events: Import, phase: str) -> None:
        session = import_events(
            [{"ph": phase, "name": "m", "ts": 4, "pid": 1, "tid": 2, "s": "t", "args": {"a": 1}}]
        )
        (row,) = rows(session)
        assert (row["name"], row["start_ns"], row["duration_ns"], row["style"]) == ("m", 4000, 0, "Mark")

    def test_objects(self, import_events: Import) -> None:
        session = import_events(
            [
                flow("N", 1, id="0x28"),
                flow("O", 2, id="0x28", args={"snapshot": {"a": 1}}),
                flow("D", 3, id="0x28"),
            ]
        )
        assert spans(session) == [("f", 1000, 3000), ("f", 2000, 2000)]

    @pytest.mark.parametrize("phase", ["v", "V", "c", "(", "=", "Q", ""])
    def test_other_phases_are_counted(self, import_events: Import, phase: str) -> None:
        session = import_events([x("a", 0, 1), flow(phase, 1)])
        (code,) = codes(session)
        assert code.startswith("unsupported:")

    def test_profile_samples(self, import_events: Import) -> None:
        frames = {"1": {"name": "root"}, "2": {"name": "leaf", "category": "js", "parent": 1}}
        samples = [{"ts": "10", "pid": 1, "tid": "2", "weight": "1", "sf": sf} for sf in (2, 1, 9)]
        session = import_events([x("a", 0, 1)], top={"samples": samples, "stackFrames": frames})
        stack = {row["stack_id"]: row for row in session.table("stack").to_pylist()}
        found = session.table("sample").to_pylist()
        assert [stack[row["stack_id"]]["name"] for row in found] == ["leaf", "root"]
        assert stack[stack[found[0]["stack_id"]]["parent_id"]]["name"] == "root"
        assert codes(session) == {"dropped:sample_without_stack": 1}

    def test_v8_profile(self, import_events: Import) -> None:
        nodes = [
            {"id": 1, "callFrame": {"functionName": "(root)"}},
            {"id": 2, "parent": 1, "callFrame": {"functionName": "f", "url": "a.js", "lineNumber": 4}},
        ]
        chunk = {"cpuProfile": {"nodes": nodes, "samples": [2, 1]}, "timeDeltas": [5, 10]}
        session = import_events(
            [
                flow("P", 1, name="Profile", args={"data": {"startTime": 100}}),
                flow("P", 2, name="ProfileChunk", args={"data": chunk}),
            ]
        )
        assert session.table("sample")["start_ns"].to_pylist() == [105_000, 115_000]
        frame = session.table("stack").to_pylist()[1]
        assert (frame["name"], frame["file"], frame["line"], frame["parent_id"]) == ("f", "a.js", 5, 1)


class TestFiles:
    """Case 13."""

    data = json.dumps({"traceEvents": [x("a", 0, 1), x("b", 2, 1)]}).encode()

    def zstd(self, data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return bytes(sink.getvalue())

    def check(self, session: Session) -> None:
        assert [name for name, *_ in spans(session)] == ["a", "b"]
        assert session.ledger.clean

    def test_gzip_of_several_members(self, import_bytes: Import) -> None:
        self.check(
            import_bytes(gzip.compress(self.data[:30]) + gzip.compress(self.data[30:]), name="t.json.gz")
        )

    def test_plain_behind_gz(self, import_bytes: Import) -> None:
        self.check(import_bytes(self.data, name="t.json.gz"))

    def test_gzip_without_the_name(self, import_bytes: Import) -> None:
        self.check(import_bytes(gzip.compress(self.data), name="t.json"))

    def test_zstd(self, import_bytes: Import) -> None:
        self.check(import_bytes(self.zstd(self.data), name="t.json.zst"))
        self.check(import_bytes(self.zstd(self.data[:40]) + self.zstd(self.data[40:]), name="t"))

    def test_byte_order_mark(self, import_bytes: Import) -> None:
        self.check(import_bytes(b"\xef\xbb\xbf" + self.data))
        self.check(import_bytes(gzip.compress(b"\xef\xbb\xbf" + self.data)))

    def test_truncated_gzip_keeps_what_is_readable(self, import_bytes: Import) -> None:
        events = json.dumps({"traceEvents": [x(f"e{i}", i, 1) for i in range(2000)]}).encode()
        session = import_bytes(gzip.compress(events)[:-2000])
        assert 100 < session.tables()["tx"] < 2000
        assert codes(session)["dropped:damaged_compression"] == 1

    def test_truncated_zstd(self, import_bytes: Import) -> None:
        with pytest.raises(UserError):
            import_bytes(self.zstd(self.data)[:12])


def test_array_of_events(import_bytes: Import) -> None:
    session = import_bytes(json.dumps([x("a", 0, 1), x("b", 2, 1)]).encode())
    assert [name for name, *_ in spans(session)] == ["a", "b"]
    assert session.ledger.clean


def test_unknown_categories_become_domains(import_events: Import) -> None:
    session = import_events([x("a", 0, 1, cat="loading,rail", args={"k": {"deep": [1, "\u00e9\n"]}}, tts=5)])
    (row,) = rows(session)
    assert (row["domain"], row["style"]) == ("loading,rail", "PushPop")
    assert json.loads(row["args"]) == {"k": {"deep": [1, "\u00e9\n"]}, "tts": 5}


def test_drop(import_events: Import) -> None:
    session = import_events([x("a", 0, 1, cat="keep"), x("b", 1, 1, cat="noise")], drop=frozenset({"noise"}))
    assert [name for name, *_ in spans(session)] == ["a"]
    assert codes(session) == {"dropped:category": 1}
