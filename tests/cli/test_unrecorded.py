"""Processes that can't be recorded are named."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("recording needs Linux", allow_module_level=True)

from topsprof.capture import process_table, unrecorded
from topsprof.capture.unrecorded import Unrecorded
from topstx.recorder import layout

WAIT = "import sys; print(flush=True); sys.stdin.read()"
MARK = "import topstx; topstx.mark('x')"
SESSION = {"TOPSTX_SESSION": ""}  # takes the session of the test


@contextmanager
def _running(*words: str, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    keep = {key: value for key, value in os.environ.items() if not key.startswith("TOPSTX_")}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**keep, **env}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it runs
        yield process


def _found(pid: int, folder: Path) -> list[str]:
    pythons = Unrecorded(pid, folder)
    pythons.look()
    pythons.look()
    return [reason.code for reason in pythons.found.values()]


@pytest.mark.parametrize(
    ("words", "env", "codes"),
    [
        (["sh", "-c", '"$0" -I -c "$1"; true', sys.executable, WAIT], SESSION, ["isolated_python"]),
        (["sh", "-c", '"$0" -c "$1"; true', sys.executable, WAIT], {}, ["no_environment"]),
        ([sys.executable, "-c", WAIT], SESSION, []),
        ([sys.executable, "-c", WAIT], {"TOPSTX_DISABLE": "1"}, []),  # it shall not be recorded
        ([sys.executable, "-c", WAIT], {"TOPSTX_SESSION": "/another"}, []),  # of a recording within this one
        (["sh", "-c", "echo; read x"], {}, []),
    ],
)
def test_those_that_ignore_or_lack_the_environment(
    words: list[str], env: dict[str, str], codes: list[str], tmp_path: Path
) -> None:
    (tmp_path / "control").touch()
    env = {key: value or str(tmp_path) for key, value in env.items()}
    with _running(*words, env=env) as process:
        assert _found(process.pid, tmp_path) == codes


def _attach(folder: Path, pid: int, **fields: int) -> None:
    """A names file as `pid` makes it when it attaches itself."""
    (folder / "names").mkdir(exist_ok=True)
    header = dict.fromkeys(layout.NAMES_FIELDS, 0) | {"magic": b"", "pid": pid}
    header |= {"proc_start": process_table.start_time(pid)} | fields
    number = len(list((folder / "names").iterdir()))
    (folder / "names" / f"{number}.names").write_bytes(struct.pack(layout.NAMES_FORMAT, *header.values()))


def test_one_that_attaches_itself_all_the_same_is_recorded(tmp_path: Path) -> None:
    with _running(sys.executable, "-c", WAIT, env={}) as process:
        _attach(tmp_path, process.pid, proc_start=1)  # another process, which had this number before
        assert _found(process.pid, tmp_path) == ["no_environment"]
        _attach(tmp_path, process.pid, exit_known=2)  # the program that it was before an exec
        assert _found(process.pid, tmp_path) == ["no_environment"]
        _attach(tmp_path, process.pid)
        assert _found(process.pid, tmp_path) == []


def test_a_look_forgets_what_became_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _running(sys.executable, "-c", WAIT, env={}) as process:
        pythons = Unrecorded(process.pid, tmp_path)
        pythons.look()
        assert len(pythons.found) == 1
        monkeypatch.setattr(process_table, "executable", lambda pid: "/bin/sh")
        pythons.look()
        assert pythons.found == {}


def test_the_session_of_a_process_in_another_root_is_missing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "control").touch()
    root = tmp_path / "root"
    root.mkdir()
    real = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        parts = path.parts
        if parts[1:2] == ("proc",) and parts[3:4] == ("root",):
            path = root.joinpath(*parts[4:])
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    with _running(sys.executable, "-c", WAIT, env={"TOPSTX_SESSION": str(tmp_path)}) as process:
        assert _found(process.pid, tmp_path) == ["hidden_session"]


def test_notes_of_processes_become_entries_of_theirs() -> None:
    notes = ["process 7 (/usr/bin/python3.9): Python 3.9 is too old", "something"]
    assert [stream for stream, _ in unrecorded.of_notes(notes)] == ["process:7", "run"]


@pytest.fixture
def as_nobody() -> Callable[[str], str]:
    """The start of a shell command that runs a Python as another user, who can't read our home."""
    setpriv, python = shutil.which("setpriv"), "/usr/bin/python3"
    if os.geteuid() != 0 or setpriv is None or not Path(python).exists():
        pytest.skip("needs root, setpriv and a Python for everybody")
    return lambda options: f"{setpriv} --reuid=65534 --clear-groups {python} {options}"


def _ledger(session: Path) -> list[tuple[str, str, str]]:
    entries = json.loads((session / "session.json").read_text())["ledger"]
    return [(e["stream"], e["code"], e["note"]) for e in entries if e["kind"] == "unsupported"]


@pytest.mark.parametrize("inner", [False, True])
def test_a_python_that_runs_as_another_user_is_named(cli: Any, as_nobody: Any, inner: bool) -> None:
    nap = "import time; time.sleep(1.5)" if inner else "pass"  # it has to live when we look
    shell = as_nobody(f"-c '{nap}'")
    command = f"'{sys.executable}' -c \"{MARK}\"; {shell}; true" if inner else f"exec {shell}"
    done = cli("run", "--strict", "-o", "a", "--", "sh", "-c", command)
    assert done.returncode == 99, done.stderr
    ((stream, code, note),) = _ledger(cli.cwd / "a.topsprof")
    assert stream.startswith("process:") and code == "other_user"
    assert "uid 65534" in note and "uid 0" in note
    assert f"{stream}: unsupported 1 (other user): python ran as uid 65534" in done.stderr
    assert cli.names("a.topsprof") == (["x"] if inner else [])


def test_a_program_that_gives_up_its_rights_and_starts_itself_again_is_named(
    cli: Any, as_nobody: Any
) -> None:
    program = cli.script(
        "import os, topstx\n"
        "topstx.mark(str(os.getuid()))\n"
        "if os.getuid() == 0:\n"
        "    os.setuid(65534)\n"
        "    os.execv('/usr/bin/python3', ['/usr/bin/python3', '-c', 'pass'])\n"
    )
    done = cli("run", "-o", "a", "--", sys.executable, program)
    assert done.returncode == 0, done.stderr
    assert [code for _, code, _ in _ledger(cli.cwd / "a.topsprof")] == ["other_user"]
    assert cli.names("a.topsprof") == ["0"]


def test_a_program_that_gives_up_its_rights_is_recorded(cli: Any, as_nobody: Any) -> None:
    program = cli.script("import os, topstx\ntopstx.mark('before')\nos.setuid(65534)\ntopstx.mark('after')\n")
    done = cli("run", "--strict", "-o", "a", "--", sys.executable, program)
    assert done.returncode == 0, done.stderr
    assert cli.names("a.topsprof") == ["after", "before"]


def test_a_session_is_not_opened_for_others(cli: Any) -> None:
    program = cli.script(
        "import os, topstx\n"
        "for name in ('', '/control', '/names', '/rings'):\n"
        "    print(os.stat(os.environ['TOPSTX_SESSION'] + name).st_mode & 0o22)\n"
    )
    done = cli("run", "-o", "a", "--", sys.executable, program)
    assert done.stdout.split() == ["0"] * 4, done.stderr
