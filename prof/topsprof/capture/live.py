"""The recordings of this user that run now, for other terminals to find: small files in a private folder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError
from topsprof.capture import attached, process_table
from topsprof.naming import SESSION_SUFFIX

_FOLDER: Final = "topskit-sessions"
_LOCK: Final = ".lock"
_NAME_BYTES: Final = 200


class NameTakenError(UserError):
    """A live session has this name."""


@dataclass(frozen=True)
class LiveSession:
    """A recording in progress. `pid` is the process that runs it (topsprof); `started_s` counts from 1970."""

    name: str
    folder: str
    pid: int
    pid_start: int
    command: tuple[str, ...]
    started_s: float
    program_pid: int = 0

    @property
    def alive(self) -> bool:
        """Whether the process that runs it still does."""
        return process_table.start_time(self.pid) == self.pid_start


def runtime_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of live sessions, made when needed and readable for this user alone.

    Raises UserError when it belongs to someone else.
    """
    base = environ.get("XDG_RUNTIME_DIR")
    if base and os.access(base, os.W_OK | os.X_OK):
        folder = Path(base) / _FOLDER
    else:
        folder = Path(tempfile.gettempdir()) / f"{_FOLDER}-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise UserError(
            f"'{folder}' can't be made ({error.strerror}): set XDG_RUNTIME_DIR to a folder of yours"
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise UserError(f"'{folder}' is not a private folder of yours: remove it, or set XDG_RUNTIME_DIR")
    return folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One at a time reads and changes the announcements: a stale one that is removed may have a successor."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def announce(name: str | None, folder: Path, command: tuple[str, ...], program_pid: int) -> Path:
    """Announce the recording that this process runs; the file to `withdraw`.

    Without a `name` it gets one like its folder's. Raises UserError when a live session has the `name`.
    """
    usual = folder.stem.strip(".")[: _NAME_BYTES // 8] or "session"  # 4 bytes a character, and room for a pid
    try:
        return register(announcement(name or usual, folder, command, program_pid))
    except NameTakenError:
        if name:
            raise
        return register(announcement(f"{usual}-{os.getpid()}", folder, command, program_pid))


def register(session: LiveSession) -> Path:
    """Announce `session`; the file to `withdraw`. Raises UserError when a live session has its name, or when
    the announcement can't be written.
    """
    folder = runtime_folder()
    path = _path(folder, session.name)
    try:
        with _locked(folder):
            other = _read(path)
            if other is not None and other.alive:
                raise NameTakenError(f"a session named '{session.name}' is running: give another name")
            path.write_text(json.dumps(asdict(session)), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"'{path}' can't be written ({error.strerror}): set XDG_RUNTIME_DIR to a folder with room"
        ) from None
    return path


def withdraw(path: Path) -> None:
    """Take the announcement back."""
    path.unlink(missing_ok=True)


def sessions() -> list[LiveSession]:
    """The live sessions, oldest first. Announcements of dead ones are removed."""
    found: list[LiveSession] = []
    folder = runtime_folder()
    with _locked(folder):
        for path in folder.glob("*.json"):
            session = _read(path)
            if session is not None and session.alive:
                found.append(session)
            else:
                path.unlink(missing_ok=True)
    return sorted(found, key=lambda session: session.started_s)


def choose(name: str | None) -> LiveSession:
    """The live session called `name`, or the only one there is. Raises UserError when not one."""
    running = sessions()
    names = _names(running)
    if name is None:
        if len(running) == 1:
            return running[0]
        raise UserError(
            f"{len(running)} sessions are running ({names}): choose one with --session NAME"
            if running
            else "no session is running: start one with 'topsprof run'"
        )
    for session in running:
        if session.name == name or str(Path(name).absolute()) == session.folder:
            return session
    raise UserError(f"no session named '{name}' is running" + (f"; running: {names}" if running else ""))


def snapshot_folder(what: str | None) -> Path:
    """The folder of the recording that a word means: a recorded process, the name of a session, or its folder
    (of one whose topsprof was killed, too); None: the only one that keeps its last seconds. Raises UserError.
    """
    from tops_kit.collect.control import FILE
    from tops_kit.collect.flight import plan

    if what is not None:
        for folder in (Path(what), Path(what + SESSION_SUFFIX)):
            if (folder / FILE).is_file():
                return folder.absolute()
    if what is not None and what.isdecimal():
        pid = int(what)
        running = sessions()
        for session in running:
            if pid in (session.pid, session.program_pid) or pid in attached.living(Path(session.folder)):
                return Path(session.folder)
        raise UserError(
            f"process {pid} is not recorded" + (f"; sessions: {_names(running)}" if running else "")
        )
    if what is not None:
        return Path(choose(what).folder)
    running = [session for session in sessions() if (Path(session.folder) / plan.FOLDER).is_dir()]
    if len(running) != 1:
        raise UserError(
            f"{len(running)} sessions keep their last seconds ({_names(running)}): choose one of them"
            if running
            else "no session keeps its last seconds: start one with 'topsprof run --keep-last 30s'"
        )
    return Path(running[0].folder)


def _names(running: list[LiveSession]) -> str:
    return ", ".join(f"'{session.name}'" for session in running)


def announcement(name: str, folder: Path, command: tuple[str, ...], program_pid: int) -> LiveSession:
    """The LiveSession of a recording that this process runs."""
    pid = os.getpid()
    return LiveSession(
        name,
        str(folder.absolute()),
        pid,
        process_table.start_time(pid) or 0,
        command,
        time.time(),
        program_pid,
    )


def _path(folder: Path, name: str) -> Path:
    too_long = len(os.fsencode(name)) > _NAME_BYTES
    if not name or name.startswith(".") or "/" in name or "\0" in name or too_long:
        raise UserError(
            f"'{name}' can't name a session: use a short name without '/' and without a leading dot"
        )
    return folder / f"{name}.json"


def _read(path: Path) -> LiveSession | None:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return LiveSession(**{**fields, "command": tuple(fields["command"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None  # half written or not ours: as good as stale
