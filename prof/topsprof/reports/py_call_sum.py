"""Traced Python calls by function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

# Modules are told where we recorded, and where the name needs it.
_PLAIN = "coalesce(module, '') IN ('', '__main__', 'builtins')"
_LABEL = f"CASE WHEN call IS NULL OR {_PLAIN} THEN name ELSE module || '.' || name END"
_CALLS = f"""
    WITH calls AS (SELECT *, {_LABEL} AS label FROM {{python}})
    SELECT start_ns, duration_ns, dense_rank() OVER (ORDER BY process_id, thread_id) AS track,
           dense_rank() OVER (ORDER BY label) - 1 AS code, coalesce(call = 'resume', false) AS resumed,
           CASE WHEN generator_id IS NULL THEN -1
                ELSE dense_rank() OVER (ORDER BY process_id, generator_id) END AS made
    FROM calls
"""
_SKIPPED = f"""
    SELECT CASE WHEN {_PLAIN} THEN function ELSE module || '.' || function END AS label, sum(calls)::BIGINT
    FROM {{overhead}} WHERE calls IS NOT NULL GROUP BY label
"""


def _rows(data: Data) -> Iterator[Row]:
    import numpy as np

    from topsprof.reports.nesting import nest

    labels = f"SELECT DISTINCT {_LABEL} AS label FROM {{python}} ORDER BY label"
    names = [row[0] for row in data.query(labels)]
    skipped = {row[0]: row[1] for row in data.query(_SKIPPED)} if data.tables.get("overhead") else {}
    if not names:
        return
    calls = data.arrays(_CALLS)
    start, duration, code, made = calls["start_ns"], calls["duration_ns"], calls["code"], calls["made"]
    nesting = nest(calls["track"], start, duration)
    self_ns = np.zeros(len(names), np.int64)
    np.add.at(self_ns, code, np.maximum(duration - nesting.child_ns, 0))
    # A call of a generator or coroutine is its first part and the later ones up to the next first one.
    order = np.lexsort((start, made))
    begins = ~calls["resumed"].astype(bool)[order] | (made[order] < 0)
    begins |= np.append(True, np.diff(made[order]) != 0)  # parts whose call was not recorded
    first = np.flatnonzero(begins)
    lengths, owners = np.add.reduceat(duration[order], first), code[order][first]
    whole = int(lengths.sum())
    by_name = np.lexsort((lengths, owners))
    edges = np.searchsorted(owners[by_name], np.arange(len(names) + 1))
    found: list[tuple[int, str, Row]] = []
    for number, name in enumerate(names):
        each = lengths[by_name[edges[number] : edges[number + 1]]]
        if not len(each):
            continue
        total = int(each.sum())
        deviation = float(each.std(ddof=1)) if len(each) > 1 else 0.0
        row = (
            100.0 * total / whole if whole else 0.0,
            total,
            int(self_ns[number]),
            len(each),
            total / len(each),
            float(np.median(each)),
            int(each[0]),
            int(each[-1]),
            deviation,
            skipped.get(name, 0),
            name,
        )
        found.append((-total, str(name), row))
    yield from (row for _, _, row in sorted(found, key=lambda item: item[:2]))


REPORT = Report(
    "py_call_sum",
    "Python Call Summary",
    "Traced calls of Python functions, by function. A call's time includes the calls it makes, Self Time "
    "does not. The parts of a generator or coroutine are one call; time it is suspended does not count. "
    "Counted Only: further calls, not recorded as there were too many.",
    requires=("python",),
    columns=(
        column("Time (%)", "percent"),
        column("Total Time", "time"),
        column("Self Time", "time"),
        column("Num Calls", "count"),
        column("Avg", "time_mean"),
        column("Med", "time_mean"),
        column("Min", "time"),
        column("Max", "time"),
        column("StdDev", "time_mean"),
        column("Counted Only", "count"),
        column("Name"),
    ),
    compute=_rows,
)
