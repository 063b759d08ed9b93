"""`topsprof export` as a user meets it: outputs, refusals, and what stays behind when the disk breaks."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from topsprof import cli
from topsprof.exporters import registry


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def session(make_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"start_ns": 1000 * n, "duration_ns": 500, "name": f"n{n}", "process_id": 1, "thread_id": 1}
        for n in range(5)
    ]
    made = make_session(
        {"tx": rows, "counter": [{"start_ns": 5, "name": "c", "process_id": 1, "value": 1.5}]}
    )
    made.path.rename(tmp_path / "run.topsprof")
    return "run.topsprof"


@pytest.mark.parametrize("kind", registry.EXPORTERS)
def test_each_type_writes_its_output_and_refuses_to_overwrite_it(
    kind: str, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", session, "-t", kind, "-o", "out"]) == 0
    assert (tmp_path / "out").exists()
    assert names(tmp_path) == ["out", "run.topsprof"]
    capsys.readouterr()
    assert cli.main(["export", session, "-t", kind, "-o", "out"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "-f" in error
    assert cli.main(["export", session, "-t", kind, "-o", "out", "-f"]) == 0
    assert names(tmp_path) == ["out", "run.topsprof"]


@pytest.mark.parametrize(
    "words",
    [
        ["export", "-t", "chrome", "-f"],
        ["export", "-t", "csv", "-f"],
        ["sql", "-f", "parquet", "--force-overwrite", "select 1"],
        ["pack", "--force-overwrite"],
    ],
)
def test_no_file_takes_the_place_of_a_device_or_pipe(
    words: list[str], session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    for output in ("pipe", "link"):
        assert cli.main([words[0], session, *words[1:], "-o", output]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert Path("pipe").is_fifo()
    assert Path("link").is_symlink()


@pytest.mark.smoke
def test_default_names(session: str, tmp_path: Path) -> None:
    for kind in registry.EXPORTERS:
        assert cli.main(["export", session, "-t", kind, "-q"]) == 0
    assert sorted(set(names(tmp_path)) - {"run.topsprof"}) == [
        "run.collapsed",
        "run.json",
        "run.pb.gz",
        "run.pftrace",
        "run.speedscope.json",
        "run.sqlite",
        "run_csv",
        "run_parquet",
    ]


def test_stdout_is_for_text(session: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["export", session, "-t", "chrome", "-o", "-"]) == 0
    assert len([e for e in json.loads(capfdbinary.readouterr().out)["traceEvents"] if e["ph"] == "X"]) == 5
    assert cli.main(["export", session, "-t", "csv", "--table", "counter", "-o", "-"]) == 0
    assert b"1.5" in capfdbinary.readouterr().out
    for kind in ("perfetto", "sqlite", "csv"):
        assert cli.main(["export", session, "-t", kind, "-o", "-"]) == 2
        assert capfdbinary.readouterr().err.count(b"\n") == 1


def test_filter_time_and_compression(session: str, tmp_path: Path) -> None:
    assert cli.main(["export", session, "-t", "chrome", "-o", "a.json.gz", "--filter-time", "1us/2.6us"]) == 0
    events = json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes()))["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == ["n1", "n2"]
    assert cli.main(["export", session, "-t", "chrome", "-o", "b.json", "--filter-time", "@1000/@1400"]) == 0
    assert [
        e["name"] for e in json.loads((tmp_path / "b.json").read_bytes())["traceEvents"] if e["ph"] == "X"
    ] == ["n1"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-t", "nonsense"], "chrome, perfetto, speedscope, collapsed, pprof, csv, parquet, sqlite"),
        (["-t", "csv", "--table", "nonsense", "-o", "x"], "no table 'nonsense'"),
        (["-t", "perfetto", "--table", "tx"], "--table is for csv and parquet"),
        (["-t", "chrome", "-o", "no/such/folder/x"], "can't write"),
        (["-t", "chrome", "--filter-time", "x"], "time"),
        (["-t", "chrome", "--filter-time", "900s/901s"], "no slice"),
    ],
)
def test_mistakes_give_one_line(
    words: list[str], says: str, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", session, *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert names(tmp_path) == ["run.topsprof"]


def test_a_folder_that_holds_other_things_is_never_replaced(session: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    assert cli.main(["export", session, "-t", "csv", "-o", "mine", "-f"]) == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full to stand in for a full disk")
@pytest.mark.parametrize("kind", ["chrome", "perfetto", "speedscope", "collapsed"])
def test_a_full_disk_leaves_the_old_file_and_no_other(
    kind: str,
    session: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "out").write_text("old")
    really = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda self, mode="r", *a, **k: really(Path("/dev/full") if mode == "wb" else self, mode, *a, **k),
    )
    assert cli.main(["export", session, "-t", kind, "-o", "out", "-f"]) == 2
    monkeypatch.undo()
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert error.count("\n") == 1
    assert (tmp_path / "out").read_text() == "old"
    assert names(tmp_path) == ["out", "run.topsprof"]


def test_the_sqlite_export_answers_nsys_queries(make_session: Any, export: Any) -> None:
    kernel = {"duration_ns": 10, "process_id": 7, "device_id": 0, "stream_id": 1}
    session = make_session(
        {
            "kernel": [
                {
                    "start_ns": 100,
                    "name": "gemm",
                    "full_name": "void gemm<float>()",
                    "correlation_id": 5,
                    **kernel,
                },
                {"start_ns": 200, "name": "relu", "correlation_id": 6, **kernel},
            ],
            "api": [
                {
                    "start_ns": 50,
                    "duration_ns": 5,
                    "name": "cudaLaunchKernel",
                    "process_id": 7,
                    "thread_id": 8,
                    "correlation_id": 5,
                }
            ],
            "tx": [
                {
                    "start_ns": 40,
                    "duration_ns": 30,
                    "name": "step",
                    "domain": "app",
                    "style": "PushPop",
                    "process_id": 7,
                    "thread_id": 8,
                }
            ],
        }
    )
    path, _ = export(session, "sqlite")
    database = sqlite3.connect(path)
    assert database.execute(
        "SELECT s.value, k.end - k.start, api.value, r.globalTid & 0xFFFFFF "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL k "
        "JOIN StringIds s ON k.demangledName = s.id JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
        "JOIN StringIds api ON r.nameId = api.id"
    ).fetchall() == [("void gemm<float>()", 10, "cudaLaunchKernel", 8)]
    assert database.execute(
        "SELECT s.value, d.text FROM NVTX_EVENTS n JOIN StringIds s ON n.textId = s.id "
        "JOIN NVTX_EVENTS d ON d.eventType = 75 AND d.domainId = n.domainId WHERE n.eventType = 59"
    ).fetchall() == [("step", "app")]


def test_a_time_without_a_unit_is_the_same_as_in_stats(session: str, tmp_path: Path) -> None:
    """Nanoseconds: once export took it for seconds."""
    for name, text in (("bare", "1000/2600"), ("unit", "1us/2.6us")):
        out = str(tmp_path / f"{name}.json")
        assert cli.main(["export", session, "-t", "chrome", "-o", out, "--filter-time", text]) == 0
    assert (tmp_path / "bare.json").read_bytes() == (tmp_path / "unit.json").read_bytes()
