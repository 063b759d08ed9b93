"""`topsprof pack`: one portable file of a session."""

from __future__ import annotations

import argparse
from pathlib import Path

from tops_kit.errors import UserError
from topsprof import terminal

SUFFIX = ".topspack"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `topsprof pack`."""
    parser.add_argument("session", metavar="SESSION", help="a session, or a trace file of another tool")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=f"default: the session's name with {SUFFIX}, here"
    )
    parser.add_argument(
        "-f", "--force-overwrite", action="store_true", help="overwrite the file if it exists"
    )


def run(args: argparse.Namespace) -> int:
    """Pack a session."""
    from tops_kit.session import pack
    from topsprof.opening import open_session, output_base

    session = open_session(args.session)
    target = Path(args.output or output_base(args.session).name + SUFFIX)
    if target.is_dir():
        raise UserError(f"{target} is a folder: name a file with -o")
    pack(session.path, target, overwrite=args.force_overwrite)
    rows = sum(session.tables().values())
    size = target.stat().st_size
    each = f", {size / rows:.1f} bytes a row" if rows else ""
    terminal.note(f"wrote {target}: {terminal.size_text(size)}, {rows:,} rows{each}")
    return 0
