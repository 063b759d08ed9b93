"""Which processes of a recording may be Pythons, and when to try (again) to sample each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from topsprof.capture import attached, process_table

_LOOK_S: Final = 0.25
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 1.0
_SHARE: Final = 50  # looks at all processes may take 1/50 of the time


@dataclass(slots=True)
class Candidate:
    """A process that is not sampled yet. `begin_ns`: CLOCK_MONOTONIC from which on it may be what it is."""

    pid: int
    proc_start: int
    begin_ns: int = 0
    next_try: float = 0.0
    pause_s: float = _FIRST_PAUSE_S
    file: str = ""

    def postpone(self, now: float) -> None:
        """There is no Python in it (yet): try again, less and less often."""
        self.next_try = now + self.pause_s
        self.pause_s = min(self.pause_s * 2, _LONGEST_PAUSE_S)

    def give_up(self) -> None:
        """It can't be sampled, unless it becomes another program."""
        self.file = process_table.executable(self.pid)


class Candidates:
    """Finds the processes that `roots` gives, what they started, and those that record into `folder`."""

    def __init__(self, roots: Callable[[], list[int]], folder: Path, *, children: bool = True) -> None:
        self._roots = roots
        self._names = str(folder / "names")
        self._folder = folder
        self._children = children
        self._all: dict[tuple[int, int], Candidate] = {}
        self._taken: set[tuple[int, int]] = set()
        self._next_look = 0.0
        self._stamp = 0

    def due(self) -> Iterator[Candidate]:
        """Those to try now."""
        now = time.monotonic()
        if now >= self._next_look or self._new_names():
            self._look()
            took = time.monotonic() - now
            self._next_look = now + max(_LOOK_S, took * _SHARE)
        for key, candidate in list(self._all.items()):
            if key in self._taken or now < candidate.next_try:
                continue
            if candidate.file:
                candidate.next_try = now + _LONGEST_PAUSE_S
                if process_table.executable(candidate.pid) == candidate.file:
                    continue
                candidate.file = ""
            yield candidate

    def waits_for(self) -> float:
        """Seconds until one is to be tried again; at most those until the next look."""
        now = time.monotonic()
        times = [c.next_try for key, c in self._all.items() if key not in self._taken]
        return max(min([self._next_look, *times]) - now, 0.0)

    def take(self, candidate: Candidate) -> None:
        """It is sampled now."""
        self._taken.add((candidate.pid, candidate.proc_start))

    def give_back(self, pid: int, proc_start: int, begin_ns: int) -> None:
        """It executes another program since `begin_ns`."""
        key = pid, proc_start
        self._taken.discard(key)
        self._all[key] = Candidate(pid, proc_start, begin_ns)

    def forget_taken(self) -> None:
        """None is sampled any more; all are to be tried anew."""
        self._taken.clear()
        for candidate in self._all.values():
            candidate.next_try, candidate.pause_s = 0.0, _FIRST_PAUSE_S

    def _new_names(self) -> bool:
        try:
            stamp = os.stat(self._names).st_mtime_ns  # noqa: PTH116 - at each turn
        except OSError:
            return False
        changed = stamp != self._stamp
        self._stamp = stamp
        return changed

    def _look(self) -> None:
        roots = self._roots()
        pids = dict.fromkeys(roots)
        if self._children:
            for root in roots:
                pids |= dict.fromkeys(process_table.descendants(root))
            pids |= dict.fromkeys(attached.living(self._folder))
        found: dict[tuple[int, int], Candidate] = {}
        for pid in pids:
            start = process_table.start_time(pid)
            if start is not None:
                key = pid, start
                found[key] = self._all.get(key) or Candidate(pid, start)
        self._all = found
        self._taken &= found.keys()
