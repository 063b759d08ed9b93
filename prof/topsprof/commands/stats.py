"""`topsprof stats`: summary tables of a session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tops_kit.errors import UserError
from topsprof import tables

_USAGE = "topsprof stats SESSION [-r REPORT,...] [options]"
_EPILOG = """\
Times are ns since the session's start unless --timeunit says otherwise; a terminal narrower than 140 columns
gets each in the unit that suits it.

Several reports: -r NAME,NAME or -r repeated. -f and -o may be repeated, too: the n-th belongs to the n-th
report, the last to all after it.

examples:
  topsprof stats step42                             an overview
  topsprof stats step42 -r gcu_kern_sum,api_sum     these reports, all rows
  topsprof stats step42 --filter-time 1s/2s -f csv -o .
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `topsprof stats`."""
    parser.usage = _USAGE
    parser.epilog = _EPILOG
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="a session, or a trace file of another tool"
    )
    parser.add_argument(
        "-r",
        "--report",
        action="append",
        default=[],
        metavar="NAME[:ARG]",
        help="report to show, or a comma list; without it a set that fits most sessions",
    )
    parser.add_argument(
        "-f",
        "--format",
        action="append",
        default=[],
        metavar="FORMAT",
        help="column (default), table, csv, tsv or json",
    )
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="WHERE",
        help="- (default) the terminal; a file; . a file <session>_<report>.<ext> beside the session",
    )
    parser.add_argument("--timeunit", metavar="UNIT", help="ns, us, ms or s")
    parser.add_argument(
        "--rows",
        metavar="N",
        type=int,
        help="the first N rows of each report, 0: all (default: all; in a terminal without -r the first 15)",
    )
    parser.add_argument(
        "--filter-time",
        metavar="START/END",
        help="only what overlaps this time, e.g. 1.5s/2s (since the session's start; @NS is absolute)",
    )
    parser.add_argument(
        "--filter-tx",
        "--filter-nvtx",
        metavar="RANGE[@DOMAIN][/INDEX]",
        help="only what overlaps instances of this range; /0 is the first instance",
    )
    parser.add_argument("--force-overwrite", action="store_true", help="overwrite output files that exist")
    parser.add_argument("-q", "--quiet", action="store_true", help="no notes about reports without data")
    parser.add_argument(
        "--help-reports",
        nargs="?",
        const="",
        metavar="NAME|ALL",
        help="list the reports, or describe one, or all",
    )


def run(args: argparse.Namespace) -> int:
    """Print or write the reports asked for."""
    if args.help_reports is not None:
        from topsprof.reports.manual import describe

        print(describe(args.help_reports, sys.stdout))
        return 0
    if args.session is None:
        raise UserError("stats: which session? usage: topsprof stats SESSION [-r REPORT]")
    if args.timeunit is not None and args.timeunit not in tables.TIME_UNITS:
        raise UserError(f"--timeunit {args.timeunit}: choose ns, us, ms or s")
    if args.rows is not None and args.rows < 0:
        raise UserError(f"--rows {args.rows}: give a number of rows, or 0 for all")
    from topsprof.opening import open_session, output_base
    from topsprof.reports import registry
    from topsprof.reports.output import show

    wanted = [registry.find(name) for name in _split(args.report)]
    formats = _split(args.format) or ["column"]
    for name in formats:
        if name not in tables.FORMATS:
            raise UserError(f"-f {name}: choose {', '.join(tables.FORMATS)}")
    session = open_session(args.session)
    show(
        session,
        wanted,
        formats=formats,
        outputs=_split(args.output) or ["-"],
        time_unit=args.timeunit,
        filter_time=args.filter_time,
        filter_tx=args.filter_tx,
        overwrite=args.force_overwrite,
        quiet=args.quiet,
        base=output_base(args.session),
        limit=args.rows,
    )
    return 0


def _split(values: Sequence[str]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]
