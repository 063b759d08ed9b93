"""The command line of efsmi: parses, checks, and calls what does the work."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence

from topstx._version import VERSION

from tops_kit.efsmi import exporter, monitor, query, settings, table, text
from tops_kit.efsmi.document import SECTIONS, document
from tops_kit.efsmi.machine import Look, Machine
from tops_kit.errors import UserError

EXIT_USAGE = 2
EXIT_BROKEN_PIPE = 141
EXIT_INTERRUPTED = 130

_HELP = f"""\
The devices are simulated: TOPS_DEVICES says which there are ("s60", "2xs60,t20"; default: one s60).

sections of -q: {", ".join(SECTIONS)}

examples:
  efsmi                                    devices and who uses them
  efsmi -q -d MEMORY,USAGE --json-format   some sections as JSON
  efsmi --dmon -c 10 -d 0.5                ten rows, one each half second
  efsmi -i 0 --drs on && efsmi -i 0 --create-instance 2
  efsmi --exporter --port 9445             metrics for Prometheus on 127.0.0.1
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's) and return its exit code."""
    try:
        if sys.stdout is None:  # closed by who started us
            raise UserError("there is no output to write to")
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")  # names of files that are no text
        _run(_parser().parse_args(argv))
        sys.stdout.flush()
        return 0
    except UserError as error:
        print(f"efsmi: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest of it fails as well
        print(f"efsmi: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SystemExit as leaving:  # argparse: help and errors
        return leaving.code if isinstance(leaving.code, int) else EXIT_USAGE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        """One line, not the whole usage."""
        self.exit(EXIT_USAGE, f"efsmi: {message} (efsmi --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="efsmi",
        description="Show and set the simulated GCU devices.",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-i", dest="device", metavar="N[,N]", help="only these devices, by number or UUID")
    add("-q", dest="query", action="store_true", help="all that is known, as a list")
    add("-d", dest="detail", metavar="SECTIONS|SECONDS", help="with -q: sections; with --dmon: the interval")
    add("--json-format", action="store_true", help="JSON with stable keys")
    add("-L", dest="listing", action="store_true", help="one line for each device, with its UUID")
    add("--dmon", action="store_true", help="rows as time goes on, until Ctrl-C")
    add("-c", dest="count", type=int, metavar="COUNT", help="with --dmon: so many times")
    add("--topo", action="store_true", help="how devices reach each other")
    add("-m", dest="matrix", action="store_true", help="with --topo: as a matrix (which it always is)")
    add("--exporter", action="store_true", help="serve metrics for Prometheus on 127.0.0.1")
    add(
        "--port", type=int, metavar="PORT", help=f"with --exporter (default: {exporter.DEFAULT_PORT}; 0: any)"
    )
    add("--drs", choices=("on", "off"), help="allow slices (virtual functions) of a device, or end that")
    add("--list-profile", action="store_true", help="the ways in which a device can be divided")
    add("--create-instance", metavar="COUNT", help="divide a device into 1, 2 or 4 slices")
    add("--destroy-instance", action="store_true", help="make a device one piece again")
    add("--power-mode", metavar="MODE", help="high (default) or low: clock and power limit")
    add("--ecc", choices=("on", "off"), help="error correction of the memory")
    add("--reset-ecc", action="store_true", help="set the error counts to zero")
    add(
        "--inject-ecc", metavar="KIND[:N]",
        help="count corrected or uncorrected memory errors, to try alarms with",
    )  # fmt: skip
    add("--reset", action="store_true", help="reset a device that nobody uses")
    add("--force", action="store_true", help="with --reset: also one in use, which its users then have lost")
    add("--version", action="version", version=f"efsmi {VERSION}")
    return parser


def _run(args: argparse.Namespace) -> None:
    _check(args)
    machine = Machine.find(os.environ, args.device)
    if args.exporter:
        port = exporter.DEFAULT_PORT if args.port is None else args.port
        for address in exporter.serve(machine, port, os.environ.get(exporter.TOKEN)):
            print(
                f"efsmi: metrics of simulated devices at {address} (Ctrl-C ends it)",
                file=sys.stderr,
                flush=True,
            )
    elif args.dmon:
        _tell(machine.look())
        for rows in monitor.monitor(machine, args.count, _seconds(args.detail), as_json=args.json_format):
            sys.stdout.write(rows)
            sys.stdout.flush()
    elif args.topo:
        if args.json_format:
            _print_json(table.topology_document(machine.cards))
        else:
            sys.stdout.write(table.topology(machine.cards))
    elif args.list_profile:
        sys.stdout.write("\n".join(table.profile_list(card) for card in machine.cards))
    elif settings.wanted(args):
        for line in settings.apply(machine, args):
            print(line)
    elif args.listing:
        look = machine.look()
        sys.stdout.write(table.listing(look))
        _tell(look)
    else:
        _show(args, machine)


def _show(args: argparse.Namespace, machine: Machine) -> None:
    look = machine.look()
    if args.json_format:
        _print_json(document(look, _sections(args.detail)))
    elif args.query:
        sys.stdout.write(query.listing(document(look, _sections(args.detail))))
    else:
        sys.stdout.write(table.overview(look, text.width()))
        return
    _tell(look)


def _tell(look: Look) -> None:
    """Remarks, beside what scripts read."""
    for remark in look.remarks():
        print(f"efsmi: note: {remark}", file=sys.stderr)


def _check(args: argparse.Namespace) -> None:
    """What can't go together."""
    doing = [name for name in ("dmon", "topo", "exporter", "list_profile", "listing") if getattr(args, name)]
    doing += ["settings"] if settings.wanted(args) else []
    doing += ["query"] if args.query else []
    if len(doing) > 1:
        names = {"listing": "-L", "query": "-q", "list_profile": "--list-profile", "settings": "a setting"}
        both = " and ".join(names.get(name, f"--{name}") for name in doing[:2])
        raise UserError(f"{both} don't go together: give one of them")
    if args.count is not None and not args.dmon:
        raise UserError("-c goes with --dmon")
    if args.count is not None and args.count < 1:
        raise UserError(f"-c {args.count}: at least 1")
    if args.detail is not None and not (args.query or args.dmon or args.json_format):
        raise UserError("-d goes with -q (sections) or --dmon (seconds)")
    if args.matrix and not args.topo:
        raise UserError("-m goes with --topo")
    if args.port is not None and not args.exporter:
        raise UserError("--port goes with --exporter")
    if args.force and not args.reset:
        raise UserError("--force goes with --reset")


def _sections(given: str | None) -> tuple[str, ...]:
    if given is None:
        return SECTIONS
    wanted = [word.strip().upper() for word in given.split(",")]
    for word in wanted:
        if word not in SECTIONS:
            raise UserError(f"-d {given}: no section {word!r}: {', '.join(SECTIONS)}")
    return tuple(section for section in SECTIONS if section in wanted)


def _seconds(given: str | None) -> float:
    try:
        seconds = float(given or 1)
    except ValueError:
        raise UserError(f"-d {given}: with --dmon, seconds between rows") from None
    if not 0 < seconds <= 86400:
        raise UserError(f"-d {given}: seconds between rows, more than 0 and at most 86400")
    return seconds


def _print_json(content: object) -> None:
    json.dump(content, sys.stdout, indent=2)
    sys.stdout.write("\n")
