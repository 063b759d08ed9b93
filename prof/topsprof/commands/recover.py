"""`topsprof recover`: complete a session whose recording crashed."""

from __future__ import annotations

import argparse
from pathlib import Path

from tops_kit.errors import SessionError
from topsprof.naming import SESSION_SUFFIX
from topsprof.terminal import note


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `recover`."""
    parser.add_argument("session", metavar="SESSION", help="the folder of the session")


def run(args: argparse.Namespace) -> int:
    """Move what is left in rings into the session; what was done goes to stderr."""
    folder = Path(args.session)
    if not folder.is_dir():
        folder = Path(args.session + SESSION_SUFFIX)
    if not folder.is_dir():
        raise SessionError(f"'{args.session}' is no session folder: check the name")
    from tops_kit.collect import recovery

    messages = recovery.recover(folder)
    for message in messages:
        note(message)
    if not messages:
        note(f"{folder} needs no recovery")
    return 0
