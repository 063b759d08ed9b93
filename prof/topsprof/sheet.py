"""A table to write, how to write it, and its cells as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from topsprof.reports.model import TIMES, Cell, Column, Row, Type

TIME_UNITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
"""unit -> power of ten of ns"""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table to write. `rows` is read once; json, csv and tsv never hold it as a whole."""

    columns: Sequence[Column]
    rows: Iterable[Row]
    heading: str = ""
    """title line above the table, for people"""
    basis: str = ""
    """what the figures rest on: a line below the title, for people"""
    limit: int | None = None
    """rows that people are shown, the first ones"""
    all_with: str = ""
    """what shows the rows beyond `limit`, e.g. `-r api_sum`"""


@dataclass(frozen=True, slots=True)
class Style:
    """How to write.

    time_unit  None: ns, and json has whole ns; where a terminal is too narrow for them each time has a unit
               of its own
    width      a terminal's columns, which no line exceeds; None: no terminal, nothing is cut
    null       what people see for an unknown value
    records    a terminal too narrow for all columns gets a block of lines for each row, not fewer columns
    """

    format: str = "column"
    time_unit: str | None = None
    width: int | None = None
    null: str = ""
    records: bool = False

    @property
    def unit(self) -> str:
        return self.time_unit or "ns"


def texts(sheet: Sheet, style: Style, *, separators: bool) -> Iterator[list[str]]:
    """The rows as texts. With separators for people, without for machines."""
    cells = [_plain_cell(column.type, style, separators) for column in sheet.columns]
    for row in sheet.rows:
        yield [cell(value) for cell, value in zip(cells, row, strict=True)]


def titles(sheet: Sheet, style: Style) -> list[str]:
    """The titles with their units."""
    return [column.heading(style.unit) for column in sheet.columns]


def _plain_cell(kind: Type, style: Style, separators: bool) -> Callable[[Cell], str]:
    comma = "," if separators else ""
    null = style.null if separators else ""
    power = TIME_UNITS[style.unit]

    def number(value: Cell) -> str:
        if value is None:
            return null
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return str(value)
        if kind in TIMES:
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


def readable_time(ns: float) -> str:
    """A length of time in the unit that suits it, four digits: `39.39 ms`, `1.418 s `, `2 ns`. All units take
    two cells, so that right-aligned numbers stand below each other."""
    if ns == 0:
        return "0 ns"
    for unit, factor in (("ns", 1), ("us", 10**3), ("ms", 10**6)):
        value = ns / factor
        if abs(value) < 999.95:
            if factor == 1:
                return f"{ns:d} {unit}" if isinstance(ns, int) else f"{ns:.1f} {unit}"
            return f"{value:.{_decimals(value)}f} {unit}"
    return f"{ns / 10**9:,.{_decimals(ns / 10**9)}f} s "


def _decimals(value: float) -> int:
    size = abs(value)
    return 3 if size < 9.9995 else 2 if size < 99.995 else 1
