"""Push/pop ranges one by one, with their place in the tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topsprof.reports._ranges import RANGE_SQL
from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data


def _rows(data: Data) -> Iterator[Row]:
    from topsprof.reports.nesting import nest

    columns = data.arrays(f"""
        SELECT start_ns, duration_ns, dense_rank() OVER (ORDER BY process_id, thread_id, task_id) AS track,
               coalesce(process_id, 0) AS process_id, coalesce(thread_id, 0) AS thread_id, {RANGE_SQL} AS name
        FROM {{tx}} WHERE style = 'PushPop' ORDER BY start_ns, duration_ns DESC, track
    """)
    start, duration, names = columns["start_ns"], columns["duration_ns"], columns["name"]
    nesting = nest(columns["track"], start, duration)
    stacks: dict[int, str] = {-1: ""}
    for i in range(len(start)):
        parent = int(nesting.parent[i])
        stacks[i] = stack = f"{stacks[parent]}:{i + 1}"
        begin, length, inner = int(start[i]) - data.origin_ns, int(duration[i]), int(nesting.child_ns[i])
        level = int(nesting.depth[i])
        yield (
            begin,
            begin + length,
            length,
            inner,
            max(length - inner, 0),
            names[i],
            int(columns["process_id"][i]),
            int(columns["thread_id"][i]),
            level,
            int(nesting.child_count[i]),
            i + 1,
            parent + 1 if parent >= 0 else None,
            stack,
            "  " * level + str(names[i]),
        )


REPORT = Report(
    "tx_pushpop_trace",
    "TX Push/Pop Range Trace",
    "Nested ranges one by one with their place in the tree; times since the session's start.",
    requires=("tx",),
    columns=(
        column("Start", "time"),
        column("End", "time"),
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
