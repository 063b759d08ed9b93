"""The processes that record into a session right now, read from their names files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from topstx.recorder import layout

from topsprof.capture import process_table


def living(folder: Path) -> set[int]:
    """Pids of living processes that are attached to the session being recorded in `folder`."""
    # a pid may be reused: together with the start time it names one process
    return {
        header["pid"]
        for header in _headers(folder)
        if process_table.start_time(header["pid"]) == header["proc_start"]
    }


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
