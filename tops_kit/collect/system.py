"""What the system says of processes: Linux's /proc and pidfds. Elsewhere nothing is known, and nothing here
raises for that.
"""

from __future__ import annotations

import os
import select
import struct
from dataclasses import dataclass
from pathlib import Path

# ioctl of a pidfd: struct pidfd_info (linux/pidfd.h), first published size, and the bit that asks for the
# exit code.
_PIDFD_GET_INFO = 0xC000FF0B | (64 << 16)
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = "<QQ11Ii"


@dataclass(frozen=True, slots=True)
class Stat:
    """Fields of /proc/PID/stat: state letter, parent, start (clock ticks since boot), exit status as wait
    gives it, time on processors (clock ticks).
    """

    state: str
    parent_pid: int
    start: int
    exit_code: int
    cpu_ticks: int = 0


def stat(pid: int) -> Stat | None:
    """None when there is no such process (or no /proc)."""
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = data[data.rfind(b")") + 2 :].split()
    try:
        return Stat(
            fields[0].decode("ascii"),
            int(fields[1]),
            int(fields[19]),
            int(fields[49]) if len(fields) > 49 else 0,
            int(fields[11]) + int(fields[12]),
        )
    except (IndexError, ValueError):
        return None


def executable(pid: int) -> str:
    """Path of the program that a process runs, empty when unknown."""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def maps_any(pid: int, texts: list[str]) -> bool | None:
    """Whether the process has a file mapped (or open for it) whose path holds one of `texts`; None when
    that can't be told.
    """
    try:
        data = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return None
    return any(text.encode() in data for text in texts)


def _file_limit() -> int:
    """How many files this process may have open."""
    try:
        import resource
    except ImportError:
        return 1 << 30
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def _status(code: int) -> int:
    """A wait status as exit code, or minus the signal."""
    return -(code & 0x7F) if code & 0x7F else (code >> 8) & 0xFF


class Watch:
    """Watches one process, also after its number went to another one. `alive` may be asked at any time."""

    def __init__(self, pid: int, proc_start: int) -> None:
        self.pid = pid
        self.proc_start = proc_start
        self.fd: int | None = None
        self._exit: int | None = None
        try:
            self.fd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            self.fd = None  # gone already, or an older system: /proc serves
        if self.fd is not None and self.fd >= _file_limit() // 2:
            self.close()  # rings need files, too, and nothing else serves for those
        if self.fd is not None and not self._same(stat(pid)):
            self.close()  # the number belongs to another process by now

    def _same(self, status: Stat | None) -> bool:
        return status is not None and (self.proc_start in (0, status.start))

    def alive(self) -> bool:
        """Whether the process still runs. A zombie does not; its exit status is noted."""
        if self.fd is not None:
            # A thread group whose first thread ended looks like a zombie in /proc; a pidfd knows better.
            poller = select.poll()
            poller.register(self.fd, select.POLLIN)
            return not poller.poll(0)
        status = stat(self.pid)
        if status is None or not self._same(status):
            return False
        if status.state in "ZX":
            self._exit = _status(status.exit_code)
            return False
        return True

    def exit_status(self) -> int | None:
        """Exit code of a process that ended, negative: minus the signal; None when nobody knows."""
        if self._exit is None:
            status = stat(self.pid)
            if status is not None and self._same(status) and status.state in "ZX":
                self._exit = _status(status.exit_code)
        if self._exit is None and self.fd is not None:
            self._exit = self._ask_kernel(self.fd)
        return self._exit

    @staticmethod
    def _ask_kernel(fd: int) -> int | None:
        """PIDFD_GET_INFO (Linux 6.15 and later keep the exit code for holders of a pidfd)."""
        try:
            import fcntl

            answer = fcntl.ioctl(fd, _PIDFD_GET_INFO, struct.pack(_PIDFD_INFO, _PIDFD_INFO_EXIT, *[0] * 13))
        except (OSError, ImportError):
            return None
        values = struct.unpack(_PIDFD_INFO, answer)
        return _status(values[13]) if values[0] & _PIDFD_INFO_EXIT else None

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
