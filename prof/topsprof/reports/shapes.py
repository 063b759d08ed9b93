"""The shapes that grouped reports have: which statistics, under which titles, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topsprof.reports.model import Column, Grouping, Report, Row, Source, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Group:
    """Exact statistics of one group. `stddev` is the sample's (n - 1); 0 for a single value. ns or bytes."""

    keys: tuple[object, ...]
    count: int
    total: int
    minimum: int
    maximum: int
    median: float
    stddev: float

    @property
    def mean(self) -> float:
        return self.total / self.count


def time_summary(
    name: str,
    title: str,
    description: str,
    *sources: Source,
    count: str,
    keys: tuple[str, ...] = ("Name",),
    variants: Mapping[str, Report] | None = None,
) -> Report:
    """A report of durations per group: share, total, number, average, median, extremes, deviation, then the
    keys."""
    columns = (
        column("Time (%)", "percent"),
        column("Total Time", "time"),
        column(count, "count"),
        column("Avg", "time_mean"),
        column("Med", "time_mean"),
        column("Min", "time"),
        column("Max", "time"),
        column("StdDev", "time_mean"),
        *(column(key) for key in keys),
    )
    return Report(
        name,
        title,
        description,
        _requires(sources),
        columns,
        grouping=Grouping(sources),
        variants=variants or {},
    )


def size_summary(
    name: str, title: str, description: str, *sources: Source, keys: tuple[str, ...] = ("Operation",)
) -> Report:
    """A report of `size_bytes` per group, in MB (10^6 bytes)."""
    columns: tuple[Column, ...] = (
        column("Total (MB)", "number"),
        column("Count", "count"),
        *(column(f"{word} (MB)", "number") for word in ("Avg", "Med", "Min", "Max", "StdDev")),
        *(column(key) for key in keys),
    )
    return Report(
        name,
        title,
        description,
        _requires(sources),
        columns,
        grouping=Grouping(sources, value="size_bytes", shape="size"),
    )


def _requires(sources: tuple[Source, ...]) -> tuple[str, ...]:
    return ("|".join(dict.fromkeys(source.table for source in sources)),)


def grouped_rows(grouping: Grouping, data: Data) -> Iterator[Row]:
    """The rows of a grouping, largest total first, ties by key."""
    groups: list[Group] = []
    for source in grouping.sources:
        for group in data.groups(source.table, source.group, grouping.value):
            if source.keep is None or source.keep(group.keys):
                groups.append(
                    Group(
                        source.label(group.keys),
                        group.count,
                        group.total,
                        group.minimum,
                        group.maximum,
                        group.median,
                        group.stddev,
                    )
                )
    groups.sort(key=lambda group: (-group.total, tuple(map(str, group.keys))))
    whole = sum(group.total for group in groups)
    for group in groups:
        yield _ROW[grouping.shape](group, whole)


def _time_row(group: Group, whole: int) -> Row:
    share = 100.0 * group.total / whole if whole else 0.0
    return (
        share,
        group.total,
        group.count,
        group.mean,
        group.median,
        group.minimum,
        group.maximum,
        group.stddev,
        *group.keys,
    )


def _size_row(group: Group, whole: int) -> Row:
    figures = (group.mean, group.median, group.minimum, group.maximum, group.stddev)
    return (group.total / MEGABYTE, group.count, *(figure / MEGABYTE for figure in figures), *group.keys)


_ROW = {"time": _time_row, "size": _size_row}
