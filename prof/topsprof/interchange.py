"""How sessions travel through formats that know only slices with a category and arguments.

A slice of table T has the category `tops:T`, and each further column is an argument of the column's name. So
a reader of the other tool sees everything, and our importers put every value back into its column. Category
and argument of other tools' traces are never taken for ours: no other writes the prefix.
"""

from __future__ import annotations

from tops_kit.session.schema import TABLES, Column, Kind, Table

PREFIX = "tops:"

# Columns that the slice itself states, so that no argument repeats them.
OWN = frozenset({"start_ns", "duration_ns", "name", "args"})


def category(table: str) -> str:
    """The category of a table's slices, e.g. `tops:kernel`."""
    return PREFIX + table


def table_of(text: str) -> Table | None:
    """The table that a category stands for; None when it is not one of ours."""
    return TABLES.get(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else None


def argument_columns(table: Table) -> tuple[Column, ...]:
    """The columns that travel as arguments."""
    return tuple(column for column in table.columns if column.name not in OWN)


def timed(table: Table) -> bool:
    """Whether rows of the table have a place on a timeline."""
    return table.kind is not Kind.PLAIN
