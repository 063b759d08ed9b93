"""Which process is meant by a pid: pids are used again, a pid with its start time is not."""

from __future__ import annotations

import os
import sys
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Identity(NamedTuple):
    """A process: its pid, when it started (0: unknown), and in which numbering of pids (0: unknown)."""

    pid: int
    start: int
    namespace: int


def own_identity() -> Identity:
    """This process."""
    return _identity(os.getpid())


def alive(who: Identity) -> bool:
    """Whether the process still runs. A zombie does not; one of another container can't be asked: it does."""
    if not 0 < who.pid < 1 << 31:
        return False
    own = own_identity()
    if who.namespace != own.namespace:
        return True
    if who.pid == own.pid:
        return who.start == own.start
    if sys.platform == "linux":
        started = _started(who.pid)
        if started is not None:
            return who.start in (0, started)
        if _started(os.getpid()) is not None:
            return _hidden(who.pid)
    return _answers(who.pid)


def command() -> str:
    """What this process was started as, on one line."""
    words = [os.path.basename(sys.executable or "python"), *sys.orig_argv[1:]]  # noqa: PTH119 - text only
    return " ".join(" ".join(words).split())


def shown(pid: int) -> str:
    """A process for people, in one line: "process 4711 (python train.py), which is stopped"."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return f"process {pid}"
    name = "".join(c if c.isprintable() else "?" for c in " ".join(words).strip())
    named = f" ({name[:57] + '...' if len(name) > 60 else name})" if name else ""
    stopped = text[text.rfind(b")") + 2 :][:1] in (b"T", b"t")
    return f"process {pid}{named}{', which is stopped' if stopped else ''}"


@cache
def boot() -> int:
    """A number of this start of the machine; 0 where it is unknown."""
    try:
        text = (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text()
    except OSError:
        return 0
    return int(text.strip().replace("-", "")[:15], 16)


@lru_cache(2)
def _identity(pid: int) -> Identity:
    """This process's; by its pid, as a forked child is another."""
    return Identity(pid, _started(pid) or 0, _namespace())


def _started(pid: int) -> int | None:
    """The start time of a process in the kernel's ticks; None when there is none, or it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rfind(b")") + 2 :].split()  # the name before may hold anything
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _hidden(pid: int) -> bool:
    """Whether a process without an entry exists: /proc may be mounted so that others' are not seen."""
    try:
        (_PROC / str(pid)).stat()
        return False  # a zombie
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False  # ours to see, and not there: it went between the two looks


def _namespace() -> int:
    try:
        return (_PROC / "self" / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


if sys.platform == "win32":

    def _answers(pid: int) -> bool:
        import ctypes

        kernel = ctypes.windll.kernel32
        handle = kernel.OpenProcess(0x00100000, False, pid)  # SYNCHRONIZE
        if not handle:
            return False
        waiting: int = kernel.WaitForSingleObject(handle, 0)
        kernel.CloseHandle(handle)
        return waiting == 0x102  # WAIT_TIMEOUT: it has not ended

else:

    def _answers(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True
