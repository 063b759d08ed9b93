"""The processes that record into a session right now, read from their names files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from topstx.recorder import layout

from topsprof.capture import process_table

_RESOURCE_TRACKER: Final = b"from multiprocessing.resource_tracker import main"
_REPLACED: Final = 2  # of exit_known: an exec is about to replace the program
_FORK_SERVER: Final = b"from multiprocessing.forkserver import main"


def living(folder: Path) -> set[int]:
    """Pids of living processes that are attached to the session being recorded in `folder`."""
    return {header["pid"] for header in _living(folder)}


def left_behind(folder: Path) -> set[int]:
    """Pids of processes that are attached and live on after the program.

    Not multiprocessing's helpers, which end by themselves: its fork server with the program, its resource
    tracker with the last process that uses it.
    """
    return {header["pid"] for header in _living(folder) if not _is_helper(header)}


def _is_helper(header: dict[str, Any]) -> bool:
    line = process_table.command_line(header["pid"])
    # what the fork server forked has the same command line
    return _RESOURCE_TRACKER in line or (_FORK_SERVER in line and not header["parent_serial"])


def _living(folder: Path) -> Iterator[dict[str, Any]]:
    # a pid may be reused: together with the start time it names one process
    for header in _headers(folder):
        if process_table.start_time(header["pid"]) == header["proc_start"]:
            yield header


def recorded(folder: Path) -> set[int]:
    """Pids of all processes that are or were attached to the session, unless they became another program
    since (by exec) that did not attach itself again.
    """
    return {
        header["pid"]
        for header in _headers(folder)
        if header["exit_known"] != _REPLACED
        and process_table.start_time(header["pid"]) in (None, header["proc_start"])
    }


def _headers(folder: Path) -> Iterator[dict[str, Any]]:
    for file in (folder / "names").glob("*.names"):
        try:
            with file.open("rb") as opened:
                values = struct.unpack(layout.NAMES_FORMAT, opened.read(layout.NAMES_HEADER_BYTES))
        except (OSError, struct.error):
            continue  # being made, or already taken away by the collector
        yield dict(zip(layout.NAMES_FIELDS, values, strict=True))
