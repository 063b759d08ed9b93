"""`topsprof sql`: answers, formats, and what it must not be able to do."""

from __future__ import annotations

import csv
import io
import json

import pyarrow.parquet as pq
import pytest
from topsprof.cli import main
from topsprof.commands.sql import one_line, read_query

TOP = "select name, sum(end_ns-start_ns) from kernel group by name order by 2 desc limit 5"


@pytest.fixture
def sql(small, capsys):
    def run(*words):
        code = main(["sql", str(small.path), *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.smoke
def test_the_query_of_the_manual(sql):
    code, out, _ = sql(TOP, "-f", "json")
    assert code == 0
    rows = json.loads(out)
    assert [list(row.values()) for row in rows] == [["a", 111], ["b", 70], ["c", 1]]


def test_formats_say_the_same(sql, tmp_path):
    query = "select name, count(*) as n, avg(duration_ns) as mean from kernel group by name order by name"
    expected = [["a", "2", "55.5"], ["b", "1", "70.0"], ["c", "1", "1.0"]]
    _, out, _ = sql(query, "-f", "csv")
    assert list(csv.reader(io.StringIO(out)))[1:] == expected
    _, out, _ = sql(query)
    assert [line.strip("| ").split() for line in out.splitlines() if line.startswith("|")][1:] == [
        [word for cell in row for word in (cell, "|")][:-1] for row in expected
    ]
    target = tmp_path / "x.parquet"
    assert sql(query, "-f", "parquet", "-o", str(target))[0] == 0
    assert pq.read_table(target).to_pydict()["n"] == [2, 1, 1]
    assert sql(query, "-f", "parquet", "-o", str(target))[0] == 2


def test_slice_unites_intervals(sql):
    _, out, _ = sql("select table_name, count(*) as n from slice group by 1 order by 1", "-f", "json")
    assert {row["table_name"]: row["n"] for row in json.loads(out)} == {
        "api": 4,
        "kernel": 4,
        "memcpy": 2,
        "memset": 1,
        "tx": 5,
    }


def test_values_of_every_kind_have_a_text(sql):
    query = (
        "select 1::hugeint << 100 as h, 1.5::decimal(9,2) as d, [1,2] as l, {'a': 1} as s, 'x'::blob as "
        "b, null as n"
    )
    _, out, _ = sql(query, "-f", "json")
    assert json.loads(out) == [{"h": 1 << 100, "d": 1.5, "l": [1, 2], "s": {"a": 1}, "b": "78", "n": None}]


@pytest.mark.parametrize(
    "query", ["selec 1", "select nix from kernel", "select * from nix", "select 1/'a'", "", " ; "]
)
def test_errors_are_one_line_and_exit_2(sql, query):
    code, out, err = sql(query)
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and err.startswith("topsprof: sql:")


@pytest.mark.parametrize(
    "query",
    [
        "copy kernel to '{0}/x.csv'",
        "copy (select 1) to '{0}/x.parquet' (format parquet)",
        "select * from '{0}/secret.csv'",
        "select * from read_csv('{0}/secret.csv')",
        "select * from read_text('{0}/secret.csv')",
        "attach '{0}/x.db'",
        "install httpfs",
        "load httpfs",
        "export database '{0}/x'",
        "set enable_external_access = true",
        "reset enable_external_access",
        "delete from kernel",
        "insert into kernel select * from kernel",
        "update kernel set duration_ns = 0",
        "create table t as select * from glob('{0}/*')",
    ],
)
def test_nothing_outside_can_be_read_and_nothing_changed(sql, small, tmp_path, query):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    before = {path: path.read_bytes() for path in small.path.rglob("*") if path.is_file()}
    code, out, err = sql(query.format(tmp_path))
    assert code == 2 and out == "" and err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"secret.csv", small.path.name}
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.parametrize(
    "query",
    [
        "drop view kernel",
        "select 1; drop view kernel",
        "create or replace view kernel as select 1",
        "explain analyze drop view kernel",
        "/* a */ -- b\n EXPLAIN (analyze, format json) drop view kernel",
        "alter view kernel rename to k",
        "set threads = 1",
        "pragma version",
        "begin",
        "prepare p as select 1",
        "detach memory",
    ],
)
def test_what_is_no_query_is_refused(sql, query):
    code, out, err = sql(query)
    assert code == 2 and out == "" and err.count("\n") == 1 and "is no query" in err


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from kernel;",
        "-- most\nwith k as (select * from kernel) from k",
        "from kernel limit 1",
        "values (1), (2)",
        "describe kernel",
        "show tables",
        "summarize kernel",
        "explain select * from kernel",
        "explain (select 1)",
        "EXPLAIN ANALYZE select * from kernel",
        "pivot kernel on name using sum(duration_ns)",
        "unpivot (select 1 as a, 2 as b) on a, b",
    ],
)
def test_every_kind_of_query_is_answered(sql, query):
    code, out, err = sql(query, "-f", "json")
    assert (code, err) == (0, "") and json.loads(out)


