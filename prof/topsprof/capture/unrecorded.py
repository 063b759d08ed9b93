"""Pythons that can't be recorded, found by a look at what runs: those that ignore or lack the environment,
that run as another user, or that don't see the session.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tops_kit.collect.control import FILE as CONTROL
from topsprof.capture import attached, process_table
from topsprof.capture.program import PYTHON_NAME, Program

_POLL_S: Final = 0.05  # how often to see whether anything was started
_WHOLE_S: Final = 0.2  # how often to look all the same: what runs may have become another program
_SHARE: Final = 50  # looks may take 1/50 of the time, however many processes and threads there are
_BURST_S: Final = 0.05  # and so much beforehand
NOT_RECORDED: Final = "not_recorded"
"""Code of what processes say of themselves."""
_NOTE: Final = re.compile(r"process (\d+) \(")


@dataclass(frozen=True)
class Reason:
    """Why a process was not recorded: a code for the ledger, and a note for people."""

    code: str
    note: str


class Unrecorded:
    """Those among the program `pid` and what it starts, unless they attach themselves to the session in
    `folder` after all. `others` gives more processes to look at, with what they start; `started` says
    whether a Python has just started.

    One that ends before a look is missed, but for the program itself.
    """

    def __init__(
        self,
        pid: int,
        folder: Path,
        *,
        others: Callable[[], list[int]] = list,
        started: Callable[[], bool] = bool,
    ) -> None:
        self.found: dict[int, Reason] = {}
        self._pid = pid
        self._folder = folder
        self._others = others
        self._started = started
        self._sound: dict[int, tuple[bytes, int]] = {}  # pid -> command line and user with nothing to say of
        self._newest = b""
        self._due = False
        self._credit_s = _BURST_S
        self._credited = time.monotonic()
        self._next_poll = self._next_whole_look = 0.0

    def wake(self) -> float:
        """Look where it is time to; the seconds until it may be again."""
        now = time.monotonic()
        self._due |= self._started()
        if now >= self._next_poll:
            newest = _newest_process()
            self._due |= newest != self._newest or now >= self._next_whole_look
            self._newest = newest
            self._next_poll = now + _POLL_S
        self._credit_s = min(self._credit_s + (now - self._credited) / _SHARE, _BURST_S)
        self._credited = now
        if self._due and self._credit_s > 0:
            self.look()
            end = time.monotonic()
            self._due = False
            self._credit_s -= end - now
            self._next_whole_look = end + _WHOLE_S
        return max(self._next_poll - time.monotonic(), 0.0)

    def look(self) -> None:
        """Look at all of them now."""
        pids = [self._pid, *process_table.descendants(self._pid)]
        for other in self._others():
            pids += [other, *process_table.descendants(other)]
        known, self._sound = self._sound, {}
        for pid in dict.fromkeys(pids):
            self._look_at(pid, known.get(pid))
        for pid in attached.recorded(self._folder) if self.found else ():
            self.found.pop(pid, None)

    def _look_at(self, pid: int, known: tuple[bytes, int] | None) -> None:
        status = process_table.status(pid)
        if status is None:
            return  # it ended meanwhile
        if status.ended:  # what it was can be told by its name alone
            reason = _other_user(status.user) if PYTHON_NAME.match(status.name) else None
            if reason is not None:
                self.found.setdefault(pid, reason)
            return
        now = process_table.command_line(pid), status.user
        if now != known:
            reason = _reason(pid, *now, self._folder)
            if reason is not None:
                self.found[pid] = reason
                return
            self.found.pop(pid, None)  # it was about to become another program
        self._sound[pid] = now


def of_notes(notes: Sequence[str]) -> list[tuple[str, Reason]]:
    """Ledger streams and reasons of the lines that recorded processes left: why they are not recorded."""
    found = []
    for line in notes:
        match = _NOTE.match(line)
        found.append((f"process:{match[1]}" if match else "run", Reason(NOT_RECORDED, line)))
    return found


def _reason(pid: int, line: bytes, user: int, folder: Path) -> Reason | None:
    """Why a process can't be recorded; None where nothing speaks against it, and for what is no Python."""
    words = tuple(os.fsdecode(word) for word in line.split(b"\0")[:-1])
    executable = process_table.executable(pid) or (words[0] if words else "")
    if not PYTHON_NAME.match(Path(executable).name):
        return None
    flag = Program(executable, words).python_flag
    if flag is not None:
        return Reason(
            "isolated_python",
            f"python {flag} ignores the environment: it was not recorded; run it without {flag}",
        )
    return _other_user(user) or _unreached(pid, folder)


def _other_user(user: int) -> Reason | None:
    ours = os.geteuid()
    if user == ours:
        return None
    return Reason(
        "other_user",
        f"python ran as {_name(user)} and could not be recorded: the session is that of {_name(ours)}; "
        "run topsprof itself as that user",
    )


def _unreached(pid: int, folder: Path) -> Reason | None:
    """The reason where a process lacks our environment, or does not see the session that it names."""
    environ = process_table.environment(pid)
    if environ is None or environ.get("TOPSTX_DISABLE", "0") not in ("", "0"):
        return None  # not for us to see; or it shall not be recorded
    if "TOPSTX_SESSION" not in environ:
        return Reason(
            "no_environment",
            "python ran without the environment of topsprof run and was not recorded: let it through "
            "(env -i, sudo, su - and the like drop it)",
        )
    if environ["TOPSTX_SESSION"] != str(folder.absolute()):
        return None  # of a recording within this one
    try:
        Path(f"/proc/{pid}/root{folder.absolute()}/{CONTROL}").stat()
    except FileNotFoundError:
        if not (folder / CONTROL).exists() or process_table.start_time(pid) is None:
            return None
        return Reason(
            "hidden_session",
            f"python ran where {folder.absolute()} can't be seen (chroot, container) and was not recorded: "
            "name a place with -o that is seen there, too",
        )
    except OSError:
        return None  # not for us to see
    return None


def _name(user: int) -> str:
    try:
        return f"uid {user} ({pwd.getpwuid(user).pw_name})"
    except KeyError:
        return f"uid {user}"


def _newest_process() -> bytes:
    """A text that changes when the system starts a process: the last field of /proc/loadavg."""
    try:
        return Path("/proc/loadavg").read_bytes().rpartition(b" ")[2]
    except OSError:
        return b""
