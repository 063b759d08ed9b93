"""Which columns of a table a terminal shows, and how wide: a line that wraps is a table nobody can read.

Texts are cut first, the widest most. Where that is not enough the columns that tell least are left out, one
by one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from topsprof.reports.model import Column, Type

_NAMES = frozenset(
    {"Name", "Range", "Operation", "Counter", "Kind", "Kernel Name", "TX Range", "Place", "Source"}
)
"""Titles of what a row is about: never left out."""

_TEXT_FLOOR = 16
_LEAST_TEXT = 8


@dataclass(frozen=True, slots=True)
class Fit:
    """The columns shown, by number, and the width of each in cells."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]


def fit(
    columns: Sequence[Column],
    titles: Sequence[int],
    widths: Sequence[int],
    room: int,
    *,
    name_floor: int,
    spacing: int = 2,
    may_leave_out: bool = False,
    empty: Collection[int] = (),
) -> Fit | None:
    """The columns within `room` cells; None where that can't be. With `may_leave_out` it always can, though
    the last resort is a line longer than `room`.

    titles      width of each title
    widths      width that each column would like
    name_floor  what a name needs to be told from others
    spacing     cells between two columns
    empty       columns without any value: left out before all others
    """
    main = _main(columns)
    floors = list(widths)
    for index, column in enumerate(columns):
        if column.type is Type.TEXT:
            floor = name_floor if index in main else _TEXT_FLOOR
            floors[index] = min(widths[index], max(titles[index], floor))
    shown = list(range(len(columns)))
    order = sorted(
        (index for index in shown if index not in main and _rank(columns, index)),
        key=lambda index: (index not in empty, -_rank(columns, index), -index),
    )

    def spare() -> int:
        return room - sum(floors[index] for index in shown) - spacing * (len(shown) - 1)

    if spare() < 0 and not may_leave_out:
        return None
    for index in order:
        if spare() >= 0:
            break
        shown.remove(index)
    left = spare()
    texts = [index for index in shown if columns[index].type is Type.TEXT]
    if left < 0:
        left = _shrink(floors, texts, titles, left)
    _grow(floors, texts, widths, left)
    return Fit(tuple(shown), tuple(floors[index] for index in shown))


def _main(columns: Sequence[Column]) -> frozenset[int]:
    """The columns that say what a row is about."""
    named = frozenset(index for index, column in enumerate(columns) if column.title in _NAMES)
    if named:
        return named
    return frozenset([index for index, column in enumerate(columns) if column.type is Type.TEXT][-1:])


def _rank(columns: Sequence[Column], index: int) -> int:
    """How soon a column is left out: the greater the sooner, 0 never."""
    column = columns[index]
    if column.rank is not None:
        return column.rank
    if index == 0 and column.type is not Type.ID:
        return 0
    for rank, word in ((9, "StdDev"), (8, "Med"), (6, "Min"), (5, "Max")):
        if word in column.title:
            return rank
    return {Type.ID: 7, Type.TEXT: 4, Type.TIME_MEAN: 2, Type.TIME: 1}.get(column.type, 3)


def _shrink(widths: list[int], texts: Sequence[int], titles: Sequence[int], spare: int) -> int:
    """Take what is missing from the texts, down to the least that still says something."""
    for index in texts:
        least = min(widths[index], max(titles[index], _LEAST_TEXT))
        taken = min(widths[index] - least, -spare)
        widths[index] -= taken
        spare += taken
    return max(spare, 0)


def _grow(widths: list[int], texts: Sequence[int], wanted: Sequence[int], spare: int) -> None:
    """Share what is left among the texts, evenly, to none more than it wants."""
    hungry = [index for index in texts if widths[index] < wanted[index]]
    while spare > 0 and hungry:
        share = max(spare // len(hungry), 1)
        for index in hungry:
            given = min(share, wanted[index] - widths[index], spare)
            widths[index] += given
            spare -= given
        hungry = [index for index in hungry if widths[index] < wanted[index]]
