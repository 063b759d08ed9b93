"""What the verbs say of a session that is still being recorded."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tops_kit.errors import SessionError
from tops_kit.session import Session, SessionWriter
from tops_kit.session.in_use import use_of
from tops_kit.session.lock import CLAIM_LOCK, FolderLock

WAITS = """
import topstx, os, time
topstx.mark("here")
print("ready", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
"""


@pytest.fixture
def live(cli: Any, read_line: Any, until: Any) -> Any:
    """`topsprof run -o a` whose program waits for the file `go`, with its mark in the session already."""
    (cli.cwd / "t.json").write_text('[{"name":"a","ph":"X","ts":1,"dur":2,"pid":1,"tid":1}]')
    for words in (["import", "t.json", "-o", "old"], ["pack", "old.topsprof"]):
        assert cli(*words).returncode == 0
    run = cli.start("run", "-o", "a", "--", sys.executable, cli.script(WAITS))
    assert read_line(run) == "ready"
    until(lambda: cli.names("a.topsprof") == ["here"])
    return run


def test_reading_says_that_more_will_come(cli: Any, live: Any, until: Any) -> None:
    said = f"a.topsprof is still being recorded by process {live.pid}: this is what it holds by now"
    for words in (
        ["stats", "a.topsprof", "-q"],
        ["info", "a"],
        ["sql", "a", "select name from tx"],
        ["export", "a", "-t", "chrome", "-o", "a.json"],
        ["pack", "a", "-o", "a.topspack"],
    ):
        done = cli(*words)
        assert done.returncode == 0 and said in done.stderr.replace("\n", " "), done.stderr
    assert '"here"' in (cli.cwd / "a.json").read_text()
    assert cli("unpack", "a.topspack", "-o", "b").returncode == 0
    facts = json.loads(cli("info", "--json", "b").stdout)
    assert facts["status"] == "stopped" and facts["tables"]["tx"]["rows"] == 1
    assert [entry["code"] for entry in facts["ledger"]["entries"] if entry["kind"] == "clipped"] == [
        "still_recording"
    ]
    (cli.cwd / "go").touch()
    assert live.wait(60) == 0
    assert "still" not in cli("info", "a").stderr


def test_a_name_that_is_being_recorded_is_not_to_be_overwritten(cli: Any, live: Any) -> None:
    stop = f"topsprof stop --shutdown --session {shlex.quote('a.topsprof')}"
    for words in (
        ["run", "-o", "a", "--", "true"],
        ["run", "-f", "-o", "a", "--", "true"],
        ["import", "t.json", "-o", "a"],
        ["import", "-f", "t.json", "-o", "a"],
        ["unpack", "old.topspack", "-o", "a"],
        ["unpack", "-f", "old.topspack", "-o", "a"],
        ["recover", "a"],
    ):
        done = cli(*words)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert f"still being recorded by process {live.pid}" in line
        assert ("nothing to recover" if words[0] == "recover" else "use another name") in line
        assert "-f to overwrite" not in line and "choose" not in line
        assert stop in line.replace(f"{cli.cwd}/", "")
    assert cli.names("a.topsprof") == ["here"]
    advice = line.partition("`")[2].partition("`")[0]
    assert cli(*shlex.split(advice)[1:]).returncode == 0  # it does what it says
    done = cli("run", "-f", "-o", "a", "--", "true")
    assert f"belongs to process {live.pid}, whose program still runs" in done.stderr
    done = cli("recover", "a")
    assert done.returncode == 0 and "needs no recovery" in done.stderr
    (cli.cwd / "go").touch()
    assert live.wait(60) == 0
    assert cli("run", "-f", "-o", "a", "--", "true").returncode == 0


@pytest.mark.smoke
def test_what_a_use_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "a b.topsprof"
    assert use_of(folder) is None
    with SessionWriter.create(folder) as writer:
        use = use_of(folder)
        assert use is not None and str(use).startswith("is being written by process ")
        assert use.way_out == "wait for it to end"
        (folder / "control").touch()
        use = use_of(folder)
        assert use is not None and use.recorded and use.way_out == "wait for it to end"  # of topstx.capture
        with pytest.raises(SessionError, match="is still being recorded by process"):
            SessionWriter.create(folder)
        claim = FolderLock(folder / CLAIM_LOCK)
        assert claim.acquire()
        use = use_of(folder)
        assert use is not None and f"--session '{folder}'" in use.way_out
        claim.release()
        (folder / "control").unlink()
        writer.append("tx", {"start_ns": [1], "name": ["x"], "process_id": 1})
    assert use_of(folder) is None and Session.open(folder).tables() == {"tx": 1}
    with pytest.raises(SessionError, match="exists: use another name, or overwrite it"):
        SessionWriter.create(folder)
