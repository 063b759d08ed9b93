"""The recordings of this user that run now, for other terminals to find: small files in a private folder."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tops_kit.errors import UserError
from topsprof.capture import process_table

_FOLDER: Final = "topskit-sessions"


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


def register(session: LiveSession) -> Path:
    """Announce `session`; the file to `withdraw`. Raises UserError when a live session has its name."""
    folder = runtime_folder()
    path = _path(folder, session.name)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(session)), encoding="utf-8")
    try:
        while True:
            try:
                os.link(temporary, path)  # fails when it exists: two of one name can't both succeed
                return path
            except FileExistsError:
                other = _read(path)
                if other is not None and other.alive:
                    raise UserError(
                        f"a session named '{session.name}' is running: give another name"
                    ) from None
                path.unlink(missing_ok=True)
    finally:
        temporary.unlink()


def withdraw(path: Path) -> None:
    """Take the announcement back."""
    path.unlink(missing_ok=True)


def sessions() -> list[LiveSession]:
    """The live sessions, oldest first. Announcements of dead ones are removed."""
    found: list[LiveSession] = []
    for path in runtime_folder().glob("*.json"):
        session = _read(path)
        if session is not None and session.alive:
            found.append(session)
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda session: session.started_s)


def choose(name: str | None) -> LiveSession:
    """The live session called `name`, or the only one there is. Raises UserError when not one."""
    running = sessions()
    names = ", ".join(f"'{session.name}'" for session in running)
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


def free_name(wanted: str) -> str:
    """`wanted`, or a variation of it that no live session has."""
    taken = {session.name for session in sessions()}
    return wanted if wanted not in taken else f"{wanted}-{os.getpid()}"


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
    if not name or name.startswith(".") or "/" in name or "\0" in name or len(os.fsencode(name)) > 200:
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
