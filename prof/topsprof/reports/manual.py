"""What reports there are and what their columns are, for `topsprof stats --help-reports`."""

from __future__ import annotations

from topsprof.reports import registry
from topsprof.reports.aliases import ALIASES
from topsprof.reports.model import Report


def describe(name: str) -> str:
    """The text of `--help-reports [NAME|ALL]`."""
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
