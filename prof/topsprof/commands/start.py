"""`topsprof start`: switch the recording of a running session on."""

from __future__ import annotations

import argparse

from topsprof.capture.platform import require_linux
from topsprof.terminal import note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `start`."""
    parser.add_argument("--session", metavar="NAME", help="the session (needed when several run)")
    parser.add_argument("name", nargs="?", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Switch recording on; a session that waits for its capture range no longer does."""
    require_linux("start")
    from topstx.recorder import layout

    from tops_kit.collect import control
    from topsprof.capture import live

    session = live.choose(args.session or args.name)
    control.open_control(session.folder).recording = layout.RECORDING_ON
    note(f"session '{session.name}' is recording")
    return 0
