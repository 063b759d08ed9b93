"""`topsprof stop`: switch the recording of a running session off, or end the session."""

from __future__ import annotations

import argparse
import time
from typing import Final

from tops_kit.errors import UserError
from topsprof.capture.platform import require_linux
from topsprof.terminal import note

_CLOSE_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.05


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `stop`."""
    parser.add_argument("--session", metavar="NAME", help="the session (needed when several run)")
    parser.add_argument(
        "--shutdown",
        action="store_true",
        help="end the session; what its program does then is for its --kill to say (default: it goes on)",
    )
    parser.add_argument("name", nargs="?", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Switch recording off, to be continued by `start`; with --shutdown end the session and wait for that."""
    require_linux("stop")
    from topstx.recorder import layout

    from tops_kit.collect import control
    from topsprof.capture import live

    session = live.choose(args.session or args.name)
    switches = control.open_control(session.folder)
    switches.recording = layout.RECORDING_OFF
    if not args.shutdown:
        note(f"session '{session.name}' is paused: 'topsprof start' continues it, '--shutdown' ends it")
        return 0
    switches.shutdown_request = 1
    deadline = time.monotonic() + _CLOSE_TIMEOUT_S
    while any(other == session for other in live.sessions()):
        if time.monotonic() > deadline:
            raise UserError(
                f"session '{session.name}' did not end in {_CLOSE_TIMEOUT_S:.0f} s; see its terminal"
            )
        time.sleep(_POLL_S)
    note(f"session '{session.name}' ended: {session.folder}")
    return 0
