"""`topsprof sessions`: the recordings of this user that run now."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any, Final

from tops_kit.errors import UserError
from topsprof.capture.platform import require_linux
from topsprof.terminal import columns, table

STATES: Final = {0: "off", 1: "recording", 2: "armed"}
"""Value of control.recording -> word."""

_COMMAND_WIDTH: Final = 60
_EPILOG: Final = "In JSON, program_pid is the recorded program's, as in the table, and pid that of topsprof."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `sessions`."""
    parser.epilog = _EPILOG
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")


def run(args: argparse.Namespace) -> int:
    """Print the live sessions; exit code 0 also when there are none."""
    require_linux("sessions")
    from topsprof.capture import live

    now = time.time()
    rows: list[dict[str, Any]] = [
        {
            "name": session.name,
            "state": state_of(session.folder),
            "elapsed_s": round(now - session.started_s, 1),
            "pid": session.pid,
            "program_pid": session.program_pid,
            "folder": session.folder,
            "command": list(session.command),
        }
        for session in live.sessions()
    ]
    if args.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    elif not rows:
        print("no session is running")
    else:
        head = ("Name", "State", "Time (s)", "Program Pid", "Folder", "Command")
        keys = ("name", "state", "elapsed_s", "program_pid", "folder")
        body = [[*(str(row[key]) for key in keys), _one_line(row["command"])] for row in rows]
        width = columns(sys.stdout)
        if width is not None:
            body = [[*cells[:4], _short(cells[4]), cells[5]] for cells in body]
        print(table([head, *body], right=(2, 3), width=width, heads=sys.stdout))
    return 0


def _one_line(command: list[str]) -> str:
    """A command for a cell of a table: no line breaks, and not its whole length."""
    text = " ".join(shlex.join(command).split())
    return text if len(text) <= _COMMAND_WIDTH else text[: _COMMAND_WIDTH - 3] + "..."


def _short(folder: str) -> str:
    """A folder as one would type it here."""
    path = Path(folder)
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else folder


def state_of(folder: str) -> str:
    """`recording`, `off` or `armed` (waits for its capture range); `closing` when its switches are gone."""
    from tops_kit.collect import control

    try:
        return STATES.get(control.open_control(folder).recording, "unknown")
    except UserError:
        return "closing"
