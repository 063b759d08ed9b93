"""Opening sessions, packs and traces by what a user types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from topsprof import opening
from topsprof.cli import main
from topsprof.digests import Digests
from topsprof.importers.job import JobOptions, import_files
from topsprof.importers.registry import IMPORTERS
from topsprof.opening import cache_folder, content_key, open_session, output_base

from tops_kit.errors import TraceError, UserError
from tops_kit.session import Session, SessionWriter


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "topsprof"


def write_trace(path: Path, name: str = "a") -> Path:
    path.write_text(json.dumps([{"ph": "X", "name": name, "ts": 0, "dur": 1, "pid": 1, "tid": 1}]))
    return path


def names(session: Session) -> list[str]:
    return session.table("tx")["name"].to_pylist()


def sessions(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.name != "digests")


@pytest.mark.smoke
def test_a_trace_is_imported_once(tmp_path: Path, cache: Path) -> None:
    file = write_trace(tmp_path / "t.json")
    assert names(open_session(str(file))) == ["a"]
    (only,) = sessions(cache)
    stamp = (cache / only / "session.json").stat().st_mtime_ns
    assert names(open_session(str(file))) == ["a"]
    assert (cache / only / "session.json").stat().st_mtime_ns == stamp
    assert sessions(cache) == [only]


def test_the_ledger_of_a_trace_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.json"
    file.write_text('[{"ph": "X", "name": "a", "ts": 0, "dur": 1, "pid": 1, "tid": 1}, {"ph": "E", "ts": 5}]')
    told = []
    for words in (["stats", "-r", "tx_sum"], ["stats", "-r", "tx_sum"], ["stats", "-q", "-r", "tx_sum"]):
        assert main([*words, str(file)]) == 0
        told.append(capsys.readouterr().err.splitlines())
    assert any("end without begin" in line for line in told[0])
    assert told[1] == ["topsprof: the import repaired or left out something: topsprof info has the 1 line"]
    assert told[2] == []
    assert main(["sql", str(file), "select 1"]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_docs_name_every_format_that_is_read() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "import.md").read_text(encoding="utf-8")
    section = text.partition("## What is read")[2].partition("## Options")[0]
    assert {name for name in IMPORTERS if f"`{name}`" not in section} == set()


def test_other_content_is_imported_again(tmp_path: Path, cache: Path) -> None:
    file = write_trace(tmp_path / "t.json")
    open_session(str(file))
    write_trace(file, "b")
    os.utime(file, ns=(1, 1))
    assert names(open_session(str(file))) == ["b"]
    assert len(sessions(cache)) == 2


def test_the_same_content_is_imported_once_wherever_it_lies(tmp_path: Path, cache: Path) -> None:
    for name in ("a.json", "b.json"):
        open_session(str(write_trace(tmp_path / name)))
    os.utime(tmp_path / "a.json", ns=(1, 1))
    open_session(str(tmp_path / "a.json"))
    assert len(sessions(cache)) == 1
    open_session(str(write_trace(tmp_path / "rank3.json")))  # the name states a rank
    assert len(sessions(cache)) == 2


def test_a_change_in_the_middle_of_a_big_file_is_seen(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "t.json"
    event = {"ph": "X", "name": "a", "ts": 0, "dur": 1, "pid": 1, "tid": 1}
    file.write_text(json.dumps([event] * 100_000))
    os.utime(file, ns=(1, 1))
    open_session(str(file))
    with file.open("r+b") as out:
        out.seek(3_456_789)
        out.write(b" " * 50)
    os.utime(file, ns=(1, 1))
    open_session(str(file))
    assert len(sessions(cache)) == 2


def test_digests_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_trace(tmp_path / "t.json")
    folder = tmp_path / "digests"
    first = Digests(folder).of(file)
    assert not folder.exists()  # just written: it might change again within one time stamp
    monkeypatch.setattr("topsprof.digests._SETTLED_NS", -(10**12))
    assert Digests(folder).of(file) == first
    (kept,) = folder.iterdir()
    entry = json.loads(kept.read_text())
    kept.write_text(json.dumps({**entry, "digest": "known"}))
    assert Digests(folder).of(file) == "known"
    kept.write_text('{"stamp": [')
    assert Digests(folder).of(file) == first
    write_trace(file, "other")
    assert Digests(folder).of(file) != first


def test_a_damaged_session_in_the_cache_is_made_again(tmp_path: Path, cache: Path) -> None:
    file = write_trace(tmp_path / "t.json")
    open_session(str(file))
    (only,) = sessions(cache)
    (cache / only / "session.json").write_text("")
    assert names(open_session(str(file))) == ["a"]


def test_what_killed_imports_left_is_removed(tmp_path: Path, cache: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    cache.mkdir(parents=True)
    for owner in (ended.pid, os.getpid()):
        (cache / f".x.topsprof.importing-{owner}-1").mkdir()
    open_session(str(write_trace(tmp_path / "t.json")))
    left = [name for name in sessions(cache) if name.startswith(".")]
    assert left == [f".x.topsprof.importing-{os.getpid()}-1"]


def test_an_import_removes_only_what_its_own_name_left(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in ("a[1]", "b"):
        (tmp_path / f".{name}.importing-{ended.pid}-1").mkdir()
    import_files([write_trace(tmp_path / "t.json")], tmp_path / "a[1]", JobOptions())
    assert [path.name for path in tmp_path.glob(".*importing*")] == [f".b.importing-{ended.pid}-1"]


def test_folders_and_patterns(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    write_trace(folder / "a.json", "a")
    write_trace(folder / "b.json", "b")
    assert sorted(names(open_session(str(folder)))) == ["a", "b"]
    assert names(open_session(str(folder / "b*.json"))) == ["b"]


def test_outputs_are_named_after_what_the_user_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ranks").mkdir()
    for name in ("r0.json", "r1.json"):
        write_trace(tmp_path / "ranks" / name)
    monkeypatch.chdir(tmp_path)
    assert main(["stats", "ranks/r0.json", "-f", "csv", "-o", ".", "-r", "tx_sum,osrt_sum"]) == 0
    assert (tmp_path / "ranks" / "r0_tx_sum.csv").exists()
    assert "skipping osrt_sum: r0 has" in capsys.readouterr().err
    assert main(["pack", "ranks/r0.json"]) == 0
    assert main(["stats", "r0.topspack", "-f", "csv", "-o", ".", "-r", "tx_sum"]) == 0
    assert (tmp_path / "r0_tx_sum.csv").exists()
    assert main(["export", "ranks/*.json", "-t", "chrome"]) == 0
    assert main(["unpack", "r0.topspack", "-o", "s"]) == 0
    monkeypatch.chdir(tmp_path / "s.topsprof")
    assert main(["export", ".", "-t", "chrome", "-o", "../s.json"]) == 0
    assert main(["stats", ".", "-f", "csv", "-o", ".", "-r", "tx_sum"]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "cache",
        "r0.topspack",
        "r0_tx_sum.csv",
        "ranks",
        "ranks.json",
        "s.json",
        "s.topsprof",
        "s_tx_sum.csv",
    }


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("a/run.topsprof", "a/run"),
        ("a/run", "a/run"),
        ("a/run.topspack", "a/run"),
        ("a/step.pt.trace.json.gz", "a/step"),
        ("a/b.json.topsprof/", "a/b.json"),
        ("a/*.json", "a"),
        ("a/**/x?.json", "a"),
        ("*.json", "job"),
        (".", "."),
    ],
)
def test_output_base(typed: str, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_base(typed) == Path(os.path.normpath(tmp_path / base))


def test_sessions_with_and_without_suffix(tmp_path: Path, cache: Path) -> None:
    with SessionWriter.create(tmp_path / "s.topsprof", kind="import") as writer:
        writer.append(
            "tx", {"start_ns": [1], "duration_ns": [1], "name": ["x"], "process_id": 1, "thread_id": 1}
        )
    assert names(open_session(str(tmp_path / "s.topsprof"))) == ["x"]
    assert names(open_session(str(tmp_path / "s"))) == ["x"]
    assert not cache.exists()


def test_a_pack_is_unpacked_into_the_cache(tmp_path: Path, cache: Path) -> None:
    packing = pytest.importorskip("tops_kit.session.packing")
    with SessionWriter.create(tmp_path / "s.topsprof", kind="import") as writer:
        writer.append(
            "tx", {"start_ns": [1], "duration_ns": [1], "name": ["x"], "process_id": 1, "thread_id": 1}
        )
    pack = packing.pack(tmp_path / "s.topsprof", tmp_path / "s.topspack")
    assert names(open_session(str(pack))) == ["x"]
    assert len(sessions(cache)) == 1
    other = pack.rename(tmp_path / "of_any_name")
    assert names(open_session(str(other))) == ["x"]


@pytest.mark.parametrize("text", ["nothing.json", "nothing.topsprof", "nothing*.json", "empty", "text.txt"])
def test_what_can_not_be_opened_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello\n")
    with pytest.raises(UserError) as caught:
        open_session(text)
    assert "\n" not in str(caught.value)


def test_the_cache_is_bounded(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CACHE_BYTES", 1)
    for name in "abc":
        file = write_trace(tmp_path / f"{name}.json", name)
        open_session(str(file))
    assert sessions(cache) == [f"{content_key([file], Digests(cache / 'digests'))}.topsprof"]


def test_a_cache_that_can_not_be_made_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert cache_folder().parent == tmp_path


def test_an_unknown_format_is_told_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UserError, match="topsprof import -t FORMAT"):
        open_session(str(tmp_path / "notes.txt"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
@pytest.mark.parametrize("name", ["a.json", "a.topsprof"])
@pytest.mark.parametrize("verb", ["info", "stats", "import"])
def test_what_is_no_regular_file_is_not_waited_for(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str], verb: str, name: str
) -> None:
    os.mkfifo(tmp_path / name)
    assert main([verb, str(tmp_path / name)]) == 2
    assert "is not a regular file" in capsys.readouterr().err
    assert main([verb, os.devnull]) == 2
    assert "is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyError("a"), ValueError("b\nc"), pa.ArrowTypeError("d")])
def test_an_importer_that_stumbles_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def stumble(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("topsprof.importers.chrome.ChromeImporter.run", stumble)
    trace = write_trace(tmp_path / "a.json")
    with pytest.raises(TraceError, match=r"a\.json: .*chrome") as caught:
        import_files([trace], tmp_path / "a.topsprof", JobOptions(importer="chrome"))
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("importer", [None, "chrome"])
@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compressed_data_that_is_damaged_from_the_start_is_called_so(
    tmp_path: Path, compression: str, importer: str | None
) -> None:
    data = bytearray(pa.compress(b'{"traceEvents": []}' * 100, compression, asbytes=True))
    data[10:] = b"\xff" * (len(data) - 10)
    (tmp_path / "a.json.gz").write_bytes(data)
    with pytest.raises(TraceError, match="damaged"):
        import_files([tmp_path / "a.json.gz"], tmp_path / "a.topsprof", JobOptions(importer=importer))
