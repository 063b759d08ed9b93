"""Pythons that ignore their environment (-I, -E, -S), so are not recorded: found by a look at what runs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from topsprof.capture import attached, process_table
from topsprof.capture.program import Program

_INTERVAL_S: Final = 0.2
_SHARE: Final = 50  # a look may take 1/50 of the time, however many processes and threads there are


class IsolatedPythons:
    """Those among the program `pid` and what it starts, unless they attach themselves to the session in
    `folder` (by a topstx of their own). One that ends before a look is missed.
    """

    def __init__(self, pid: int, folder: Path) -> None:
        self.found: dict[int, str] = {}  # pid -> the option
        self._pid = pid
        self._folder = folder
        self._next_look = 0.0

    def look(self) -> None:
        """Look, unless the last look was only just now."""
        begin = time.monotonic()
        if begin < self._next_look:
            return
        for pid in (self._pid, *process_table.descendants(self._pid)):
            flag = _flag(pid)
            if flag is not None:
                self.found[pid] = flag
        for pid in attached.ever(self._folder) if self.found else ():
            self.found.pop(pid, None)
        end = time.monotonic()
        self._next_look = end + max(_INTERVAL_S, (end - begin) * _SHARE)


def _flag(pid: int) -> str | None:
    folder = Path(f"/proc/{pid}")
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")[:-1]
        executable = str((folder / "exe").readlink())
    except OSError:
        return None  # it ended meanwhile, or is another user's
    return Program(executable, tuple(map(os.fsdecode, words))).python_flag
