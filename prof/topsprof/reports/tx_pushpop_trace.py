"""Push/pop ranges one by one, with their place in the tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from topsprof.reports._ranges import RANGE_SQL
from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

_LEVELS: Final = 64
"""Levels that RangeStack and the indentation of NameTree show: endless recursion makes no endless table."""
_MORE: Final = "\u2026"
_INDENT: Final = "  " * _LEVELS + _MORE


def _rows(data: Data) -> Iterator[Row]:
    from topsprof.reports.nesting import nest

    columns = data.arrays(f"""
        SELECT start_ns, duration_ns, dense_rank() OVER (ORDER BY process_id, thread_id, task_id) AS track,
               coalesce(process_id, 0) AS process_id, coalesce(thread_id, 0) AS thread_id, {RANGE_SQL} AS name
        FROM {{tx}} WHERE style = 'PushPop' ORDER BY start_ns, duration_ns DESC, track
    """)
    start, duration, names = columns["start_ns"], columns["duration_ns"], columns["name"]
    nesting = nest(columns["track"], start, duration)
    # plain integers first: taking numpy's one by one costs more than all the rest
    places = zip(
        (start - data.origin_ns).tolist(),
        duration.tolist(),
        nesting.child_ns.tolist(),
        nesting.child_count.tolist(),
        nesting.depth.tolist(),
        nesting.parent.tolist(),
        columns["process_id"].tolist(),
        columns["thread_id"].tolist(),
        names,
        strict=True,
    )
    stacks: list[str] = []
    for number, (begin, length, inner, children, level, parent, process, thread, name) in enumerate(
        places, 1
    ):
        inside = parent >= 0
        outer = stacks[parent] if inside else ""
        if level < _LEVELS:
            stacks.append(f"{outer}:{number}")
        else:  # the same text for all that is deeper
            stacks.append(outer if level > _LEVELS else f"{outer}:{_MORE}")
        yield (
            begin,
            begin + length,
            length,
            inner,
            max(length - inner, 0),
            name,
            process,
            thread,
            level,
            children,
            number,
            parent + 1 if inside else None,
            stacks[-1],
            f"{'  ' * level}{name}" if level < _LEVELS else f"{_INDENT}{name}",
        )


REPORT = Report(
    "tx_pushpop_trace",
    "TX Push/Pop Range Trace",
    "Nested ranges one by one with their place in the tree; times since the session's start.",
    requires=("tx",),
    columns=(
        column("Start", "point"),
        column("End", "point"),
        column("Duration", "time"),
        column("DurChild", "time"),
        column("DurNonChild", "time"),
        column("Name"),
        column("PID", "id"),
        column("TID", "id"),
        column("Lvl", "id"),
        column("NumChild", "count"),
        column("RangeId", "id"),
        column("ParentId", "id"),
        column("RangeStack"),
        column("NameTree"),
    ),
    compute=_rows,
)
