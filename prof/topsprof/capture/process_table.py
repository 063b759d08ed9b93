"""What /proc says of processes: start times (a pid alone may be reused) and descendants."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Status:
    """`user` is the one whose rights it has when it opens files; `name` that of its program, cut at 15
    characters; `ended`: it is a zombie.
    """

    name: str
    user: int
    ended: bool


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat (ticks since boot), which with the pid names a process; None: gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def command_line(pid: int) -> bytes:
    """The words of its command line, each ended by a zero byte; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def status(pid: int) -> Status | None:
    """None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return None
    fields = dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)
    ended = fields[b"State"].split()[0] in (b"Z", b"X")
    return Status(fields[b"Name"].strip().decode(errors="replace"), int(fields[b"Uid"].split()[3]), ended)


def executable(pid: int) -> str:
    """The file of its program; empty when it is gone, or another user's."""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink()).removesuffix(" (deleted)")
    except OSError:
        return ""


def environment(pid: int) -> dict[str, str] | None:
    """The environment that its program was started with; None when it is gone, or another user's."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    entries = (os.fsdecode(entry).partition("=") for entry in data.split(b"\0"))
    return {key: value for key, equals, value in entries if equals}


def children(pid: int) -> list[int]:
    """The child processes of `pid`, zombies included."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except OSError:
        pass  # it ended meanwhile: it has no children any more
    return found


def descendants(pid: int) -> list[int]:
    """`pid`'s children, their children and so on, parents first."""
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        child = waiting.pop(0)
        found.append(child)
        waiting += children(child)
    return found
