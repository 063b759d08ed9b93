"""The formats of tables: each says the same, exactly, whatever a name holds."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topsprof import tables
from topsprof.reports import registry
from topsprof.reports.model import Type, column
from topsprof.sheet import readable_time
from topsprof.textwidth import display_width, truncate

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
    assert display_width(lines[3]) == display_width(lines[4]) == len(lines[0])
    assert truncate("训练训练训练", 9) == "训练训..."


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


def test_titles_stand_over_their_cells():
    lines = text([(1.0, 5, 0.0, 1, 2.0, 1, "a long name")], format="column").splitlines()
    titles, _, row = lines
    assert titles.endswith(" Name") and titles.index("Name") == row.index("a long name")
    assert titles.index("Id") + len("Id") == row.index("1", row.index("2.000")) + 1


def test_a_terminal_with_room_has_exact_times():
    lines = text([ROW], format="column", width=200).splitlines()
    assert "Total (ns)" in lines[0] and "1,234,567,890,123,456,789" in lines[2]


def test_a_narrow_terminal_has_readable_times_unless_a_unit_is_asked_for():
    row = (12.3, 39_393_289, 1234.5, 36, 0.5, 7, "f")
    shown = text([row], format="column", width=100)
    assert "39.39 ms" in shown and "1.234 us" in shown and "(ns)" not in shown
    shown = text([row], format="column", width=100, time_unit="us")
    assert "39,393.289" in shown and "Total (us)" in shown


def test_points_in_time_stay_exact():
    columns = (column("Start", "point"), column("Duration", "time"), column("Name"))
    out = io.StringIO()
    tables.write(tables.Sheet(columns, [(1_234_567_890, 1500, "f")]), out, tables.Style(width=80))
    titles, _, row = out.getvalue().splitlines()
    assert titles.split() == ["Start", "(ns)", "Duration", "Name"]
    assert row.split() == ["1,234,567,890", "1.500", "us", "f"]


@pytest.mark.parametrize("name", registry.names())
@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("format_", ["column", "table"])
def test_no_line_of_a_report_is_longer_than_the_terminal(name, width, format_):
    report = registry.find(name)[1]
    values = {"text": "void 训练<int, " * 9, "percent": 12.3, "time_mean": 98_765_432.1, "number": 1234.5678}
    row = [values.get(column.type.value, 98_765_432) for column in report.columns]
    out = io.StringIO()
    sheet = tables.Sheet(report.columns, [row], heading=f"{report.title} ({name})")
    left_out = tables.write(sheet, out, tables.Style(format_, width=width))
    lines = out.getvalue().splitlines()
    assert max(map(display_width, lines)) <= width
    titles = next(line for line in lines[1:] if column_titles(line, report.columns))
    shown = {column.title for column in report.columns} - set(left_out)
    assert all(title in titles for title in shown)
    assert any(column.type is Type.TEXT and column.title in shown for column in report.columns)


def column_titles(line, columns):
    return sum(column.title in line for column in columns) > 1


def test_columns_that_tell_least_are_left_out_first():
    report = registry.find("gcu_kern_sum")[1]
    row = (28.8, 46_762_159, 15, 3117477.3, 2520607.0, 1689577, 5993392, 1498453.6, "n" * 200)
    out = io.StringIO()
    sheet = tables.Sheet(report.columns, [row])
    assert tables.write(sheet, out, tables.Style(width=90)) == ("Med", "Min", "StdDev")
    assert tables.write(sheet, out, tables.Style()) == ()


def test_rows_beyond_a_limit_are_counted():
    rows = [(1.0, n, 1.0, 1, 1.0, 1, f"name{n}") for n in range(10)]
    out = io.StringIO()
    tables.write(tables.Sheet(COLUMNS, rows, limit=4, all_with="-r x"), out, tables.Style())
    shown = out.getvalue()
    assert "name3" in shown and "name4" not in shown and "... 6 more rows: -r x shows all" in shown
    out = io.StringIO()
    tables.write(tables.Sheet(COLUMNS, rows, limit=9, all_with="-r x"), out, tables.Style())
    assert "name9" in out.getvalue() and "more rows" not in out.getvalue()


def test_a_result_too_wide_for_the_terminal_is_a_block_a_row():
    columns = [column(f"number_{n}", "id") for n in range(30)] + [column("text")]
    row = [*range(30), "训练 " * 60]
    out = io.StringIO()
    style = tables.Style("table", width=80, null="NULL", records=True)
    assert tables.write(tables.Sheet(columns, [row, [None] * 31]), out, style) == ()
    lines = out.getvalue().splitlines()
    assert max(map(display_width, lines)) <= 80
    assert lines[0].startswith("-- row 1 ---") and "number_29  29" in lines
    assert "".join(lines).count("训") == 60 and lines[-1] == "text       NULL"


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 ns"),
        (0.0, "0 ns"),
        (999, "999 ns"),
        (12.34, "12.3 ns"),
        (999.97, "1.000 us"),
        (2365, "2.365 us"),
        (39_393_289, "39.39 ms"),
        (523_543_678, "523.5 ms"),
        (999_960_000, "1.000 s "),
        (-1_418_158_414, "-1.418 s "),
        (3_600_000_000_000, "3,600.0 s "),
    ],
)
def test_readable_times_have_four_digits(ns, shown):
    assert readable_time(ns) == shown
