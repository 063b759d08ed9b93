"""`topsprof stats`: which reports go where, in which format, and what is said when something is amiss."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest
from topsprof.cli import main
from topsprof.reports import registry
from topsprof.reports.aliases import ALIASES
from topsprof.reports.output import show

from tops_kit.errors import UserError
from tops_kit.session import SessionWriter


@pytest.fixture
def stats(small, capsys):
    """Runs `topsprof stats` on the small session: (exit code, stdout, stderr)."""

    def run(*words):
        code = main(["stats", str(small.path), *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.smoke
def test_json_is_one_object_keyed_by_report(stats):
    code, out, err = stats("-r", "gcu_kern_sum,api_sum", "-r", "tx_sum", "-f", "json")
    assert code == 0 and err == ""
    found = json.loads(out)
    assert list(found) == ["gcu_kern_sum", "api_sum", "tx_sum"]
    assert found["api_sum"][0]["Total Time (ns)"] == 60


@pytest.mark.smoke
def test_without_a_report_the_usual_ones_are_shown(stats):
    _, out, _ = stats()
    shown = [line for line in out.splitlines() if line.startswith(" ** ")]
    assert [line.rsplit("(", 1)[1] for line in shown] == [
        "tx_sum):",
        "api_sum):",
        "gcu_kern_sum):",
        "mem_time_sum):",
        "mem_size_sum):",
    ]


def test_names_of_other_tools_are_the_same_reports(stats):
    _, ours, _ = stats("-r", "gcu_kern_sum", "-f", "json")
    _, theirs, _ = stats("-r", "cuda_gpu_kern_sum", "-f", "json")
    assert ours == theirs


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_every_alias_leads_to_a_report_and_hides_none(alias):
    assert registry.find(alias)[1].name == ALIASES[alias]
    assert alias not in registry.names()


def test_every_report_is_sound():
    for name in registry.names():
        key, report = registry.find(name)
        assert key == name == report.name
        assert report.title and report.description.endswith(".") and report.columns and report.requires
        titles = [column.title for column in report.columns]
        assert len(set(titles)) == len(titles)
        for variant in report.variants.values():
            titles = [column.title for column in variant.columns]
            assert len(set(titles)) == len(titles) and variant.name == name


def test_a_report_without_data_is_one_line_on_stderr(stats):
    code, out, err = stats("-r", "osrt_sum,api_sum")
    assert code == 0
    assert "(api_sum)" in out and "osrt_sum" not in out
    assert "skipping osrt_sum" in err and err.count("\n") == 1
    _, out, _ = stats("-r", "osrt_sum", "-f", "json")
    assert json.loads(out) == {"osrt_sum": []}
    assert stats("-r", "osrt_sum", "-q")[2] == ""


def test_csv_of_several_reports_has_an_empty_line_between(stats):
    _, out, _ = stats("-r", "api_sum,tx_sum", "-f", "csv")
    first, second = out.replace("\r\n", "\n").split("\n\n")
    assert [row["Name"] for row in csv.DictReader(io.StringIO(first))] == ["launch", "sync"]
    assert next(csv.reader(io.StringIO(second)))[-1] == "Range"


def test_an_output_file_is_never_overwritten_unasked(stats, tmp_path):
    target = tmp_path / "out.json"
    assert stats("-r", "api_sum", "-f", "json", "-o", str(target))[0] == 0
    before = target.read_bytes()
    code, _, err = stats("-r", "tx_sum", "-f", "json", "-o", str(target))
    assert code == 2 and "--force-overwrite" in err and target.read_bytes() == before
    assert stats("-r", "tx_sum", "-f", "json", "-o", str(target), "--force-overwrite")[0] == 0
    assert list(json.loads(target.read_text())) == ["tx_sum"]


def test_a_dot_writes_beside_the_session(stats, small):
    assert stats("-r", "api_sum,gcu_kern_sum:base", "-f", "csv", "-o", ".")[0] == 0
    stem = small.path.name.removesuffix(".topsprof")
    assert (small.path.parent / f"{stem}_api_sum.csv").read_bytes().count(b"\r\n") == 3
    assert (small.path.parent / f"{stem}_gcu_kern_sum_base.csv").exists()


def test_the_nth_format_and_output_belong_to_the_nth_report(stats, tmp_path):
    code, out, _ = stats(
        "-r", "api_sum", "-r", "tx_sum", "-f", "csv", "-f", "json", "-o", "-", "-o", str(tmp_path / "tx.json")
    )
    assert code == 0 and out.startswith("Time (%),")
    assert list(json.loads((tmp_path / "tx.json").read_text())) == ["tx_sum"]


def test_several_tables_never_share_one_csv_file(stats, tmp_path):
    assert stats("-r", "api_sum,tx_sum", "-f", "csv", "-o", str(tmp_path / "out.csv"))[0] == 0
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out_api_sum.csv", "out_tx_sum.csv"]


def test_units_and_filters(stats):
    _, out, _ = stats("-r", "gcu_kern_sum:base", "-f", "json", "--timeunit", "us", "--filter-time", "0.2us/")
    rows = json.loads(out)["gcu_kern_sum:base"]
    assert {row["Name"]: row["Total Time (us)"] for row in rows} == {"a": 0.061, "b": 0.07, "c": 0.001}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["-r", "gcu_kern_summ"], "did you mean"),
        (["-r", "api_sum:base"], "no argument"),
        (["-f", "xml"], "choose"),
        (["--timeunit", "h"], "choose"),
        (["--filter-time", "x"], "START/END"),
        (["--filter-tx", "nix"], "no range"),
        (["-r", "model"], "no report"),
        (["-r", "../x"], "no report"),
        (["-o", "/no/such/folder/x.txt"], "-o"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(stats, words, hint):
    code, out, err = stats(*words)
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and hint in err


def test_rows_are_limited_in_every_format(stats):
    assert len(json.loads(stats("-r", "gcu_kern_sum", "-f", "json")[1])["gcu_kern_sum"]) > 1
    assert len(json.loads(stats("-r", "gcu_kern_sum", "-f", "json", "--rows", "1")[1])["gcu_kern_sum"]) == 1
    assert stats("-r", "gcu_trace", "-f", "csv", "--rows", "2")[1].count("\r\n") == 3
    assert "more rows: --rows 0 shows all" in stats("-r", "gcu_trace", "--rows", "1")[1]
    assert stats("-r", "gcu_trace", "--rows", "0")[1] == stats("-r", "gcu_trace")[1]
    assert stats("--rows", "-1")[0] == 2


def test_a_narrow_terminal_is_told_what_it_does_not_see(stats, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _, out, _ = stats("-r", "kern_exec_sum")
    assert max(map(len, out.splitlines())) <= 60
    assert "Not shown in 60 columns: PID, TID" in " ".join(out.split()) and "-f csv" in out


def test_help_lists_and_describes(capsys):
    assert main(["stats", "--help-reports"]) == 0
    assert "gcu_kern_sum[:base]" in capsys.readouterr().out
    assert main(["stats", "--help-reports", "nvtx_sum"]) == 0
    out = capsys.readouterr().out
    assert "tx_sum - " in out and "Total Time (ns)" in out and "nvtx_sum" in out
    assert main(["stats", "--help-reports", "ALL"]) == 0
    out = capsys.readouterr().out
    assert all(f"{name} - " in out for name in registry.names())


def test_a_session_is_needed(capsys):
    assert main(["stats"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_empty_session_has_nothing_to_show(tmp_path, capsys):
    with SessionWriter.create(tmp_path / "empty.topsprof", kind="import"):
        pass
    assert main(["stats", str(tmp_path / "empty.topsprof")]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "no data" in captured.err
    assert main(["stats", str(tmp_path / "empty.topsprof"), "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {}


def test_the_ledger_is_shown_when_it_is_not_clean(tmp_path, capsys):
    with SessionWriter.create(tmp_path / "lossy.topsprof", kind="import") as writer:
        writer.append("tx", {"start_ns": [0], "name": ["x"]})
        writer.ledger.count("process:7", "dropped:ring_full", 12)
    assert main(["stats", str(tmp_path / "lossy.topsprof"), "-f", "json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["tx_sum"][0]["Instances"] == 1
    assert "process:7: dropped 12 (ring full)" in captured.err


def test_a_report_needs_one_way_to_its_rows():
    from topsprof.reports.model import Report

    with pytest.raises(ValueError, match="exactly one"):
        Report("x", "X", "X.", ("tx",), ())


def test_unknown_errors_have_no_place_here():
    with pytest.raises(UserError):
        registry.find("no_such_report")


def test_source_lines_are_limited_for_people_alone(make_session, capsys, tmp_path):
    lines = range(1, 41)
    session = make_session(
        {
            "kernel": {
                "start_ns": [0], "duration_ns": [9], "name": ["k"], "process_id": [1], "metric_id": [1],
            },
            "kernel_line": {
                "process_id": [1] * 40, "metric_id": [1] * 40, "kernel": ["k"] * 40, "file": ["f.py"] * 40,
                "line": list(lines), "counter": ["cost_cycles"] * 40,
                "value": [float(1000 - n) for n in lines],
            },
        }
    )  # fmt: skip
    report = [registry.find("kern_line")]

    def shown(**options):
        show(session, report, **options)
        return capsys.readouterr().out

    out = shown()
    assert "f.py:30" in out and "f.py:31" not in out
    assert (
        "... 10 more rows: -r kern_line --rows 0 shows all" in out
        or "10 more rows: --rows 0 shows all" in out
    )
    assert "f.py:40" in shown(limit=0) and "more rows" not in shown(limit=0)
    assert "f.py:7" in shown(limit=7) and "f.py:8" not in shown(limit=7)
    assert "f.py:40" in shown(formats=["csv"]) and "f.py:40" in shown(formats=["json"])
    show(session, report, outputs=[str(tmp_path / "all.txt")])
    assert "f.py:40" in (tmp_path / "all.txt").read_text()
