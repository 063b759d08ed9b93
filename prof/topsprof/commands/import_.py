"""`topsprof import`: a session out of the trace files of other tools."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tops_kit.errors import UserError
from topsprof import naming, terminal
from topsprof.importers import registry
from topsprof.importers.base import ImportOptions, names, numbers

_EPILOG = """\
examples:
  topsprof import trace.json.gz
  topsprof import 'ranks/*.json.gz' -o job -j 2
  topsprof import trace.json.gz --steps 3:5 --drop python_function
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.usage = "topsprof import TRACE ... [options]"
    parser.epilog = _EPILOG
    parser.add_argument(
        "traces",
        nargs="+",
        metavar="TRACE",
        help="a trace file, a folder of them, or a pattern; several make one session of all ranks",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="NAME",
        help="name of the session (%%p, %%h, %%q{ENV}, %%n as in run); default: the trace's own name",
    )
    parser.add_argument("-f", "--force-overwrite", action="store_true", help="replace an existing session")
    parser.add_argument(
        "-t",
        "--type",
        choices=sorted(registry.IMPORTERS),
        metavar="TYPE",
        help=f"format: {', '.join(sorted(registry.IMPORTERS))}; default: told by the content",
    )
    parser.add_argument(
        "-j",
        "--jobs",
        type=int,
        default=min(os.cpu_count() or 1, 8),
        metavar="N",
        help="files to import at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--memory",
        type=int,
        default=1536,
        metavar="MB",
        help="limit for all workers together; bounds their number (default: %(default)s)",
    )
    parser.add_argument("--ranks", metavar="LIST", help="import these ranks only, e.g. 0-3,8")
    parser.add_argument("--steps", metavar="A:B", help="import the steps from A to B only (ProfilerStep#N)")
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="CATEGORIES",
        help="leave out events of these categories, e.g. python_function,overhead",
    )
    parser.add_argument(
        "--on-error",
        choices=("repair", "strict"),
        default="repair",
        help="repair what can be repaired and count it, or stop at the first fault (default: repair)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no messages unless something is wrong")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from topsprof.importers.job import JobOptions, import_files
    from topsprof.importers.trace_files import stem_of, trace_files

    files = list(dict.fromkeys(path for text in args.traces for path in trace_files(text)))
    if args.jobs < 1 or args.memory < 1:
        raise UserError("--jobs and --memory must be at least 1")
    first = Path(args.traces[0]).resolve()  # so that . and .. have a name
    default = stem_of(
        first if len(files) == 1 or first.is_dir() else first.parent if first.parent.name else Path("job")
    )
    pattern = args.output if args.output is not None else default.replace("%", "%%")
    target = naming.output_path(pattern, pid=os.getpid(), force=args.force_overwrite)
    naming.check_parent(target)
    options = ImportOptions(on_error=args.on_error, drop=names(args.drop), steps=_steps(args.steps))
    with _terminable(), terminal.Progress("importing") as progress:
        ledger = import_files(
            files,
            target,
            JobOptions(
                options=options,
                importer=args.type,
                ranks=_ranks(args.ranks),
                workers=args.jobs,
                memory_bytes=args.memory << 20,
                overwrite=args.force_overwrite,
                command=tuple(sys.argv),
                report=progress.update,
            ),
        )
    never = options.never_dropped()
    if never:
        terminal.warn(never)
    for line in ledger.lines():
        terminal.warn(line)
    if not args.quiet:
        terminal.note(f"imported into {target}")
        if terminal.is_terminal(sys.stderr):
            terminal.note(f"to sum it up: topsprof stats {shlex.quote(str(target))}")
    return 0


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the import as Ctrl-C does: what is half done goes away."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _steps(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, colon, high = text.partition(":")
    try:
        steps = int(low), int(high) if colon else int(low)
    except ValueError:
        raise UserError(f"--steps {text}: give two numbers, as in --steps 3:5") from None
    if steps[0] > steps[1]:
        raise UserError(f"--steps {text}: the first step comes after the last")
    return steps


def _ranks(text: str | None) -> frozenset[int] | None:
    try:
        return None if text is None else numbers(text)
    except ValueError:
        raise UserError(f"--ranks {text}: give numbers and ranges, as in --ranks 0-3,8") from None
