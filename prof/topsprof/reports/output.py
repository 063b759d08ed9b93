"""Writes reports of a session: which go where, in which format, and what is said beside them."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tops_kit.errors import UserError
from topsprof import tables, terminal
from topsprof.opening import ledger_lines
from topsprof.reports import _remarks, registry
from topsprof.reports.data import Data
from topsprof.textwidth import wrap

if TYPE_CHECKING:
    from tops_kit.session import Session
    from topsprof.reports.model import Report


_FOR_PEOPLE = frozenset({"column", "table"})
_OVERVIEW_ROWS = 15
"""Rows of each report of the default set that a terminal gets: what is asked for by name is whole."""
_NAMED_COLUMNS = 6


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
    base: Path | None = None,
    limit: int | None = None,
) -> None:
    """Write reports (key, report) of a session; without any, the default set as far as the session has data.

    The n-th report is written in the n-th format to the n-th output, the last ones serving the rest. The
    output `.` is beside `base`, a path without an ending (default: the session's). `limit`: the rows of each
    report, the first ones; 0: all; None: all, but only the first of them where a terminal gets the default
    set. Raises UserError.
    """
    base = base or session.path.with_name(session.path.name.removesuffix(".topsprof"))
    data = Data.filtered(session, filter_time, filter_tx)
    chosen = list(reports) or _default_reports(data)
    if not chosen and not quiet:
        terminal.note(f"{base.name}: the session has no data that a default report shows")
    jobs = _plan(chosen, formats, outputs, base, overwrite)
    if limit is None and not reports and sys.stdout.isatty():
        limit = _OVERVIEW_ROWS
    rest = "--rows 0" if reports else ""
    left_out: dict[str, None] = {}
    for job in jobs:
        noted = None if quiet else base.name
        shown = _Rows(limit or None, rest, asked=limit is not None)
        left_out |= dict.fromkeys(_write(job, data, time_unit, noted, shown))
    if left_out and not quiet:
        _tell_left_out(list(left_out))
    for_people = any(job.path is None and job.format in _FOR_PEOPLE for job in jobs)
    if for_people and not quiet:
        if not reports or any("tx" in report.requires for _, report in reports):
            _tell(_remarks.compiling(data))
        _tell(_remarks.cost(session))
        if not reports:
            _tell(_remarks.not_recorded(data))
            for line in _remarks.python(data):
                _tell(line)
    lines = ledger_lines(session, quiet=quiet)
    if lines and for_people:
        terminal.part()
    for line in lines:
        terminal.warn(line)


def _tell_left_out(titles: Sequence[str]) -> None:
    width = terminal.columns(sys.stdout) or 0
    named = ", ".join(titles[:_NAMED_COLUMNS])
    more = len(titles) - _NAMED_COLUMNS
    if more > 0:
        named += f" and {more} more"
    _tell(f"Not shown in {width} columns: {named} (-f csv has them)")


def _tell(text: str) -> None:
    """A line below all tables."""
    if text:
        print()
        for line in wrap(text, (terminal.columns(sys.stdout) or len(text) + 1) - 1):
            print(" " + terminal.styled(line, "dim", stream=sys.stdout))


def _default_reports(data: Data) -> list[tuple[str, Report]]:
    # reports of what only our own runtime tells have nothing to say of another tool's trace
    entries = registry.DEFAULT if data.devices else registry.DEFAULT_ANYWHERE
    recorded = data.session.info.get("kind") == "recording"
    found = [
        registry.find(name)
        for name, needed in entries
        if any(data.tables.get(table) for table in needed.split("|"))
        and (recorded or name not in registry.OF_RECORDINGS)
    ]
    return [entry for entry in map(partial(_with_rows, data), found) if entry is not None]


def _with_rows(data: Data, entry: tuple[str, Report]) -> tuple[str, Report] | None:
    """The report, with what it takes long to find out kept; None: it is to be left out."""
    key, report = entry
    if key not in registry.IF_ANY:
        return entry
    rows = list(report.rows(data))
    return (key, replace(report, sql="", grouping=None, compute=lambda _: rows)) if rows else None


@dataclass(frozen=True)
class _Job:
    """Reports that go to one place together. `path` None: stdout."""

    path: Path | None
    format: str
    reports: tuple[tuple[str, Report], ...]
    overwrite: bool


@dataclass(frozen=True)
class _Rows:
    """How many rows of each report are shown, None: all; what shows the rest, empty: `-r` of the report."""

    limit: int | None
    all_with: str
    asked: bool  # for a number, all or so many; else a report may have one of its own

    def of(self, report: Report) -> int | None:
        """How many people are shown of a report."""
        return self.limit if self.asked else report.first

    def all_of(self, report: Report, key: str) -> str:
        """What shows all of it."""
        return self.all_with or (f"-r {key}" if report.first is None else f"-r {key} --rows 0")


def _plan(
    chosen: Sequence[tuple[str, Report]],
    formats: Sequence[str],
    outputs: Sequence[str],
    base: Path,
    overwrite: bool,
) -> list[_Job]:
    """Which reports go where. Neighbours on one output and in one format stay together, as one JSON object
    does."""
    if not chosen:  # a program that asked for JSON gets an object all the same
        path = None if outputs[0] in ("-", ".") else Path(outputs[0])
        return [_Job(path, "json", (), overwrite)] if formats[0] == "json" else []
    placed: list[tuple[str, str, tuple[str, Report]]] = []
    for index, item in enumerate(chosen):
        placed.append((outputs[min(index, len(outputs) - 1)], formats[min(index, len(formats) - 1)], item))
    jobs: list[_Job] = []
    for output, format_, item in placed:
        same = sum(1 for other, *_ in placed if other == output)
        path = _path(output, format_, item[0], same, base)
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


def _path(output: str, format_: str, key: str, sharing: int, base: Path) -> Path | None:
    if output == "-":
        return None
    suffix = tables.SUFFIXES[format_]
    report = key.replace(":", "_")
    if output == ".":
        return base.with_name(f"{base.name}_{report}.{suffix}")
    if format_ == "json" or sharing == 1:
        return Path(output)
    # several tables can't share a CSV file: <FILE>_<report>.<ext>, as nsys names them
    return Path(f"{output.removesuffix('.' + suffix)}_{report}.{suffix}")


def _write(job: _Job, data: Data, time_unit: str | None, noted: str | None, rows: _Rows) -> tuple[str, ...]:
    """`noted`: the session's name for notes about reports without data; None: no notes. The titles of columns
    for which there was no room."""
    style = tables.Style(job.format, time_unit, terminal.columns(sys.stdout) if job.path is None else None)
    left_out: list[str] = []
    with _opened(job) as out:
        if job.format == "json":
            tables.write_json_object(
                ((key, _sheet(report, data, noted, rows.limit)) for key, report in job.reports), out, style
            )
            return ()
        first, said = True, False
        for key, report in job.reports:
            missing = report.missing(data.tables)
            people = job.format in _FOR_PEOPLE
            if missing and people and job.path is None:
                if not first and not said:
                    terminal.part()
                said = True
                _note(report, missing, noted)
                continue
            if not first:
                out.write("\r\n" if job.format == "csv" else "\n")
            first, said = False, False
            if people:
                sheet = replace(
                    _sheet(report, data, noted, None),
                    heading=f"{report.title} ({key})",
                    basis=_remarks.basis(data) if report.modelled else "",
                    limit=rows.of(report) if job.path is None else rows.limit,
                    all_with=rows.all_of(report, key),
                )
            else:
                sheet = _sheet(report, data, noted, rows.limit)
            left_out += tables.write(sheet, out, style)
    return tuple(left_out)


def _sheet(report: Report, data: Data, noted: str | None, limit: int | None) -> tables.Sheet:
    missing = report.missing(data.tables)
    if missing:
        _note(report, missing, noted)
        return tables.Sheet(report.columns, ())
    rows = report.rows(data)
    return tables.Sheet(report.columns, rows if limit is None else itertools.islice(rows, limit))


def _note(report: Report, missing: str, noted: str | None) -> None:
    if noted is not None:
        how = f"; {report.record} ... records it" if report.record else ""
        terminal.note(f"skipping {report.name}: {noted} has no {missing} data{how}")


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
