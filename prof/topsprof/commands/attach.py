"""`topsprof attach`: sample a Python program that runs already."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Final

from topsprof.capture.options import RecordOptions, sample_rate
from topsprof.capture.platform import require_linux
from topsprof.commands.flight import add_flight, flight_options
from topsprof.commands.values import seconds
from topsprof.terminal import is_terminal, note, part

_EPILOG: Final = (
    "The program need not know of topsprof: its memory is read from outside, it is neither stopped nor "
    "changed. That needs the right to trace it: be its user (kernel.yama.ptrace_scope=0) or root. Ctrl-C, "
    "--duration or the program's end complete the session; the program goes on."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `attach`."""
    parser.usage = "topsprof attach PID [options]"
    parser.epilog = _EPILOG
    parser.add_argument("pid", metavar="PID", type=int, help="the process")
    parser.add_argument("-o", "--output", metavar="NAME", help="name of the session, as for run")
    parser.add_argument(
        "-f", "--force-overwrite", action="store_true", help="overwrite an existing session of that name"
    )
    parser.add_argument("-d", "--duration", metavar="S", type=seconds, help="end after S seconds")
    parser.add_argument("--sample", metavar="HZ", help="samples a second (default: 1000)")
    parser.add_argument("--children", action="store_true", help="also what it started and starts")
    parser.add_argument("--session", metavar="NAME", help="name for 'topsprof start' and 'stop'")
    add_flight(parser, rules=False)
    parser.add_argument("--stats", action="store_true", help="print summary tables afterwards")


def run(args: argparse.Namespace) -> int:
    """Sample until the end; 0, or what --stats ends with."""
    require_linux("attach")
    rate = sample_rate(args.sample, None)
    if not rate:
        from tops_kit.errors import UserError

        raise UserError(f"--sample {args.sample}: attach does nothing but sample")
    options = RecordOptions(
        output=args.output,
        force=args.force_overwrite,
        traces=(),
        duration_s=args.duration,
        session_name=args.session,
        sample_hz=rate,
        sample_asked=True,
        children=args.children,
        flight=flight_options(args),
    )
    from topsprof.capture import attach

    outcome = attach.attach(args.pid, options, note)
    if not outcome.readable:
        return 1
    if args.stats:
        from topsprof import cli

        part()
        return cli.main(["stats", str(outcome.folder)])
    if is_terminal(sys.stderr):
        note(f"to sum it up: topsprof stats {shlex.quote(str(outcome.folder))}")
    return 0
