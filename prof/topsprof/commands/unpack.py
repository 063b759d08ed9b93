"""`topsprof unpack`: a session folder of a packed file."""

from __future__ import annotations

import argparse
from pathlib import Path

from tops_kit.errors import UserError
from topsprof import terminal
from topsprof.commands.pack import SUFFIX


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `topsprof unpack`."""
    parser.add_argument("file", metavar="FILE", help=f"what `topsprof pack` wrote (NAME{SUFFIX})")
    parser.add_argument(
        "-o", "--output", metavar="SESSION", help="default: the file's name with .topsprof, here"
    )
    parser.add_argument(
        "-f", "--force-overwrite", action="store_true", help="overwrite the session if it exists"
    )


def run(args: argparse.Namespace) -> int:
    """Unpack a session."""
    from tops_kit.session import unpack

    source = Path(args.file)
    if not source.is_file():
        raise UserError(f"{source}: no such file; give what `topsprof pack` wrote")
    name = args.output or source.name.removesuffix(SUFFIX)
    target = unpack(
        source, name if name.endswith(".topsprof") else name + ".topsprof", overwrite=args.force_overwrite
    )
    terminal.note(f"wrote {target}")
    return 0
