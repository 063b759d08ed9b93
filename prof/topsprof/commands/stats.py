"""`topsprof stats`: summary tables of a session."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tops_kit.errors import UserError
from topsprof import tables, terminal

if TYPE_CHECKING:
    from tops_kit.session import Session
    from topsprof.reports.data import Data
    from topsprof.reports.model import Report

_EPILOG = """\
several reports: -r NAME,NAME or -r repeated; -f and -o may be repeated too, the n-th belongs to the n-th report and the last
to all after it. Times are ns since the session's start unless --timeunit says otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `topsprof stats`."""
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
        "--filter-time",
        metavar="START/END",
        help="only what overlaps this time, e.g. 1.5s/2s, 100ms/ (since the session's start; @NS is absolute)",
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
        print(help_reports(args.help_reports))
        return 0
    if args.session is None:
        raise UserError("stats: which session? usage: topsprof stats SESSION [-r REPORT]")
    if args.timeunit is not None and args.timeunit not in tables.TIME_UNITS:
        raise UserError(f"--timeunit {args.timeunit}: choose ns, us, ms or s")
    from topsprof.opening import open_session
    from topsprof.reports import registry

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
    )
    return 0


def show(
    session: Session,
    reports: Sequence[tuple[str, Report]] = (),
    *,
    formats: Sequence[str] = ("column",),
    outputs: Sequence[str] = ("-",),
    time_unit: str | None = None,
    filter_time: str | None = None,
    filter_tx: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Write reports (key, report) of a session; without any, the default set as far as the session has data.

    The n-th report is written in the n-th format to the n-th output, the last ones serving the rest. Raises UserError.
    """
    from topsprof.reports.data import Data

    data = Data.filtered(session, filter_time, filter_tx)
    chosen = list(reports) or _default_reports(data)
    if not chosen and not quiet:
        terminal.note(f"{session.path}: the session has no data that a default report shows")
    jobs = _plan(chosen, formats, outputs, session.path, overwrite)
    for job in jobs:
        _write(job, data, time_unit, quiet)
    for line in session.ledger.lines() if not session.ledger.clean else ():
        terminal.warn(line)


def help_reports(name: str) -> str:
    """The text of `--help-reports [NAME|ALL]`."""
    from topsprof.reports import registry
    from topsprof.reports.aliases import ALIASES

    if name and name.upper() != "ALL":
        found = [registry.find(name)[1]]
    else:
        found = [registry.find(each)[1] for each in registry.names()]
    if not name:
        return "The following reports are available:\n\n" + "\n".join(map(_line, found))
    blocks = []
    for report in found:
        aliases = [alias for alias, target in ALIASES.items() if target == report.name]
        columns = "\n".join(f"    {column.heading()}" for column in report.columns)
        blocks.append(
            f"{report.name} - {report.title}\n\n  {report.description}\n\n  Columns:\n{columns}"
            + (f"\n\n  Also called: {', '.join(aliases)}" if aliases else "")
        )
    return "\n\n".join(blocks)


def _line(report: Report) -> str:
    arguments = f"[:{'|'.join(sorted(report.variants))}]" if report.variants else ""
    return f"  {report.name}{arguments} - {report.title}"


def _split(values: Sequence[str]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _default_reports(data: Data) -> list[tuple[str, Report]]:
    from topsprof.reports import registry

    return [
        registry.find(name)
        for name, needed in registry.DEFAULT
        if any(data.tables.get(table) for table in needed.split("|"))
    ]


@dataclass(frozen=True)
class _Job:
    """Reports that go to one place together. `path` None: stdout."""

    path: Path | None
    format: str
    reports: tuple[tuple[str, Report], ...]
    overwrite: bool


def _plan(
    chosen: Sequence[tuple[str, Report]],
    formats: Sequence[str],
    outputs: Sequence[str],
    session: Path,
    overwrite: bool,
) -> list[_Job]:
    """Which reports go where. Neighbours on one output and in one format stay together, as one JSON object does."""
    if not chosen:  # a program that asked for JSON gets an object all the same
        path = None if outputs[0] in ("-", ".") else Path(outputs[0])
        return [_Job(path, "json", (), overwrite)] if formats[0] == "json" else []
    placed: list[tuple[str, str, tuple[str, Report]]] = []
    for index, item in enumerate(chosen):
        placed.append((outputs[min(index, len(outputs) - 1)], formats[min(index, len(formats) - 1)], item))
    jobs: list[_Job] = []
    for output, format_, item in placed:
        same = sum(1 for other, *_ in placed if other == output)
        path = _path(output, format_, item[0], same, session)
        if jobs and jobs[-1].path == path and jobs[-1].format == format_:
            jobs[-1] = _Job(path, format_, (*jobs[-1].reports, item), overwrite)
        else:
            jobs.append(_Job(path, format_, (item,), overwrite))
    paths = [job.path for job in jobs if job.path is not None]
    if len(set(paths)) < len(paths):
        raise UserError(f"-o {paths[-1]}: two formats can't share one file; give each its own -o")
    if not overwrite:
        for path in paths:
            if path.exists():
                raise UserError(f"{path} exists: add --force-overwrite to replace it")
    return jobs


def _path(output: str, format_: str, key: str, sharing: int, session: Path) -> Path | None:
    if output == "-":
        return None
    suffix = tables.SUFFIXES[format_]
    report = key.replace(":", "_")
    if output == ".":
        return session.parent / f"{session.name.removesuffix('.topsprof')}_{report}.{suffix}"
    if format_ == "json" or sharing == 1:
        return Path(output)
    # several tables can't share a CSV file: <FILE>_<report>.<ext>, as nsys names them
    return Path(f"{output.removesuffix('.' + suffix)}_{report}.{suffix}")


def _write(job: _Job, data: Data, time_unit: str | None, quiet: bool) -> None:
    style = tables.Style(job.format, time_unit, _terminal_width() if job.path is None else None)
    with _opened(job) as out:
        if job.format == "json":
            tables.write_json_object(
                ((key, _sheet(report, data, quiet)) for key, report in job.reports), out, style
            )
            return
        first = True
        for key, report in job.reports:
            missing = report.missing(data.tables)
            people = job.format in ("column", "table")
            if missing and people and job.path is None:
                _note(report, missing, data, quiet)
                continue
            if not first:
                out.write("\r\n" if job.format == "csv" else "\n")
            first = False
            sheet = _sheet(report, data, quiet)
            heading = f"{report.title} ({key})" if people else ""
            tables.write(tables.Sheet(sheet.columns, sheet.rows, heading), out, style)


def _sheet(report: Report, data: Data, quiet: bool) -> tables.Sheet:
    missing = report.missing(data.tables)
    if missing:
        _note(report, missing, data, quiet)
        return tables.Sheet(report.columns, ())
    return tables.Sheet(report.columns, report.rows(data))


def _note(report: Report, missing: str, data: Data, quiet: bool) -> None:
    if not quiet:
        terminal.note(f"skipping {report.name}: {data.session.path.name} has no {missing} data")


@contextmanager
def _opened(job: _Job) -> Iterator[TextIO]:
    if job.path is None:
        if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
            # csv brings its own line ends; a name that the terminal can't show must not end the report
            sys.stdout.reconfigure(errors="backslashreplace", newline="" if job.format == "csv" else None)
        yield sys.stdout
        return
    try:
        with job.path.open(
            "w" if job.overwrite else "x", encoding="utf-8", newline="" if job.format == "csv" else "\n"
        ) as out:
            yield out
    except OSError as error:
        raise UserError(f"{job.path}: {os.strerror(error.errno or 0)}; choose another -o") from error
    terminal.note(f"wrote {job.path}")


def _terminal_width() -> int | None:
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns
