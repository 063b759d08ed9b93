"""What must also work where there is no Linux, no compiler, or a name that is not ASCII."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tops_kit.session import Session, SessionWriter, compact, lock, pack, unpack
from tops_kit.session.lock import FolderLock, locked

WITHOUT = """
import sys
for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules[name] = None
import tops_kit.session as session
for name in session.__all__:
    getattr(session, name)
writer = session.SessionWriter.create(sys.argv[1])
writer.append("tx", {"start_ns": [1, 2], "name": ["a", "b"]})
writer.close()
session.compact(sys.argv[1])
print(session.Session.open(sys.argv[1]).tables())
"""


def test_without_the_modules_of_unix(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path / "a.topsprof")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "{'tx': 2}"


def test_the_schema_alone_is_light() -> None:
    code = (
        "import sys; from tops_kit.session import schema, Ledger, Selection; "
        "print([name for name in ('numpy', 'pyarrow') if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_without_the_extension(make_session: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (
        make_session("a.topsprof", segments=2, calls=400),
        make_session("b.topsprof", segments=2, calls=400),
    )
    compact(first)
    monkeypatch.setenv("TOPSKIT_PURE", "1")
    compact(second)
    for name in ("hot.arrow", "lanes.arrow", "pyramid.arrow", "summary.arrow", "wide.arrow"):
        one, other = (path / "segments" / "tx-000003.1" / name for path in (first, second))
        assert one.read_bytes() == other.read_bytes()


def test_names_of_all_kinds(tmp_path: Path) -> None:
    folder = tmp_path / "a folder \N{SNOWMAN}"
    folder.mkdir()
    names = ["", "ä", "\N{SNOWMAN}\U0001f40d", "tab\tand\nline", "nul\0", "'quoted\"", "x" * 70_000]
    path = folder / "sitzung \u00fc.topsprof"
    with SessionWriter.create(path) as writer:
        writer.append("tx", {"start_ns": list(range(len(names))), "name": names, "payload": names})
        writer.append("counter", {"start_ns": [1], "name": [names[2]], "value": [1.0]})
    compact(path)
    for opened in (Session.open(path), Session.open(unpack(pack(path), folder / "again.topsprof"))):
        assert sorted(opened.table("tx", ["name"]).column(0).to_pylist()) == sorted(names)
        assert sorted(opened.table("tx", ["payload"]).column(0).to_pylist()) == sorted(names)
        assert set(opened.summary("tx").column("name").to_pylist()) == set(names)
        assert opened.lanes("counter").table.column("name").to_pylist() == [names[2]]
        assert opened.sql_connection().execute(
            "select count(*) from tx where name = ?", [names[3]]
        ).fetchall() == [(1,)]


def test_more_names_than_16_bits_count(tmp_path: Path) -> None:
    names = [f"name {i}" for i in range(70_000)]
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        writer.append("tx", {"start_ns": list(range(70_000)), "name": names})
    compact(tmp_path / "a.topsprof")
    session = Session.open(tmp_path / "a.topsprof")
    assert session.table("tx", ["name"]).column(0).to_pylist() == names
    assert session.summary("tx").num_rows == 70_000
    assert session.window("tx", 0, 69_990, 70_000).column("name").to_pylist() == names[69_990:]


@pytest.fixture(params=["flock", "msvcrt", "none"])
def locking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way of locking; Windows' one is a stand-in that keeps what is locked in a set."""
    kind: str = request.param
    held: set[int] = set()

    class Msvcrt:
        LK_NBLCK = 1

        @staticmethod
        def locking(descriptor: int, _mode: int, _size: int) -> None:
            inode = os.fstat(descriptor).st_ino
            if inode in held:
                raise OSError(36, "deadlock avoided")
            held.add(inode)

    real: Any = lock._module
    modules: dict[str, Callable[[], Any]] = {
        "flock": lambda: None,
        "msvcrt": lambda: None,
        "none": lambda: None,
    }
    assert kind in modules
    monkeypatch.setattr(
        lock,
        "_module",
        lambda name: (
            real(name) if kind == "flock" else Msvcrt if kind == "msvcrt" and name == "msvcrt" else None
        ),
    )
    return kind


def test_locks(tmp_path: Path, locking: str) -> None:
    path = tmp_path / "lock"
    assert not locked(path)
    first, second = FolderLock(path), FolderLock(path)
    assert first.acquire()
    assert first.held
    assert first.holder() == os.getpid()
    if locking == "none":
        assert second.acquire()
        return
    assert not second.acquire()
    assert not second.held
    assert locked(path)
    first.release()
    first.release()
    if locking == "flock":
        assert not locked(path)
        assert second.acquire()


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill -9")
def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "a.topsprof"
    code = (
        "import os, signal; from tops_kit.session import SessionWriter;"
        f"w = SessionWriter.create({str(path)!r});"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert not Session.open(path).live
    SessionWriter.resume(path).close("crashed")


def test_folders_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows opens no folders."""
    real = os.open

    def only_files(path: Any, *args: Any, **options: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", only_files)
    with SessionWriter.create(tmp_path / "a.topsprof") as writer:
        writer.append("tx", {"start_ns": [1]})
    assert Session.open(tmp_path / "a.topsprof").tables() == {"tx": 1}
