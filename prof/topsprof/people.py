"""Tables for people: aligned columns, ruled ones, and blocks of lines where a terminal is too narrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from topsprof import sheet as sheets
from topsprof.fitting import Fit, fit
from topsprof.reports.model import LENGTHS, Cell, Column, Row, Type
from topsprof.sheet import Sheet, Style
from topsprof.terminal import styled
from topsprof.textwidth import chunks, display_width, printable, truncate, truncate_start, wrap

_RIGHT = frozenset({*LENGTHS, Type.POINT, Type.PERCENT, Type.COUNT, Type.NUMBER, Type.FLOAT, Type.ID})
_READABLE_BELOW = 140
"""A terminal narrower than this has readable times in all tables: no two of an output differ in it."""

_PATHS = frozenset({"Place", "File", "Line"})
"""Titles of columns whose texts are cut at the beginning."""

_NAME_FLOORS = (16, 36)
_WIDE_NAME_FLOOR = 40
_LEAST_WIDTH = 20


@dataclass(frozen=True, slots=True)
class _Layout:
    """What is written: the columns shown, their titles and widths, and the lines; then remarks."""

    columns: Sequence[Column]
    titles: list[str]
    widths: Sequence[int]
    lines: list[list[str]]
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    too_narrow: bool = False


def write_column(sheet: Sheet, out: TextIO, style: Style) -> tuple[str, ...]:
    """Columns with nothing but spaces between them; the titles of columns for which there is no room."""
    layout = _layout(sheet, out, style, spacing=2, edge=1)
    if sheet.heading:
        out.write(f" ** {styled(f'{sheet.heading}:', 'bold', stream=out)}\n")
        _write_basis(sheet, out, style, " ")
        out.write("\n")
    if layout.too_narrow:
        return _write_records(layout, out, style)
    titles = "  ".join(_aligned(layout.titles, layout))
    out.write(" " + styled(titles.rstrip(), "bold", stream=out) + "\n")
    out.write(" " + styled("  ".join("-" * width for width in layout.widths), "dim", stream=out) + "\n")
    for line in layout.lines:
        out.write(" " + "  ".join(_aligned(line, layout)).rstrip() + "\n")
    return _finish(layout, out, style)


def write_table(sheet: Sheet, out: TextIO, style: Style) -> tuple[str, ...]:
    """The same with ruled lines."""
    layout = _layout(sheet, out, style, spacing=3, edge=4)
    if sheet.heading:
        out.write(styled(sheet.heading, "bold", stream=out) + "\n")
        _write_basis(sheet, out, style, "")
    if layout.too_narrow:
        return _write_records(layout, out, style)
    bar = styled("|", "dim", stream=out)
    rule = (
        styled("+" + "+".join("-" * (width + 2) for width in layout.widths) + "+", "dim", stream=out) + "\n"
    )
    titles = (styled(title, "bold", stream=out) for title in _aligned(layout.titles, layout))
    out.write(f"{rule}{bar} " + f" {bar} ".join(titles) + f" {bar}\n{rule}")
    for line in layout.lines:
        out.write(f"{bar} " + f" {bar} ".join(_aligned(line, layout)) + f" {bar}\n")
    if layout.lines:
        out.write(rule)
    return _finish(layout, out, style)


def _write_basis(sheet: Sheet, out: TextIO, style: Style, margin: str) -> None:
    if sheet.basis:
        text = printable(sheet.basis, getattr(out, "encoding", None))
        for line in wrap(text, (style.width or len(text) + 2) - 1 - len(margin)):
            out.write(margin + styled(line, "dim", stream=out) + "\n")


def _write_records(layout: _Layout, out: TextIO, style: Style) -> tuple[str, ...]:
    """Each row as a block of lines `title  value`; long values go on below themselves, whole."""
    width = max(style.width or 0, _LEAST_WIDTH)
    margin = max(map(display_width, layout.titles))
    if margin > width - _LEAST_WIDTH:
        margin = 0  # titles as long as the terminal is wide: the value begins where it may
    for number, line in enumerate(layout.lines, 1):
        head = f"-- row {number} "
        out.write(styled(head + "-" * max(min(width, 60) - len(head), 0), "dim", stream=out) + "\n")
        for title, text in zip(layout.titles, line, strict=True):
            label = title + " " * max(margin - display_width(title), 0)
            first, *more = chunks(text, max(width - margin - 2, _LEAST_WIDTH))
            out.write(f"{styled(label, 'bold', stream=out)}  {first}".rstrip() + "\n")
            out.writelines(f"{' ' * (margin + 2)}{part}\n" for part in more)
    return _finish(layout, out, style)


def _finish(layout: _Layout, out: TextIO, style: Style) -> tuple[str, ...]:
    for remark in layout.remarks:
        for line in wrap(remark, (style.width or len(remark) + 1) - 1):
            out.write(" " + styled(line, "dim", stream=out) + "\n")
    return layout.left_out


def _layout(sheet: Sheet, out: TextIO, style: Style, spacing: int, edge: int) -> _Layout:
    if style.width is None and sheet.limit is None:  # what goes to a file may be long: hold its texts only
        return _drawn(sheet, sheet.rows, out, style)
    rows = list(sheet.rows)
    remarks: tuple[str, ...] = ()
    if sheet.limit is not None and len(rows) > sheet.limit + 1:  # the remark takes a line, too
        remarks = (f"... {len(rows) - sheet.limit:,} more rows: {sheet.all_with} shows all",)
        del rows[sheet.limit :]
    exact = _drawn(sheet, rows, out, style)
    if style.width is None or not sheet.columns:
        return replace(exact, remarks=remarks)
    room = max(style.width, _LEAST_WIDTH) - edge
    may_be_readable = style.time_unit is None and any(column.type in LENGTHS for column in sheet.columns)
    if not may_be_readable or style.width >= _READABLE_BELOW:
        arranged = _fit(exact, room, spacing, _WIDE_NAME_FLOOR)
        if arranged is not None:
            return replace(_cut(exact, arranged), remarks=remarks)
        if style.records:
            return replace(exact, too_narrow=True, remarks=remarks)
    drawn = _in_readable_times(exact, rows) if may_be_readable else exact
    low, high = _NAME_FLOORS
    arranged = _fit(drawn, room, spacing, min(max(style.width * 3 // 8, low), high), may_leave_out=True)
    assert arranged is not None  # as it may leave columns out
    return replace(_cut(drawn, arranged), remarks=remarks)


def _drawn(sheet: Sheet, rows: Iterable[Row], out: TextIO, style: Style) -> _Layout:
    """All columns, as wide as they would like to be."""
    encoding = getattr(out, "encoding", None)
    texts = sheets.texts(replace(sheet, rows=rows), style, separators=True)
    lines = [[printable(text, encoding) for text in line] for line in texts]
    titles = [printable(title, encoding) for title in sheets.titles(sheet, style)]
    return _Layout(sheet.columns, titles, _widths(titles, lines), lines)


def _in_readable_times(layout: _Layout, rows: Sequence[Row]) -> _Layout:
    """The same rows with lengths of time in units of their own, which their titles no longer have."""
    is_length = [column.type in LENGTHS for column in layout.columns]
    titles = [
        column.title if length else title
        for column, title, length in zip(layout.columns, layout.titles, is_length, strict=True)
    ]
    lines = [
        [
            _readable(value, text) if length else text
            for value, text, length in zip(row, line, is_length, strict=True)
        ]
        for row, line in zip(rows, layout.lines, strict=True)
    ]
    return replace(layout, titles=titles, widths=_widths(titles, lines), lines=lines)


def _widths(titles: list[str], lines: list[list[str]]) -> list[int]:
    return [max(map(display_width, column)) for column in zip(titles, *lines, strict=True)]


def _readable(value: Cell, otherwise: str) -> str:
    return sheets.readable_time(value) if isinstance(value, (int, float)) else otherwise


def _fit(
    layout: _Layout, room: int, spacing: int, name_floor: int, may_leave_out: bool = False
) -> Fit | None:
    empty = {index for index, cells in enumerate(zip(*layout.lines, strict=True)) if not any(cells)}
    return fit(
        layout.columns,
        [display_width(title) for title in layout.titles],
        layout.widths,
        room,
        name_floor=name_floor,
        spacing=spacing,
        may_leave_out=may_leave_out,
        empty=empty,
    )


def _cut(layout: _Layout, arranged: Fit) -> _Layout:
    """The columns that `arranged` shows, cut to the widths it gives them."""
    shown = arranged.shown
    lines = [
        [
            (truncate_start if layout.columns[index].title in _PATHS else truncate)(line[index], width)
            for index, width in zip(shown, arranged.widths, strict=True)
        ]
        for line in layout.lines
    ]
    left_out = [layout.columns[index].title for index in range(len(layout.columns)) if index not in shown]
    return _Layout(
        [layout.columns[index] for index in shown],
        [layout.titles[index] for index in shown],
        arranged.widths,
        lines,
        tuple(left_out),
    )


def _aligned(line: list[str], layout: _Layout) -> list[str]:
    """Cells filled with spaces: numbers and their titles to the right, texts to the left."""
    cells = []
    for text, column, width in zip(line, layout.columns, layout.widths, strict=True):
        gap = " " * (width - display_width(text))
        cells.append(gap + text if column.type in _RIGHT else text + gap)
    return cells
