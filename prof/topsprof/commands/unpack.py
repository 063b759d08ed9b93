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
    import shutil

    from tops_kit.session.pack import unpack

    source = Path(args.file)
    if not source.is_file():
        raise UserError(f"{source}: no such file; give what `topsprof pack` wrote")
    name = args.output or source.name.removesuffix(SUFFIX)
    target = Path(name if name.endswith(".topsprof") else name + ".topsprof")
    if target.exists():
        if not args.force_overwrite:
            raise UserError(f"{target} exists: add --force-overwrite to replace it")
        if not (target / "session.json").is_file():
            raise UserError(f"{target} exists and is not a session; choose another -o")
    # beside its place first: a damaged file must not cost the session that stands there
    partial = target.with_name(f"{target.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        unpack(source, partial)
        if target.exists():
            shutil.rmtree(target)
        partial.rename(target)
    except OSError as error:
        raise UserError(f"{target}: {error.strerror or error}; free space or choose another -o") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    terminal.note(f"wrote {target}")
    return 0
