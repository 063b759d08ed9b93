"""The processes that record into a session right now, read from their names files."""

from __future__ import annotations

import struct
from pathlib import Path

from topstx.recorder import layout

from topsprof.capture import process_table


def living(folder: Path) -> set[int]:
    """Pids of living processes that are attached to the session being recorded in `folder`."""
    return {pid for file in (folder / "names").glob("*.names") if (pid := _living_pid(file)) is not None}


def _living_pid(file: Path) -> int | None:
    try:
        with file.open("rb") as opened:
            values = struct.unpack(layout.NAMES_FORMAT, opened.read(layout.NAMES_HEADER_BYTES))
    except (OSError, struct.error):
        return None  # being made, or already taken away by the collector
    header = dict(zip(layout.NAMES_FIELDS, values, strict=True))
    # a pid may be reused: together with the start time it names one process
    return header["pid"] if process_table.start_time(header["pid"]) == header["proc_start"] else None
