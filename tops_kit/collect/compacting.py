"""Compaction beside a recording and after it: in a process of low priority, never waited for."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tops_kit.own_process import environment, module_command

if TYPE_CHECKING:
    from tops_kit.collect.collector import Collector

_EVERY_S = 10.0
_PARTS = 4  # journal parts written since: less is not worth a process
_WORTH_ROWS = 1 << 18


def compact_afterwards(folder: Path, rows: int) -> None:
    """Compact a session that is complete, in a process that nobody waits for, when it has enough rows.

    Until that is done, and should it never be, the session reads the same, only slower.
    """
    if rows < _WORTH_ROWS:
        return
    nothing = subprocess.DEVNULL
    with contextlib.suppress(OSError):
        subprocess.Popen(
            module_command("tops_kit.session.compaction", str(folder)),
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            env=environment(),
            start_new_session=True,
        )


class LiveCompaction:
    """Starts a compaction when there is enough to merge and none is running."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._process: subprocess.Popen[bytes] | None = None
        self._started = time.monotonic()
        self._parts = 0

    def look(self) -> None:
        """Start one when it is time; to be called about each second."""
        if self._process is not None and self._process.poll() is None:
            return
        parts = self._collector.part_writer.parts_written
        if time.monotonic() - self._started < _EVERY_S or parts - self._parts < _PARTS:
            return
        self._started, self._parts = time.monotonic(), parts
        from tops_kit.session.compaction import (
            start_compaction,  # here: `compact_afterwards` needs no pyarrow
        )

        try:
            self._process = start_compaction(self._collector.folder, live=True)
        except OSError as error:
            self._collector.note(
                "collector", "unsupported:compaction", 1, f"no process for compaction: {error}"
            )
            self._parts = 1 << 60  # no second try

    def stop(self) -> None:
        """End one that is running: whoever opens the session next takes it up."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