def test_python_variables_are_out_of_reach(sql):
    assert sql("select * from words")[0] == 2


def test_a_query_from_a_file_or_stdin(sql, tmp_path, monkeypatch):
    file = tmp_path / "q.sql"
    file.write_text("select 7 as x")
    assert json.loads(sql(str(file), "-f", "json")[1]) == [{"x": 7}]
    monkeypatch.setattr("sys.stdin", io.StringIO("select 8 as x"))
    assert json.loads(sql("-", "-f", "json")[1]) == [{"x": 8}]
    assert sql(str(tmp_path / "missing.sql"))[0] == 2
    (tmp_path / "binary.sql").write_bytes(b"\xff\xfe\x00")
    assert sql(str(tmp_path / "binary.sql"))[0] == 2


def test_what_reads_like_a_query_is_one():
    assert read_query("select 1") == "select 1"


def test_schema_lists_tables_and_columns(sql):
    _, out, _ = sql("--schema", "-f", "json")
    rows = json.loads(out)
    assert any(row["table"] == "kernel" and row["column"] == "end_ns" for row in rows)
    assert next(row["rows"] for row in rows if row["table"] == "kernel" and not row["column"]) == 4
    assert any(row["table"] == "slice" for row in rows)
    assert all(row["comment"] for row in rows)


def test_schema_for_people_describes_what_the_session_has(sql):
    _, out, _ = sql("--schema")
    paragraphs = out.split("\n\n")
    assert any(p.startswith("kernel  4 rows: ") and "  end_ns " in p for p in paragraphs)
    assert paragraphs[-1].startswith("Without rows in this session: ") and "osrt" in paragraphs[-1]


def test_schema_of_some_tables(sql):
    _, out, _ = sql("--schema", "osrt,slice")
    assert out.startswith("osrt  0 rows") and "slice  view" in out and "kernel  " not in out
    rows = json.loads(sql("kernel", "--schema", "-f", "json")[1])
    assert {row["table"] for row in rows} == {"kernel"}
    code, out, err = sql("--schema", "kernl")
    assert code == 2 and out == "" and "did you mean 'kernel'" in err and err.count("\n") == 1


def test_unknown_is_not_the_empty_text_for_people(sql):
    assert "NULL" in sql("select null as a, '' as b")[1]
    assert sql("select null as a, '' as b", "-f", "csv")[1] == "a,b\r\n,\r\n"


def test_parquet_needs_a_file(sql):
    code, _, err = sql("select 1", "-f", "parquet")
    assert code == 2 and "-o" in err


def test_a_query_is_needed(sql):
    assert sql()[0] == 2


def test_messages_lose_their_drawing():
    assert (
        one_line("Binder Error: no x\nCandidates: y\n\nLINE 1: select x\n  ^")
        == "Binder Error: no x Candidates: y"
    )


def test_a_long_query_without_spaces_is_no_file():
    query = "select(" + "1+" * 200 + "1)"
    assert read_query(query) == query


def test_a_type_that_parquet_lacks_is_one_line(sql, tmp_path):
    code, _, err = sql("select interval 1 day as x", "-f", "parquet", "-o", str(tmp_path / "x.parquet"))
    assert code == 2 and err.count("\n") == 1 and "cast that column" in err
    assert not list(tmp_path.glob("x.parquet*"))


def test_a_query_that_fails_late_is_not_blamed_on_the_output(sql, tmp_path):
    target = tmp_path / "x.parquet"
    query = "select case when i = 1500000 then error('boom')::int else i end from range(2000000) r(i)"
    code, _, err = sql(query, "-f", "parquet", "-o", str(target))
    assert code == 2 and err.startswith("topsprof: sql:") and "boom" in err
    assert list(tmp_path.glob("x.*")) == []


def test_large_queries_do_not_spill_into_the_working_folder(sql):
    _, out, _ = sql("select current_setting('temp_directory') as place", "-f", "json")
    assert "topsprof-sql" in json.loads(out)[0]["place"]


def test_the_ledger_is_shown_when_it_is_not_clean(small, capsys):
    hot = next(small.path.glob("segments/kernel-*/hot.arrow"))
    hot.write_bytes(hot.read_bytes()[:100])
    assert main(["sql", str(small.path), "select count(*) as n from kernel", "-f", "csv"]) == 0
    captured = capsys.readouterr()
    assert captured.out.split() == ["n", "0"]
    assert "damaged segment" in captured.err and captured.err.count("\n") == 1
