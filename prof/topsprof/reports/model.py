"""What a report is: a name, the tables it needs, its columns, and either SQL, a grouping or a function that
gives the rows.

A report's columns never change once released: a wider one gets a new name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topsprof.reports.data import Data

Cell = object
Row = Sequence[Cell]


class Type(Enum):
    """What the cells of a column are. None is allowed everywhere and means unknown."""

    TIME = "time"
    """a length in whole ns; shown in the unit asked for"""
    POINT = "point"
    """a moment, whole ns since the session's start; shown in the unit asked for"""
    TIME_MEAN = "time_mean"
    """ns with a fraction: averages, medians, deviations"""
    PERCENT = "percent"
    COUNT = "count"
    """a whole number, shown with thousands separators where people read it"""
    NUMBER = "number"
    """a fraction, shown with three decimals where people read it"""
    FLOAT = "float"
    """a fraction, always shown in full"""
    ID = "id"
    """a whole number that is a name: no separators"""
    TEXT = "text"


LENGTHS = frozenset({Type.TIME, Type.TIME_MEAN})
TIMES = LENGTHS | {Type.POINT}


@dataclass(frozen=True, slots=True)
class Column:
    """One column. The title of a time column gets its unit when it is written, e.g. `Total Time` -> `Total
    Time (ns)`.

    rank  how soon a terminal that is too narrow leaves it out: the greater the sooner, 0 never; None: as its
          type and title suggest
    """

    title: str
    type: Type
    rank: int | None = None

    def heading(self, time_unit: str = "ns") -> str:
        """The title as users see it."""
        return f"{self.title} ({time_unit})" if self.type in TIMES else self.title


def column(title: str, type_: str = "text", rank: int | None = None) -> Column:
    """Short form for declarations: `column("Avg", "time_mean")`."""
    return Column(title, Type(type_), rank)


MODELLED = frozenset(
    {"kernel", "memcpy", "memset", "memory", "sync", "graph", "kernel_metric", "kernel_line", "stream_race"}
)
"""Tables of what a device did: where that is a simulated one, reports of them say what it is modelled on."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of a grouping come from: `table` grouped by `group`.

    `label` turns one group's values into the report's key cells, e.g. ("HtoD",) -> ("[memcpy
    Host-to-Device]",).
    Groups for which `keep` is false do not belong to the report.
    """

    table: str
    group: tuple[str, ...] = ("name",)
    label: Callable[[Sequence[Cell]], tuple[Cell, ...]] = tuple
    keep: Callable[[Sequence[Cell]], bool] | None = None


@dataclass(frozen=True, slots=True)
class Grouping:
    """Statistics of `value` per group. Unfiltered they come from the session's summaries, without reading
    one event.

    The report's columns are built from `shape` (see topsprof.reports.shapes).
    """

    sources: tuple[Source, ...]
    value: str = "duration_ns"
    shape: str = "time"


@dataclass(frozen=True)
class Report:
    """One report. Exactly one of `sql`, `grouping` and `compute` gives its rows.

    requires  tables that must have rows; `a|b` means either
    sql       DuckDB SQL whose columns are the report's, in order; `{table}` stands for a table after
    filtering,
              `{origin}` for the session's start, ns
    variants  argument (`name:argument`) -> the report it selects
    first     how many rows people get where they ask for no number (None: all); programs get all
    record    what records the tables it needs, where `topsprof run` by itself does not, e.g. `topsprof run
              --metrics all`
    """

    name: str
    title: str
    description: str
    requires: tuple[str, ...]
    columns: tuple[Column, ...]
    sql: str = ""
    grouping: Grouping | None = None
    compute: Callable[[Data], Iterable[Row]] | None = None
    variants: Mapping[str, Report] = field(default_factory=dict)
    record: str = ""
    first: int | None = None

    def __post_init__(self) -> None:
        given = [bool(self.sql), self.grouping is not None, self.compute is not None]
        if sum(given) != 1:
            raise ValueError(f"report {self.name} needs exactly one of sql, grouping and compute")

    @property
    def modelled(self) -> bool:
        """Whether it is about what devices did."""
        return any(name in MODELLED for needed in self.requires for name in needed.split("|"))

    def missing(self, tables: Mapping[str, int]) -> str:
        """What a session with these tables (name -> rows) lacks for this report, e.g. `memcpy or memset`;
        empty: nothing."""
        for alternatives in self.requires:
            names = alternatives.split("|")
            if not any(tables.get(name, 0) for name in names):
                return " or ".join(names)
        return ""

    def rows(self, data: Data) -> Iterable[Row]:
        """The rows, in the order of the columns; lazily where the report may be long."""
        if self.grouping is not None:
            from topsprof.reports.shapes import grouped_rows

            return grouped_rows(self.grouping, data)
        if self.compute is not None:
            return self.compute(data)
        return data.query(self.sql)
