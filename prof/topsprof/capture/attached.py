"""The processes that record into a session right now, read from their names files."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from topstx.recorder import layout

from topsprof.capture import process_table

_RESOURCE_TRACKER: Final = b"from multiprocessing.resource_tracker import main"
_FORK_SERVER: Final = b"from multiprocessing.forkserver import main"
_HELPER_S: Final = 0.5
_LOOK_S: Final = 0.01


def living(folder: Path) -> set[int]:
    """Pids of living processes that are attached to the session being recorded in `folder`."""
    # a pid may be reused: together with the start time it names one process
    return {
        header["pid"]
        for header in _headers(folder)
        if process_table.start_time(header["pid"]) == header["proc_start"]
    }


def left_behind(folder: Path) -> set[int]:
    """Pids of processes that are attached and live on after the program.

    Not multiprocessing's helpers, which end by themselves: its resource tracker with the last process that
    uses it, its fork server at once (waited for a moment, as what it forked has the same command line).
    """
    left = {pid for pid in living(folder) if _RESOURCE_TRACKER not in process_table.command_line(pid)}
    deadline = time.monotonic() + _HELPER_S
    while time.monotonic() < deadline and any(
        _FORK_SERVER in process_table.command_line(pid) for pid in left
    ):
        time.sleep(_LOOK_S)
        left &= living(folder)
    return left


def ever(folder: Path) -> set[int]:
    """Pids of all processes that were attached to the session, those that ended included."""
    return {header["pid"] for header in _headers(folder)}


def _headers(folder: Path) -> Iterator[dict[str, Any]]:
    for file in (folder / "names").glob("*.names"):
        try:
            with file.open("rb") as opened:
                values = struct.unpack(layout.NAMES_FORMAT, opened.read(layout.NAMES_HEADER_BYTES))
        except (OSError, struct.error):
            continue  # being made, or already taken away by the collector
        yield dict(zip(layout.NAMES_FIELDS, values, strict=True))
