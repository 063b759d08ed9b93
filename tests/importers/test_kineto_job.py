"""Many files into one session, and the verb `import`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from topsprof import cli
from topsprof.importers.base import ImportOptions, numbers
from topsprof.importers.job import JobOptions, import_files
from topsprof.importers.trace_files import rank_of, stem_of, trace_files

from tops_kit.errors import TraceError, UserError
from tops_kit.session import Session, SessionWriter


def trace(rank: int | None, pid: int = 500, base: int | None = None, kernels: int = 2) -> bytes:
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": f"op{rank}", "ts": 1, "dur": 5, "pid": pid, "tid": pid},
        {
            "ph": "X",
            "cat": "python_function",
            "name": "a.py(1): f",
            "ts": 0,
            "dur": 9,
            "pid": pid,
            "tid": pid,
        },
    ]
    events += [
        {
            "ph": "X",
            "cat": "kernel",
            "name": f"k{i}",
            "ts": 10 + i,
            "dur": 1,
            "pid": 0,
            "tid": 7,
            "args": {"device": 0},
        }
        for i in range(kernels)
    ]
    top: dict[str, Any] = {"schemaVersion": 1}
    if rank is not None:
        top["distributedInfo"] = {"backend": "nccl", "rank": rank}
    return json.dumps(
        {**top, "traceEvents": events, **({} if base is None else {"baseTimeNanoseconds": base})}
    ).encode()


def job(folder: Path, **more: Any) -> Session:
    target = folder.parent / "job.topsprof"
    import_files(trace_files(str(folder)), target, JobOptions(overwrite=True, **more))
    return Session.open(target)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "traces"
    path.mkdir()
    return path


@pytest.mark.smoke
@pytest.mark.parametrize("workers", [1, 3])
def test_ranks_in_one_session(folder: Path, workers: int) -> None:
    for rank in range(4):
        (folder / f"t{rank}.json").write_bytes(trace(rank))
    session = job(folder, workers=workers)
    ranks = {row["rank"]: row["process_id"] for row in session.table("process").to_pylist()}
    assert sorted(ranks) == [0, 1, 2, 3]
    assert ranks[0] == 500  # the first file keeps the number that all of them have
    assert len(set(ranks.values())) == 4
    ops = {row["process_id"]: row["name"] for row in session.table("op").to_pylist()}
    assert ops == {ranks[rank]: f"op{rank}" for rank in range(4)}
    kernels = session.table("kernel").to_pylist()
    assert sorted(row["process_id"] for row in kernels) == sorted([*ranks.values()] * 2)
    moved = [entry for entry in session.ledger.entries if entry.code == "process_number_taken"]
    assert sum(entry.count for entry in moved) == 3
    assert {row["pid"] for row in session.table("process").to_pylist()} == {500}


def test_rank_from_the_file_name_and_choice_of_ranks(folder: Path) -> None:
    for rank in range(3):
        (folder / f"trace_rank{rank}.json").write_bytes(trace(None))
    session = job(folder, ranks=frozenset({0, 2}))
    assert sorted(row["rank"] for row in session.table("process").to_pylist()) == [0, 2]
    with pytest.raises(TraceError, match="--ranks"):
        job(folder, ranks=frozenset({9}))


def test_a_bad_file_is_one_line_of_the_ledger(folder: Path) -> None:
    (folder / "a.json").write_bytes(trace(0))
    (folder / "b.json").write_bytes(b"not a trace")
    session = job(folder, workers=2)
    (entry,) = [entry for entry in session.ledger.entries if entry.code == "file"]
    assert (entry.stream, entry.count) == ("import:b.json", 1)
    assert session.tables()["op"] == 1
    with pytest.raises(UserError, match=r"b\.json"):
        job(folder, options=ImportOptions(on_error="strict"))


def test_many_files_that_are_no_traces_are_one_line(folder: Path) -> None:
    (folder / "a.json").write_bytes(trace(0))
    for number in range(9):
        (folder / f"note{number}.md").write_bytes(b"# not a trace")
    (folder / "z.json.gz").write_bytes(b"\x1f\x8b\x08broken")
    session = job(folder)
    entries = [entry for entry in session.ledger.entries if entry.code == "file"]
    assert [(entry.stream, entry.count) for entry in entries] == [("import:job", 9), ("import:z.json.gz", 1)]
    assert entries[0].note.startswith("note0.md, note1.md, note2.md and 6 more files: ")
    assert "\n" not in entries[0].line


def test_lines_of_several_files_name_the_file(folder: Path) -> None:
    for number in range(3):
        (folder / f"t{number}.json").write_bytes(trace(number))
    session = job(folder)
    notes = [e.note for e in session.ledger.entries if e.code == "process_number_taken"]
    assert notes == [
        f"in t1.json and 1 more file: process 500 of this file is {500 + (1 << 32)} in the session"
    ]
    (folder / "t1.json").write_bytes(trace(1)[:-60])
    (broken,) = [e for e in job(folder).ledger.entries if e.code == "truncated_event"]
    assert broken.note.startswith("in t1.json: first at byte ")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_of_one_export_share_their_clock_and_processes(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (folder / "a.json").write_bytes(trace(0))
    session = job(folder)
    tables = folder.parent / "tables"
    assert cli.main(["export", str(session.path), "-t", kind, "-o", str(tables)]) == 0
    capsys.readouterr()
    assert cli.main(["import", str(tables), "-o", str(folder.parent / "again"), "-q"]) == 0
    assert capsys.readouterr().err == ""
    again = Session.open(folder.parent / "again.topsprof")
    assert again.ledger.clean
    assert set(again.table("op")["process_id"].to_pylist()) == {500}
    assert set(again.table("kernel")["process_id"].to_pylist()) == {500}
    assert [row["process_id"] for row in again.table("process").to_pylist()] == [500]


def test_14_clocks_of_different_origins_are_brought_together(folder: Path) -> None:
    (folder / "a.json").write_bytes(trace(0, base=1_000_000_000))
    (folder / "b.json").write_bytes(trace(1, pid=600, base=1_000_005_000))
    session = job(folder)
    starts = {row["name"]: row["start_ns"] for row in session.table("op").to_pylist()}
    assert starts == {"op0": 1000, "op1": 6000}
    assert session.info["attributes"]["time_origin_ns"] == 1_000_000_000
    codes = {entry.code: entry.kind for entry in session.ledger.entries}
    assert codes["time_origin"] == "moved"
    assert codes["alignment"] == "unsupported"  # how far two machines' clocks are apart is not known


def test_drop_while_streaming(folder: Path) -> None:
    (folder / "a.json").write_bytes(trace(0))
    session = job(folder, options=ImportOptions(drop=frozenset({"python_function"})))
    assert "python" not in session.tables()
    assert session.tables()["op"] == 1


def test_nothing_is_left_of_an_import_that_fails(folder: Path) -> None:
    (folder / "a.json").write_bytes(b"nothing")
    with pytest.raises(UserError):
        job(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["traces"]


def test_names() -> None:
    assert [
        rank_of(Path(name)) for name in ("rank-3.json", "worker_12.pt.trace.json", "9.json.gz", "a1.json")
    ] == [
        3,
        12,
        9,
        None,
    ]
    assert stem_of(Path("/x/job.pt.trace.json.gz")) == "job"
    assert numbers("0-2,8") == {0, 1, 2, 8}


class TestCommand:
    """`topsprof import`."""

    def test_default_name_and_no_overwriting(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(folder.parent)
        (folder / "step42.json").write_bytes(trace(0))
        assert cli.main(["import", "traces/step42.json"]) == 0
        assert Session.open("step42.topsprof").tables()["kernel"] == 2
        assert cli.main(["import", "traces/step42.json"]) == 2
        assert "exists" in capsys.readouterr().err
        assert cli.main(["import", "traces/step42.json", "-o", "nosuch/x"]) == 2
        assert "'nosuch' does not exist: make that folder" in capsys.readouterr().err
        assert not Path("nosuch").exists()
        assert cli.main(["import", "traces/step42.json", "-f"]) == 0
        assert cli.main(["import", "traces", "-o", "job"]) == 0
        assert Session.open("job.topsprof").tables()["kernel"] == 2

    def test_a_category_to_drop_that_never_occurs(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "a.json").write_bytes(trace(0))
        words = ["import", str(folder / "a.json"), "-q", "-f", "-o", str(folder.parent / "x"), "--drop"]
        assert cli.main([*words, "cpuop,kernel"]) == 0
        (line, _) = capsys.readouterr().err.splitlines()
        assert line.endswith(
            "nothing in the trace is of category cpuop; it has cpu_op, kernel, python_function"
        )
        assert cli.main([*words, "kernel"]) == 0
        assert "nothing in the trace" not in capsys.readouterr().err

    @pytest.mark.parametrize(
        "words",
        [
            ["missing.json"],
            ["*.nothing"],
            [".", "--steps", "3:1"],
            [".", "--ranks", "a"],
            [".", "-t", "nope"],
        ],
    )
    def test_mistakes_are_one_line(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        words: list[str],
    ) -> None:
        monkeypatch.chdir(folder)
        (folder / "a.json").write_bytes(trace(0))
        assert cli.main(["import", *words, "-o", "x"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert len(captured.err.strip().splitlines()) == 1

    @pytest.mark.skipif(sys.platform == "win32", reason="signals as on POSIX")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupted(self, folder: Path, number: int) -> None:
        pipe = folder / "slow.json"
        pipe.write_bytes(trace(0, kernels=200_000))
        code = (
            "import signal, sys, time\n"
            # whoever started the tests in the background may have it ignored
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from topsprof import cli\n"
            "from topsprof.importers import chrome_events\n"
            "inner = chrome_events.Engine.batch\n"
            "def slow(self, batch):\n"
            "    print('working', flush=True)\n"
            "    time.sleep(60)\n"
            "chrome_events.Engine.batch = slow\n"
            "sys.exit(cli.main(sys.argv[1:]))\n"
        )
        target = folder.parent / "out"
        process = subprocess.Popen(
            [sys.executable, "-c", code, "import", str(pipe), "-o", str(target)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "interrupted" in err
        assert "Traceback" not in err
        assert [path.name for path in folder.parent.iterdir()] == ["traces"]


def test_an_import_loads_nothing_heavy(tmp_path: Path) -> None:
    """pyarrow.array and its like load pandas, where there is one, just to ask what they were given."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {"x": 1}},
        {
            "ph": "X",
            "cat": "kernel",
            "name": "k<1>",
            "ts": 2,
            "dur": 2,
            "pid": 0,
            "tid": 7,
            "args": {"stream": 7},
        },
        {"ph": "i", "name": "mark", "ts": 1, "pid": 1, "tid": 1},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}},
    ]
    (tmp_path / "t.json").write_text(json.dumps(events))
    program = (
        "import sys; from topsprof.cli import main; "
        "main(['import', 't.json', '-o', 'out', '-q']); "
        "heavy = {'pandas', 'duckdb'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


def test_a_file_that_fails_midway_says_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from topsprof.importers.speedscope import SpeedscopeImporter

    event = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "good.json").write_text(json.dumps({"traceEvents": [event]}))
    (tmp_path / "bad.speedscope.json").write_text(
        '{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}'
    )

    def run(self: object, source: object, writer: SessionWriter, options: object) -> None:
        writer.append("tx", {"start_ns": [1, 2], "duration_ns": [1, 1], "name": ["x", "y"]}, 2)
        raise ValueError("broken here")

    monkeypatch.setattr(SpeedscopeImporter, "run", run)
    files = [tmp_path / "bad.speedscope.json", tmp_path / "good.json"]
    ledger = import_files(files, tmp_path / "job.topsprof", JobOptions())
    (line,) = [line for line in ledger.lines() if "bad.speedscope" in line]
    assert "the 2 rows before that are kept" in line
