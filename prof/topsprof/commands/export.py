"""`topsprof export`: write a session in the format of another tool."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tops_kit.errors import UserError
from tops_kit.output_files import place_of
from topsprof import terminal

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session
    from topsprof.exporters.base import Exported, Exporter, ExportOptions

_USAGE = "topsprof export SESSION -t TYPE [options]"
_EPILOG = """\
types: chrome, perfetto, speedscope, collapsed, csv, parquet, sqlite (docs/export.md). A name that ends in .gz
is compressed where the type is one file. -o - writes to stdout where the type is text.

examples:
  topsprof export step42 -t perfetto
  topsprof export step42 -t csv --table kernel -o - | head
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `topsprof export`."""
    parser.usage = _USAGE
    parser.epilog = _EPILOG
    parser.add_argument("session", metavar="SESSION", help="a session, or a trace file of another tool")
    parser.add_argument("-t", "--type", metavar="TYPE", help="format to write: one of those below")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="file or folder; default: the session's name with the type's ending",
    )
    parser.add_argument(
        "-f", "--force-overwrite", action="store_true", help="overwrite the output if it exists"
    )
    parser.add_argument("--table", metavar="NAME", help="csv, parquet: this table only, in one file")
    parser.add_argument(
        "--filter-time",
        metavar="START/END",
        help="only what overlaps this time, e.g. 1.5s/2s, 100ms/ (from the session's start; @NS is absolute)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no account of what was written")


def run(args: argparse.Namespace) -> int:
    """Export one session."""
    from topsprof.exporters import registry
    from topsprof.exporters.base import ExportOptions

    if args.type is None:
        raise UserError(f"export: name the format with -t TYPE; one of {', '.join(registry.EXPORTERS)}")
    exporter = registry.load(args.type)
    to_stdout = args.output == "-"
    options = ExportOptions(args.table, compress=bool(args.output) and args.output.endswith(".gz"))
    folder = exporter.folder(options)
    if args.table is not None and not hasattr(exporter, "write"):
        raise UserError(f"export: --table is for csv and parquet; {exporter.name} holds all tables")
    if to_stdout and (folder or not exporter.text):
        kind = "a folder" if folder else "binary"
        hint = " (or one table of it with --table)" if folder and exporter.text else ""
        raise UserError(f"export: {exporter.name} is {kind}: name the output with -o{hint}")
    from topsprof.opening import open_session

    target = None if to_stdout else target_path(args.session, args.output, exporter, folder, options)
    if target is not None:
        check_target(target, args.force_overwrite, folder, exporter)
    session = open_session(args.session)
    selection = None if args.filter_time is None else _selection(args.filter_time, session)
    if target is None:
        return _to_stdout(exporter, session, selection, options)
    exported = write(exporter, session, selection, target, options)
    _account(exported, target, args.quiet)
    return 0


def target_path(
    session: str, output: str | None, exporter: Exporter, folder: bool, options: ExportOptions
) -> Path:
    """The path of the output; without -o beside the reader: the session's name and the type's ending."""
    if output is not None:
        if not output.strip("/"):
            raise UserError(f"export: output name '{output}' is empty: give a name, as in -o NAME")
        return Path(output)
    from topsprof.opening import output_base

    base = output_base(session).name
    if options.table is not None:
        base = f"{base}_{options.table}"
    return Path(f"{base}_{exporter.name}" if folder else f"{base}{exporter.suffix}")


def check_target(target: Path, force: bool, folder: bool, exporter: Exporter) -> None:
    """Refuse an output that must not be overwritten. UserError."""
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        place_of(target)
    if not force:
        raise UserError(f"'{target}' exists: use -f to overwrite it, or another name with -o")
    if folder:
        # Only a folder that an export made is replaced, never one that holds anything else.
        if not target.is_dir() or any(not entry.name.endswith(exporter.suffix) for entry in target.iterdir()):
            raise UserError(f"'{target}' holds other things than an export: give another name with -o")
    elif target.is_dir():
        raise UserError(f"'{target}' is a folder: give another name with -o")


def write(
    exporter: Exporter, session: Session, selection: object, target: Path, options: ExportOptions
) -> Exported:
    """Export to a temporary neighbour, and put it in place when it is whole. UserError when that can't be
    done."""
    with _failing_in_one_line(target):
        folder = exporter.folder(options)
        place = target if folder else place_of(target)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as work:
            partial = Path(work) / f"out{exporter.suffix}"
            exported = exporter.export(session, selection, partial, options)  # type: ignore[arg-type]
            if folder and target.is_dir():
                target.replace(Path(work) / "old")
            partial.replace(place)
    return exported


@contextmanager
def _failing_in_one_line(target: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise UserError(f"export: can't write '{target}': {reason}; choose another -o") from error


def _to_stdout(exporter: Exporter, session: Session, selection: object, options: ExportOptions) -> int:
    with tempfile.TemporaryDirectory(prefix="topsprof-") as work:
        partial = Path(work) / "out"
        with _failing_in_one_line(partial):
            exported = exporter.export(session, selection, partial, options)  # type: ignore[arg-type]
        with partial.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()
    _left_out(exported)
    return 0


def _selection(text: str, session: Session) -> Selection:
    """The same range of time that `topsprof stats` takes the text for."""
    from tops_kit.session import Selection
    from topsprof.reports.filters import parse_time_range

    return Selection(time=parse_time_range(text, session.start_ns))


def _account(exported: Exported, target: Path, quiet: bool) -> None:
    _left_out(exported)
    if not quiet:
        terminal.note(f"wrote {target}: {exported.rows:,} rows")


def _left_out(exported: Exported) -> None:
    for rows, why in exported.left_out:
        terminal.warn(f"left out {rows}: {why}")
