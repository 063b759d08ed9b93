"""Writes tables of typed columns in the formats that users ask for: column, table, csv, tsv, json.

column  aligned, for people: thousands separators, one title line, nothing but spaces between columns
table   the same with ruled lines
csv     RFC 4180: CRLF line ends, quotes where needed
tsv     tab-separated; tabs, line ends and backslashes of a cell are written \\t, \\n, \\r, \\\\
json    a list of objects keyed by the column titles; times in ns are integers
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Callable, Iterable
from typing import TextIO

from topsprof import people
from topsprof.reports.model import TIMES, Cell, Type
from topsprof.sheet import TIME_UNITS, Sheet, Style, texts, titles

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "TIME_UNITS",
    "Sheet",
    "Style",
    "write",
    "write_json_object",
    "write_json_rows",
]

FORMATS = ("column", "table", "csv", "tsv", "json")
SUFFIXES = {"column": "txt", "table": "txt", "csv": "csv", "tsv": "tsv", "json": "json"}


def write(sheet: Sheet, out: TextIO, style: Style) -> tuple[str, ...]:
    """Write one table to a text stream; the titles of the columns for which a terminal had no room."""
    if style.format in _FOR_PEOPLE:
        return _FOR_PEOPLE[style.format](sheet, out, style)
    if style.format == "json":
        write_json_rows(sheet, out, style)
        out.write("\n")
    else:
        _FOR_MACHINES[style.format](sheet, out, style)
    return ()


def write_json_rows(sheet: Sheet, out: TextIO, style: Style, indent: str = "") -> None:
    """The list of row objects, one a line, without an end of line after it."""
    keys = [json.dumps(title, ensure_ascii=False) for title in titles(sheet, style)]
    cells = [_json_cell(column.type, style) for column in sheet.columns]
    separator = "[\n"
    for row in sheet.rows:
        pairs = (f"{key}: {cell(value)}" for key, cell, value in zip(keys, cells, row, strict=True))
        out.write(f"{separator}{indent}  {{{', '.join(pairs)}}}")
        separator = ",\n"
    out.write(f"\n{indent}]" if separator == ",\n" else "[]")


def write_json_object(sheets: Iterable[tuple[str, Sheet]], out: TextIO, style: Style) -> None:
    """One object: name -> list of rows."""
    separator = "{\n"
    for name, sheet in sheets:
        out.write(f"{separator}  {json.dumps(name)}: ")
        write_json_rows(sheet, out, style, "  ")
        separator = ",\n"
    out.write("\n}\n" if separator == ",\n" else "{}\n")


def _json_cell(kind: Type, style: Style) -> Callable[[Cell], str]:
    is_time = kind in TIMES
    power = TIME_UNITS[style.unit]

    def text(value: Cell) -> str:
        if is_time and isinstance(value, (int, float)):
            value = round(value) if power == 0 else value / 10**power
        if isinstance(value, float) and not math.isfinite(value):
            value = None  # JSON has no word for it
        return json.dumps(value, ensure_ascii=False, default=str)

    return text


def _write_csv(sheet: Sheet, out: TextIO, style: Style) -> None:
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(titles(sheet, style))
    writer.writerows(texts(sheet, style, separators=False))


def _write_tsv(sheet: Sheet, out: TextIO, style: Style) -> None:
    escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
    for line in itertools.chain([titles(sheet, style)], texts(sheet, style, separators=False)):
        out.write("\t".join(text.translate(escapes) for text in line) + "\n")


_FOR_PEOPLE: dict[str, Callable[[Sheet, TextIO, Style], tuple[str, ...]]] = {
    "column": people.write_column,
    "table": people.write_table,
}
_FOR_MACHINES: dict[str, Callable[[Sheet, TextIO, Style], None]] = {"csv": _write_csv, "tsv": _write_tsv}
