"""`topsprof info`, `pack` and `unpack`."""

from __future__ import annotations

import json
import shutil

import pytest
from topsprof.cli import main

from tops_kit.session import Session, SessionWriter, compact


@pytest.mark.smoke
def test_info_says_what_a_session_holds(small, capsys, epoch):
    assert main(["info", str(small.path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["kind"], facts["status"], facts["command"]) == ("import", "complete", ["made"])
    assert (facts["start_ns"], facts["duration_ns"]) == (epoch, 1200)
    assert facts["tables"]["kernel"]["rows"] == 4 and facts["tables"]["kernel"]["size_bytes"] > 0
    assert facts["ledger"]["clean"] is True
    assert facts["devices"] == [{"process_id": 1, "device_id": 0, "name": "GCU S60", "kind": "gcu"}]


def test_info_for_people(small, capsys):
    assert main(["info", str(small.path)]) == 0
    out = capsys.readouterr().out
    assert "GCU S60" in out and "ledger: clean" in out and "kernel" in out


def test_info_of_a_recording_with_processes_and_losses(tmp_path, capsys):
    path = tmp_path / "r.topsprof"
    with SessionWriter.create(path, command=["python", "a b.py"], attributes={"clock": "tsc"}) as writer:
        writer.append(
            "process",
            {
                "process_id": [7, 8],
                "pid": [7, 8],
                "name": ["python", "worker"],
                "recorder": ["C", "twin"],
                "exit_status": [3, -9],
            },
        )
        writer.ledger.count("process:8", "dropped:ring_full", 5)
    assert main(["info", str(path)]) == 0
    out = capsys.readouterr().out
    assert (
        "C, twin" in out
        and "exit 3" in out
        and "signal 9" in out
        and "dropped 5" in out
        and "'a b.py'" in out
    )
    assert "clock:" in out


def test_attributes_stay_short_however_long_the_recording(tmp_path, capsys):
    clock = {"columns": ["tsc", "realtime_ns"], "anchors": [[n, n] for n in range(3600)]}
    attributes = {"clock": clock, "blocked_ns": {}, "program_pid": 7, "files": ["a.json"] * 999}
    with SessionWriter.create(tmp_path / "long.topsprof", attributes=attributes):
        pass
    assert main(["info", str(tmp_path / "long.topsprof")]) == 0
    out = capsys.readouterr().out
    assert "3600 anchors of tsc, realtime_ns" in out and "blocked_ns" not in out and "program_pid: 7" in out
    assert max(map(len, out.splitlines())) < 300
    assert main(["info", str(tmp_path / "long.topsprof"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attributes"] == attributes


def test_info_of_an_empty_session(tmp_path, capsys):
    with SessionWriter.create(tmp_path / "e.topsprof"):
        pass
    assert main(["info", str(tmp_path / "e.topsprof")]) == 0
    assert "empty" in capsys.readouterr().out


def test_pack_and_unpack_give_the_session_back(small, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["pack", str(small.path), "-o", "x.topspack"]) == 0
    assert main(["pack", str(small.path), "-o", "x.topspack"]) == 2
    assert main(["unpack", "x.topspack", "-o", "again"]) == 0
    again = Session.open(tmp_path / "again.topsprof")
    assert again.tables() == small.tables()
    for table in ("kernel", "tx"):
        left, right = (session.table(table).to_pylist() for session in (again, small))
        assert sorted(left, key=str) == sorted(right, key=str)
    assert main(["unpack", "x.topspack", "-o", "again"]) == 2
    assert main(["unpack", "x.topspack", "-o", "again", "-f"]) == 0


def test_a_damaged_pack_costs_nothing_that_stands(small, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["pack", str(small.path), "-o", "x.topspack"]) == 0
    data = (tmp_path / "x.topspack").read_bytes()
    assert main(["unpack", "x.topspack", "-o", "y"]) == 0
    capsys.readouterr()
    (tmp_path / "x.topspack").write_bytes(data[: len(data) // 2])
    assert main(["unpack", "x.topspack", "-o", "y", "-f"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert Session.open(tmp_path / "y.topsprof").tables() == small.tables()
    assert sorted(path.name for path in tmp_path.iterdir()) == [small.path.name, "x.topspack", "y.topsprof"]


def test_missing_files_are_one_line(tmp_path, capsys):
    assert main(["unpack", str(tmp_path / "none.topspack")]) == 2
    assert main(["info", str(tmp_path / "none.topsprof")]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_verify_tells_a_flipped_bit(small, tmp_path, capsys):
    path = tmp_path / "v.topsprof"
    shutil.copytree(small.path, path)
    compact(path)
    assert main(["info", str(path), "--verify"]) == 0
    out = capsys.readouterr().out
    assert "against their checksums" in out and "ledger: clean" in out
    (segment,) = Session.open(path).segments("kernel")
    hot = segment.path / "hot.arrow"
    data = bytearray(hot.read_bytes())
    data[len(data) // 2] ^= 4
    hot.write_bytes(data)
    for words in (["--verify"], ["--verify", "--json"]):
        assert main(["info", str(path), *words]) == 2
        done = capsys.readouterr()
        assert "hot.arrow differs from its checksum" in done.out
        assert done.err.count("\n") == 1 and "a file is damaged" in done.err
    assert json.loads(done.out)["verified"]["damaged"] == 1


def test_info_fits_the_terminal_and_leaves_out_what_is_empty(tmp_path, capsys, monkeypatch):
    path = tmp_path / "r.topsprof"
    attributes = {"files": [f"traces/rank{n}.json.gz" for n in range(9)]}
    with SessionWriter.create(path, command=["python", "x\x1b[2J"], attributes=attributes) as writer:
        writer.append("process", {"process_id": [7], "pid": [7], "name": ["训练 worker"]})
        writer.ledger.count(
            "process:7", "dropped:ring_full", 5, "the rings were full, and the policy is to drop"
        )
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["info", str(path)]) == 0
    path_line, *lines = capsys.readouterr().out.splitlines()
    assert path_line == str(path) and max(map(len, lines)) <= 60
    assert "\x1b" not in "".join(lines) and "recorder" not in "".join(lines)
    assert "traces/rank0.json.gz, traces/rank1.json.gz" in " ".join("\n".join(lines).split())
