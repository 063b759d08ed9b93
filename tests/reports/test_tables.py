"""The formats of tables: each says the same, exactly, whatever a name holds."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topsprof import tables
from topsprof.reports.model import column

COLUMNS = (
    column("Time (%)", "percent"),
    column("Total", "time"),
    column("Avg", "time_mean"),
    column("Calls", "count"),
    column("Size (MB)", "number"),
    column("Id", "id"),
    column("Name"),
)
ROW = (12.345, 1_234_567_890_123_456_789, 1234.5, 12_345, 0.00125, 99_999, "void f<int>(a, b)")
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def text(rows, **style):
    out = io.StringIO()
    tables.write(tables.Sheet(COLUMNS, rows, style.pop("heading", "")), out, tables.Style(**style))
    return out.getvalue()


@pytest.mark.smoke
def test_column_is_aligned_and_has_thousands_separators():
    lines = text([ROW, (1.0, 5, 0.0, 1, 2.0, 1, "g")], format="column", heading="Title (name)").splitlines()
    assert lines[0] == " ** Title (name):"
    assert lines[4].split()[:6] == [
        "12.3",
        "1,234,567,890,123,456,789",
        "1,234.5",
        "12,345",
        "0.001",
        "99999",
    ]
    titles, rule, first, second = lines[2:6]
    assert {len(first[: -len(ROW[-1])]), len(second[: -len("g")])} == {rule.rindex(" ") + 1}
    assert titles.startswith(" Time (%)")


def test_table_has_ruled_lines():
    lines = text([ROW], format="table").splitlines()
    assert lines[0] == lines[2] == lines[4]
    assert set(lines[0]) == {"+", "-"}
    assert {len(line) for line in lines} == {len(lines[0])}


def test_csv_is_rfc_4180():
    out = text([(1.0, 2, 3.0, 4, 5.0, 6, 'a,"b"\nc')], format="csv")
    assert out == (
        'Time (%),Total (ns),Avg (ns),Calls,Size (MB),Id,Name\r\n1.0,2,3.0,4,5.0,6,"a,""b""\nc"\r\n'
    )


def test_tsv_escapes_what_would_break_a_line():
    out = text([(None, 2, 3.0, 4, 5.0, 6, "a\tb\nc\\d\r")], format="tsv")
    assert out.splitlines()[1] == "\t2\t3.0\t4\t5.0\t6\ta\\tb\\nc\\\\d\\r"


def test_json_times_are_whole_ns_unless_a_unit_is_asked_for():
    (row,) = json.loads(text([ROW], format="json"))
    assert row["Total (ns)"] == ROW[1] and row["Avg (ns)"] == 1234
    assert isinstance(row["Avg (ns)"], int)
    (row,) = json.loads(text([ROW], format="json", time_unit="us"))
    assert row["Avg (us)"] == 1.2345
    assert row["Time (%)"] == 12.345


@pytest.mark.parametrize(
    ("unit", "shown"), [("ns", "1234567"), ("us", "1234.567"), ("ms", "1.234567"), ("s", "0.001234567")]
)
def test_units_lose_no_digit(unit, shown):
    rows = list(
        csv.reader(io.StringIO(text([(0.0, 1_234_567, 1.0, 1, 1.0, 1, "")], format="csv", time_unit=unit)))
    )
    assert rows[1][1] == shown
    assert rows[0][1] == f"Total ({unit})"


def test_negative_times_keep_their_sign_in_every_unit():
    assert "-0.001500" in text([(0.0, -1500, 1.0, 1, 1.0, 1, "")], format="csv", time_unit="ms")


@pytest.mark.parametrize("format_", tables.FORMATS)
def test_no_rows(format_):
    out = text([], format=format_)
    assert json.loads(out) == [] if format_ == "json" else "Total (ns)" in out


def test_unknown_values_are_empty_or_null():
    empty = (None,) * 7
    assert text([empty], format="csv").splitlines()[1] == ",,,,,,"
    assert set(json.loads(text([empty], format="json"))[0].values()) == {None}
    assert text([empty], format="column")


def test_what_json_has_no_word_for_is_null():
    row = json.loads(text([(float("nan"), 1, 1.0, 1, float("inf"), 1, "x")], format="json"))[0]
    assert row["Time (%)"] is None and row["Size (MB)"] is None


def test_long_names_are_cut_only_for_terminals():
    row = (*ROW[:-1], "n" * 500)
    assert "n" * 500 in text([row], format="column")
    shown = text([row], format="column", width=120)
    assert max(map(len, shown.splitlines())) <= 120
    assert "nnn..." in shown


def test_wide_characters_keep_columns_aligned():
    rows = [(1.0, 1, 1.0, 1, 1.0, 1, "训练"), (1.0, 1, 1.0, 1, 1.0, 1, "abcd")]
    lines = text(rows, format="table").splitlines()
    assert tables.display_width(lines[3]) == tables.display_width(lines[4]) == len(lines[0])
    assert tables.truncate("训练训练训练", 9) == "训练训..."


def test_a_name_can_not_command_the_terminal():
    assert "\x1b" not in text([(1.0, 1, 1.0, 1, 1.0, 1, "\x1b[2Jx")], format="column")


@given(st.lists(TEXT, max_size=5))
def test_csv_and_json_give_every_name_back(names):
    rows = [(1.0, 1, 1.0, 1, 1.0, 1, name) for name in names]
    assert [row["Name"] for row in json.loads(text(rows, format="json"))] == names
    out = io.StringIO(text(rows, format="csv"), newline="")
    assert [row["Name"] for row in csv.DictReader(out)] == names


@given(st.lists(TEXT, max_size=5))
def test_tsv_is_one_line_a_row(names):
    rows = [(1.0, 1, 1.0, 1, 1.0, 1, name) for name in names]
    assert text(rows, format="tsv").count("\n") == len(names) + 1


def test_a_name_gets_the_whole_next_line_where_the_numbers_fill_the_first():
    columns = [tables.Column("A", tables.Type.TEXT), tables.Column("Name", tables.Type.TEXT)]
    out = io.StringIO()
    tables.write(tables.Sheet(columns, [("x" * 70, "n" * 300)]), out, tables.Style(width=80))
    line = out.getvalue().splitlines()[-1]
    assert line.endswith("...") and 150 < len(line) <= 160
