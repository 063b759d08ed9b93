"""`topsprof pack`: one portable file of a session."""

from __future__ import annotations

import argparse
import zipfile
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
    from tops_kit import launch_files
    from tops_kit.session import pack
    from topsprof.opening import open_session, output_base

    session = open_session(args.session)
    target = Path(args.output or output_base(args.session).name + SUFFIX)
    if target.is_dir():
        raise UserError(f"{target} is a folder: name a file with -o")
    pack(session.path, target, overwrite=args.force_overwrite)
    rows = sum(session.tables().values())
    size = target.stat().st_size
    with zipfile.ZipFile(target) as file:
        sizes = {member.filename: member.compress_size for member in file.infolist()}
    launches = [bytes_ for name, bytes_ in sizes.items() if name.startswith(f"{launch_files.FOLDER}/")]
    of_rows = sum(bytes_ for name, bytes_ in sizes.items() if name.endswith(".parquet"))
    each = f" of {of_rows / rows:.1f} bytes" if rows else ""
    count = f"{len(launches):,} saved {'launch' if len(launches) == 1 else 'launches'}"
    more = f", {count} in {terminal.size_text(sum(launches))}" if launches else ""
    terminal.note(f"wrote {target}: {terminal.size_text(size)}, {rows:,} rows{each}{more}")
    return 0
