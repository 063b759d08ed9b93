"""Recordings that want the same name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from topsprof.capture.claim import claim_folder
from topsprof.capture.options import RecordOptions

from tops_kit.errors import UserError
from tops_kit.session import SessionWriter
from tops_kit.session.lock import CLAIM_LOCK, FolderLock
from tops_kit.session.removal import remove_session


def _options(path: Path, force: bool = True) -> RecordOptions:
    return RecordOptions(output=str(path), force=force)


def test_of_two_runs_with_f_one_records_and_one_refuses(cli: Any, until: Any) -> None:
    cli.script(
        "import topstx, os, time\nfor i in range(20000): topstx.mark('m')\n"
        "while not os.path.exists('go'): time.sleep(0.01)"
    )
    runs = [
        cli.start("run", "--sample", "off", "-o", "same", "-f", "--", sys.executable, "program.py")
        for _ in range(2)
    ]
    until(lambda: any(run.poll() is not None for run in runs))
    (cli.cwd / "go").touch()
    ended = [(run.communicate(timeout=60)[1].decode(), run.returncode) for run in runs]
    assert sorted(code for _, code in ended) == [0, 2]
    for text, code in ended:
        assert len(text.splitlines()) == 1
        assert ("session: same.topsprof" in text) == (code == 0)
    assert len(cli.names("same.topsprof")) == 20000
    assert [path.name for path in cli.cwd.glob(".*.topsprof.*")] == []


@pytest.mark.smoke
def test_a_folder_that_is_claimed_is_not_removed(tmp_path: Path) -> None:
    claim = claim_folder(_options(tmp_path / "a"), 1)
    for force in (True, False):
        with pytest.raises(UserError):
            claim_folder(_options(tmp_path / "a", force), 1)
    assert claim.in_place
    claim.release()
    assert list(claim.folder.iterdir()) == []
    again = claim_folder(_options(tmp_path / "a"), 1)
    again.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.smoke
def test_a_claim_ends_where_its_folder_was_replaced(tmp_path: Path) -> None:
    claim = claim_folder(_options(tmp_path / "a"), 1)
    claim.folder.rename(tmp_path / "elsewhere")
    other = claim_folder(_options(tmp_path / "a"), 1)
    assert not claim.in_place
    claim.discard()
    assert other.in_place
    other.release()


@pytest.mark.smoke
def test_a_session_being_written_is_not_removed(tmp_path: Path) -> None:
    writer = SessionWriter.create(tmp_path / "a.topsprof")
    with pytest.raises(UserError, match="being written"):
        remove_session(tmp_path / "a.topsprof")
    writer.close()
    remove_session(tmp_path / "a.topsprof")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.smoke
def test_a_lock_on_a_file_that_was_replaced_does_not_count(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path / CLAIM_LOCK), FolderLock(tmp_path / CLAIM_LOCK)
    assert first.acquire()
    (tmp_path / CLAIM_LOCK).unlink()
    assert second.acquire()
    assert second.in_place
    assert not first.in_place
    first.release()
    second.release()


def test_an_import_does_not_overwrite_a_session_being_recorded(cli: Any, read_line: Any) -> None:
    program = "import topstx; topstx.mark('kept'); print('ready', flush=True); input()"
    run = cli.start("run", "-o", "a", "--", sys.executable, cli.script(program), stdin=-1, bufsize=0)
    assert read_line(run) == "ready"
    cli.script('{"traceEvents": [{"ph": "X", "name": "b", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]}', "t.json")
    done = cli("import", "t.json", "-o", "a", "-f")
    assert done.returncode == 2 and "still being recorded" in done.stderr
    assert run.communicate(b"\n", timeout=60) and run.returncode == 0
    assert cli.names("a.topsprof") == ["kept"]
