"""`topsprof snapshot`: a session of the last seconds of a recording that goes on."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any, Final

from tops_kit.errors import UserError
from topsprof.capture.platform import require_linux
from topsprof.terminal import note

_POLL_S: Final = 0.03
_PATIENCE_S: Final = 120.0
_EPILOG: Final = "The program and its recording go on. It needs a session of 'topsprof run --keep-last'."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `snapshot`."""
    parser.usage = "topsprof snapshot [PID|SESSION] [options]"
    parser.epilog = _EPILOG
    parser.add_argument(
        "session", nargs="?", metavar="PID|SESSION",
        help="a recorded process, or name or folder of the session (needed when several run)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="NAME", help="name of the snapshot, patterns as for run")
    parser.add_argument("--name", metavar="TEXT", default="", help="what it is of (%%s of --snapshot-output)")


def run(args: argparse.Namespace) -> int:
    """Ask for a snapshot and wait for it; its path goes to stdout."""
    require_linux("snapshot")
    from tops_kit.collect import control
    from tops_kit.collect.flight import plan
    from topsprof import naming
    from topsprof.capture import live

    folder = live.snapshot_folder(args.session)
    switches = control.open_control(folder)
    if plan.load(folder) is None:
        raise UserError(
            f"'{folder}' keeps all it records: only a session of 'topsprof run --keep-last' has snapshots"
        )
    output = ""
    if args.output is not None:
        path = naming.output_path(args.output, pid=os.getpid(), force=False)
        naming.check_parent(path)
        output = str(path.absolute())
    try:
        key = plan.ask(folder, plan.Request("command", args.name, output, text="topsprof snapshot"))
    except OSError as error:
        raise UserError(f"'{folder}' can't be asked for a snapshot: {error.strerror or error}") from None
    found = _reply(folder, key, switches)
    if "error" in found:
        raise UserError(f"no snapshot: {found['error']}")
    print(found["path"])
    note("the recording goes on")
    return 0


def _reply(folder: Path, key: str, switches: Any) -> dict[str, Any]:
    """What came of it. Raises UserError when nothing comes any more."""
    from tops_kit.collect.flight import plan
    from tops_kit.session.lock import is_running

    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        ended = not is_running(switches.collector_pid)
        found = plan.reply(folder, key)
        if found is not None:
            return found
        if ended or not (folder / plan.FOLDER).is_dir():
            raise UserError(f"the recording in '{folder}' has ended: that session holds its last seconds")
        time.sleep(_POLL_S)
    raise UserError(f"the collector of '{folder}' gives no answer: is its disk full?")
