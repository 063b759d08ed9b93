"""What /proc says of processes: start times (a pid alone may be reused) and descendants."""

from __future__ import annotations

from pathlib import Path


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
