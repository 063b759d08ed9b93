"""The schema as Markdown, for docs/session-format.md: `python -m tops_kit.session.describe`."""

from __future__ import annotations

from tops_kit.session.schema import FORMAT_VERSION, TABLES, Kind, Table


def _file(table: Table, column: str) -> str:
    if column == "args":
        return "args"
    return "hot" if table.kind is not Kind.PLAIN and column in ("start_ns", "duration_ns", "name") else "wide"


def describe() -> str:
    """All tables with their columns: type, file, meaning."""
    lines = [f"Format version {FORMAT_VERSION[0]}.{FORMAT_VERSION[1]}.", ""]
    for table in TABLES.values():
        lines += [
            f"### {table.name}",
            "",
            f"{table.comment[0].upper()}{table.comment[1:]}. Kind: {table.kind.value}.",
            "",
        ]
        if table.track:
            lines += [f"Track: {', '.join(table.track)}.", ""]
        lines += ["| column | type | file | meaning |", "|---|---|---|---|"]
        lines += [
            f"| {column.name} | {column.type} | {_file(table, column.name)} | {column.comment} |"
            for column in table.columns
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(describe())
