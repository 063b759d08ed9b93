"""Options of the flight recorder, of `run` and of `attach`."""

from __future__ import annotations

import argparse
import os

from tops_kit.errors import UserError
from topsprof.capture.options import DEFAULT_KEEP_BYTES, DEFAULT_WHEN_LIMIT, FlightOptions
from topsprof.commands.values import duration, positive, size


def add_flight(parser: argparse.ArgumentParser, *, rules: bool = True) -> None:
    """Options of the flight recorder; `rules`: also those that look at ranges."""
    group = parser.add_argument_group("flight recorder")
    group.add_argument(
        "--keep-last",
        metavar="TIME",
        type=duration,
        help="keep only the last TIME, as 30s or 5m, on disk; 'topsprof snapshot', topstx.snapshot(), "
        "SIGUSR2 to topsprof and --when write sessions of it while the program runs"
        if rules
        else "keep only the last TIME, as 30s or 5m, on disk; 'topsprof snapshot' and SIGUSR2 to topsprof "
        "write sessions of it while the program runs",
    )
    group.add_argument(
        "--keep-size", metavar="SIZE", type=size, help="and no more than SIZE of it (default: 2G)"
    )
    group.add_argument(
        "--snapshot-output",
        metavar="NAME",
        help="name of snapshots: as -o, and %%s is what it is of (default: SESSION-%%s%%n)",
    )
    if not rules:
        parser.set_defaults(when=[], when_limit=None, when_cooldown=None)
        return
    group.add_argument(
        "--when",
        metavar="RULE",
        action="append",
        default=[],
        help="snapshot when a range takes longer: 'GET /orders > 500ms', 'RANGE@DOMAIN > 2s'; * is any text",
    )
    group.add_argument(
        "--when-limit", metavar="N", type=positive, help="so many snapshots by --when (default: 10)"
    )
    group.add_argument(
        "--when-cooldown", metavar="TIME", type=duration, help="between two of them (default: as --keep-last)"
    )


def flight_options(args: argparse.Namespace) -> FlightOptions | None:
    """What --keep-last and its like ask for; None: everything is kept. Raises UserError."""
    given = {
        "--keep-size": args.keep_size,
        "--when": args.when or None,
        "--when-limit": args.when_limit,
        "--when-cooldown": args.when_cooldown,
        "--snapshot-output": args.snapshot_output,
    }
    if args.keep_last is None:
        for option, value in given.items():
            if value is not None:
                raise UserError(f"{option} needs --keep-last TIME, the length of a snapshot")
        return None
    if args.keep_last < 1:
        raise UserError("--keep-last: a second is the least")
    if os.environ.get("TOPS_CLOCK") == "model":
        raise UserError(
            "--keep-last goes by real time, which TOPS_CLOCK=model has not: leave one of them out"
        )
    if args.when:
        from tops_kit.collect.flight.rules import parse

        for rule in args.when:
            parse(rule)
    return FlightOptions(
        args.keep_last,
        args.keep_size or DEFAULT_KEEP_BYTES,
        args.snapshot_output,
        tuple(args.when),
        args.when_limit or DEFAULT_WHEN_LIMIT,
        args.when_cooldown,
    )
