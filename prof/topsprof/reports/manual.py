"""What reports there are and what their columns are, for `topsprof stats --help-reports`."""

from __future__ import annotations

from typing import TextIO

from topsprof import terminal
from topsprof.reports import registry
from topsprof.reports.aliases import ALIASES
from topsprof.reports.model import Report

_PAGE_COLUMNS = 100


def describe(name: str, out: TextIO) -> str:
    """The text of `--help-reports [NAME|ALL]`, to be written to `out`."""
    width = min(terminal.columns(out) or _PAGE_COLUMNS, _PAGE_COLUMNS)
    if name and name.upper() != "ALL":
        found = [registry.find(name)[1]]
    else:
        found = [registry.find(each)[1] for each in registry.names()]
    return "\n\n".join(_block(report, width, out) for report in found) if name else _list(found, width)


def _list(found: list[Report], width: int) -> str:
    usual = {name for name, _ in registry.DEFAULT}
    names = [_name(report) for report in found]
    margin = max(map(len, names)) + 2
    lines = []
    for report, name in zip(found, names, strict=True):
        mark = "*" if report.name in usual else " "
        lines.append(f"{mark} {name:<{margin}}{terminal.hanging(report.title, width, margin + 2)}")
    ending = (
        "* shown without -r, where the session has the data. What stands in [] may follow a name, as in "
        "-r gcu_kern_sum:base. --help-reports NAME describes a report and its columns."
    )
    return "\n".join(
        ["The following reports are available:", "", *lines, "", terminal.hanging(ending, width, 0)]
    )


def _block(report: Report, width: int, out: TextIO) -> str:
    text = _described(report.name, report, width, out)
    if report.record:
        text += f"\n\n  Recorded with {report.record}"
    for argument, variant in sorted(report.variants.items()):
        if variant.columns != report.columns:
            text += "\n\n" + _described(f"{report.name}:{argument}", variant, width, out)
    aliases = [alias for alias, target in ALIASES.items() if target == report.name]
    if aliases:
        text += "\n\n  " + terminal.hanging(f"Also called: {', '.join(aliases)}", width, 2)
    return text


def _described(name: str, report: Report, width: int, out: TextIO) -> str:
    title = terminal.styled(name, "bold", stream=out) + f" - {report.title}"
    description = terminal.hanging(report.description, width, 2)
    columns = "\n".join(f"    {column.heading()}" for column in report.columns)
    return f"{title}\n\n  {description}\n\n  Columns:\n{columns}"


def _name(report: Report) -> str:
    return report.name + (f"[:{'|'.join(sorted(report.variants))}]" if report.variants else "")
