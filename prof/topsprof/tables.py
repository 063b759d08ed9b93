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
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from topsprof.reports.model import Cell, Column, Row, Type

FORMATS = ("column", "table", "csv", "tsv", "json")
SUFFIXES = {"column": "txt", "table": "txt", "csv": "csv", "tsv": "tsv", "json": "json"}
TIME_UNITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
"""unit -> power of ten of ns"""

_RIGHT = frozenset({Type.TIME, Type.TIME_MEAN, Type.PERCENT, Type.COUNT, Type.NUMBER, Type.FLOAT, Type.ID})
_ELLIPSIS = "..."
_MIN_TEXT_WIDTH = 20


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table to write. `rows` is read once; json, csv and tsv never hold it as a whole."""

    columns: Sequence[Column]
    rows: Iterable[Row]
    heading: str = ""
    """title line above the table, for people"""


@dataclass(frozen=True, slots=True)
class Style:
    """How to write. `time_unit` None: ns, and json has whole ns. `width`: a terminal's columns, to which
    long names are cut."""

    format: str = "column"
    time_unit: str | None = None
    width: int | None = None

    @property
    def unit(self) -> str:
        return self.time_unit or "ns"


def write(sheet: Sheet, out: TextIO, style: Style) -> None:
    """Write one table to a text stream."""
    if style.format == "json":
        write_json_rows(sheet, out, style)
        out.write("\n")
    else:
        _WRITERS[style.format](sheet, out, style)


def write_json_rows(sheet: Sheet, out: TextIO, style: Style, indent: str = "") -> None:
    """The list of row objects, one a line, without an end of line after it."""
    titles = [json.dumps(column.heading(style.unit), ensure_ascii=False) for column in sheet.columns]
    cells = [_json_cell(column.type, style) for column in sheet.columns]
    separator = "[\n"
    for row in sheet.rows:
        pairs = (f"{title}: {cell(value)}" for title, cell, value in zip(titles, cells, row, strict=True))
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
    is_time = kind in (Type.TIME, Type.TIME_MEAN)
    power = TIME_UNITS[style.unit]

    def text(value: Cell) -> str:
        if is_time and isinstance(value, (int, float)):
            value = round(value) if power == 0 else value / 10**power
        if isinstance(value, float) and not math.isfinite(value):
            value = None  # JSON has no word for it
        return json.dumps(value, ensure_ascii=False, default=str)

    return text


def _plain_cell(kind: Type, style: Style, separators: bool) -> Callable[[Cell], str]:
    """Cell -> text. With separators for people, without for machines."""
    comma = "," if separators else ""
    power = TIME_UNITS[style.unit]

    def number(value: Cell) -> str:
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return str(value)
        if kind in (Type.TIME, Type.TIME_MEAN):
            return _time(value, kind, power, comma)
        if kind is Type.PERCENT:
            return format(value, ".1f")
        if kind is Type.NUMBER:
            return format(value, f"{comma}.3f") if separators else repr(value)
        return format(value, f"{comma}d") if kind is Type.COUNT and isinstance(value, int) else str(value)

    return number


def _time(value: int | float, kind: Type, power: int, comma: str) -> str:
    if power == 0:
        return format(value, f"{comma}.1f") if kind is Type.TIME_MEAN else format(round(value), f"{comma}d")
    if isinstance(value, int):  # exact: a float has not the digits of an absolute time
        whole, rest = divmod(abs(value), 10**power)
        return f"{'-' if value < 0 else ''}{format(whole, f'{comma}d')}.{rest:0{power}d}"
    return format(value / 10**power, f"{comma}.{power}f")


def _texts(sheet: Sheet, style: Style, separators: bool) -> Iterator[list[str]]:
    cells = [_plain_cell(column.type, style, separators) for column in sheet.columns]
    for row in sheet.rows:
        yield [cell(value) for cell, value in zip(cells, row, strict=True)]


def _titles(sheet: Sheet, style: Style) -> list[str]:
    return [column.heading(style.unit) for column in sheet.columns]


def _write_csv(sheet: Sheet, out: TextIO, style: Style) -> None:
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(_titles(sheet, style))
    writer.writerows(_texts(sheet, style, separators=False))


def _write_tsv(sheet: Sheet, out: TextIO, style: Style) -> None:
    escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
    for texts in itertools.chain([_titles(sheet, style)], _texts(sheet, style, separators=False)):
        out.write("\t".join(text.translate(escapes) for text in texts) + "\n")


def _write_column(sheet: Sheet, out: TextIO, style: Style) -> None:
    titles, lines, widths = _layout(sheet, style, spacing=2)
    if sheet.heading:
        out.write(f" ** {sheet.heading}:\n\n")
    out.write(" " + "  ".join(map(_centre, titles, widths)).rstrip() + "\n")
    out.write(" " + "  ".join("-" * width for width in widths) + "\n")
    for line in lines:
        out.write(" " + "  ".join(_aligned(line, sheet.columns, widths)).rstrip() + "\n")


def _write_table(sheet: Sheet, out: TextIO, style: Style) -> None:
    titles, lines, widths = _layout(sheet, style, spacing=3)
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    if sheet.heading:
        out.write(f"{sheet.heading}\n")
    out.write(rule + "| " + " | ".join(map(_centre, titles, widths)) + " |\n" + rule)
    for line in lines:
        out.write("| " + " | ".join(_aligned(line, sheet.columns, widths)) + " |\n")
    if lines:
        out.write(rule)


_WRITERS: dict[str, Callable[[Sheet, TextIO, Style], None]] = {
    "column": _write_column,
    "table": _write_table,
    "csv": _write_csv,
    "tsv": _write_tsv,
}


def _layout(sheet: Sheet, style: Style, spacing: int) -> tuple[list[str], list[list[str]], list[int]]:
    """Titles, printable cells and the width of each column; the last column gives way where a terminal is
    too narrow."""
    titles = _titles(sheet, style)
    lines = [[_printable(text) for text in texts] for texts in _texts(sheet, style, separators=True)]
    widths = [max(map(display_width, column)) for column in zip(titles, *lines, strict=True)]
    if style.width is not None and sheet.columns and sheet.columns[-1].type is Type.TEXT:
        room = style.width - sum(widths[:-1]) - spacing * len(widths) - 2
        while room < max(_MIN_TEXT_WIDTH, display_width(titles[-1])):
            room += max(style.width, _MIN_TEXT_WIDTH)  # the line is wrapped anyhow: use the next one too
        if widths[-1] > room:
            widths[-1] = room
            for line in lines:
                line[-1] = truncate(line[-1], room)
    return titles, lines, widths


def _aligned(line: list[str], columns: Sequence[Column], widths: list[int]) -> Iterator[str]:
    for text, column, width in zip(line, columns, widths, strict=True):
        gap = " " * (width - display_width(text))
        yield gap + text if column.type in _RIGHT else text + gap


def _centre(text: str, width: int) -> str:
    gap = width - display_width(text)
    return " " * (gap // 2) + text + " " * (gap - gap // 2)


def display_width(text: str) -> int:
    """Terminal cells that a text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def truncate(text: str, width: int) -> str:
    """The text cut to `width` terminal cells, ending in `...` where something is missing."""
    if display_width(text) <= width:
        return text
    kept, room = "", width - len(_ELLIPSIS)
    for character in text:
        room -= display_width(character)
        if room < 0:
            break
        kept += character
    return kept + _ELLIPSIS


def _printable(text: str) -> str:
    """Control characters as escapes: a name must not break the table, nor command the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
