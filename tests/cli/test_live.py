"""The registry of live sessions."""

from __future__ import annotations

import dataclasses
import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from tops_kit.errors import UserError

if sys.platform != "linux":
    pytest.skip("recording needs Linux", allow_module_level=True)

from topsprof.capture import live

pytestmark = pytest.mark.smoke


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def _session(name: str) -> live.LiveSession:
    return live.announcement(name, Path("/somewhere") / f"{name}.topsprof", ("prog", "ü b"), 1)


def test_register_and_withdraw() -> None:
    path = live.register(_session("a"))
    assert [session.command for session in live.sessions()] == [("prog", "ü b")]
    live.withdraw(path)
    assert live.sessions() == []


def test_a_name_is_taken_once() -> None:
    live.register(_session("a"))
    with pytest.raises(UserError, match="is running"):
        live.register(_session("a"))
    with pytest.raises(UserError, match="is running"):
        live.announce("a", Path("b.topsprof"), (), 1)


@pytest.mark.parametrize(
    ("folder", "name"), [("a.topsprof", "a"), (".hidden.topsprof", "hidden"), ("...topsprof", "session")]
)
def test_a_name_that_nobody_chose_is_always_free(folder: str, name: str) -> None:
    for _ in range(2):
        live.announce(None, Path(folder), (), 1)
    assert {session.name for session in live.sessions()} == {name, f"{name}-{os.getpid()}"}


def test_a_name_that_nobody_chose_is_short() -> None:
    live.announce(None, Path("\U0001f600" * 60 + ".topsprof"), (), 1)
    assert len(live.sessions()) == 1


def test_no_room_for_the_announcement_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UserError, match="No space left"):
        live.register(_session("a"))


def test_dead_sessions_are_forgotten(runtime: Path) -> None:
    dead = dataclasses.replace(_session("a"), pid_start=1)  # our pid, but another process's start time
    path = live.register(dead)
    assert live.sessions() == [] and not path.exists()
    live.register(dead)
    live.register(_session("a"))  # takes the dead one's place
    assert len(live.sessions()) == 1


def test_garbage_is_ignored(runtime: Path) -> None:
    (live.runtime_folder() / "x.json").write_text("{half")
    assert live.sessions() == []


def test_the_folder_is_private(runtime: Path) -> None:
    folder = live.runtime_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    with pytest.raises(UserError, match="private"):
        live.runtime_folder()


@pytest.mark.parametrize("name", ["", ".", "../up", "a/b", "x" * 300])
def test_names_stay_in_the_folder(name: str) -> None:
    with pytest.raises(UserError):
        live.register(_session(name))


def test_choosing() -> None:
    with pytest.raises(UserError, match="no session is running"):
        live.choose(None)
    live.register(_session("a"))
    assert live.choose(None).name == "a"
    assert live.choose("/somewhere/a.topsprof").name == "a"
    live.register(_session("b"))
    with pytest.raises(UserError, match="2 sessions are running"):
        live.choose(None)
    assert live.choose("b").name == "b"
