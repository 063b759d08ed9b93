"""The tables of a session and what their columns mean, for `topsprof sql --schema`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from tops_kit.errors import UserError
from tops_kit.session.schema import TABLES, Kind, Table
from topsprof.reports.model import Column, Row, Type
from topsprof.sheet import Sheet
from topsprof.terminal import columns, hanging, styled

SLICE = "slice"

_TITLES = (
    ("table", Type.TEXT),
    ("column", Type.TEXT),
    ("type", Type.TEXT),
    ("rows", Type.COUNT),
    ("comment", Type.TEXT),
)
_INTERVALS = [table.name for table in TABLES.values() if table.kind is Kind.INTERVAL]
_SLICE_COMMENT = f"view: the intervals of all tables ({', '.join(_INTERVALS)}), with their table_name"


def chosen(text: str | None) -> list[str]:
    """The tables of a comma list, of all for None. Raises UserError for one that there is not."""
    known = [*TABLES, SLICE]
    if text is None:
        return known
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"one of {', '.join(known)}"
            raise UserError(f"sql --schema: there is no table '{name}': {hint}")
    return names


def sheet(counts: Mapping[str, int], names: Sequence[str]) -> Sheet:
    """For programs: a row for each table, and one for each of its columns. `counts`: table -> rows."""
    rows: list[Row] = []
    for name in names:
        if name == SLICE:
            rows.append((SLICE, "", "", None, _SLICE_COMMENT))
            continue
        rows.append((name, "", "", counts.get(name, 0), TABLES[name].comment))
        rows += ((name, column, kind, None, comment) for column, kind, comment in _columns(TABLES[name]))
    return Sheet([Column(title, kind) for title, kind in _TITLES], rows)


def text(counts: Mapping[str, int], names: Sequence[str], out: TextIO) -> str:
    """For people: a paragraph for each table. Of all tables those with rows; the others are only named."""
    width = columns(out)
    everything = len(names) > len(TABLES)
    blocks = []
    for name in names:
        if name == SLICE:
            blocks.append(_head(SLICE, _SLICE_COMMENT, out, width))
        elif counts.get(name, 0) or not everything:
            head = _head(name, f"{counts.get(name, 0):,} rows: {TABLES[name].comment}", out, width)
            blocks.append("\n".join([head, *_lines(TABLES[name], width)]))
    without = [name for name in names if name != SLICE and not counts.get(name, 0)]
    if everything and without:
        rest = f"Without rows in this session: {', '.join(without)} (--schema NAME,NAME describes them)"
        blocks.append(rest if width is None else hanging(rest, width, 0))
    return "\n\n".join(blocks)


def _head(name: str, comment: str, out: TextIO, width: int | None) -> str:
    begin = len(name) + 2
    return (
        f"{styled(name, 'bold', stream=out)}  {comment if width is None else hanging(comment, width, begin)}"
    )


def _lines(table: Table, width: int | None) -> Iterator[str]:
    rows = list(_columns(table))
    longest, kinds = (max(len(row[index]) for row in rows) for index in (0, 1))
    for column, kind, comment in rows:
        begin = f"  {column:<{longest}}  {kind:<{kinds}}  "
        yield begin + (comment if width is None else hanging(comment, width, len(begin)))


def _columns(table: Table) -> Iterator[tuple[str, str, str]]:
    for column in table.columns:
        yield column.name, column.type, column.comment
        if column.name == "duration_ns" and table.kind is Kind.INTERVAL:
            yield "end_ns", "int64", "end, ns of session time"
