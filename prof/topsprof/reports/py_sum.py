"""Where Python spends its time: from call stack samples, or from traced calls where there are no samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

_SAMPLES = """
    WITH RECURSIVE taken AS (
        -- a sample stands for its weight in ns; samples of a profile without a clock count, but have no time
        SELECT stack_id, count(*) AS samples, sum(CASE WHEN unit = 'ns' THEN weight ELSE 0 END) AS ns,
               sum(CASE WHEN unit = 'ns' OR weight IS NULL THEN 1 ELSE weight END) AS weight
        FROM {sample} WHERE coalesce(unit, 'ns') <> 'bytes' AND stack_id IS NOT NULL GROUP BY stack_id
    ), frames AS (
        SELECT stack_id AS leaf, stack_id AS frame FROM taken
        UNION  -- not UNION ALL: a damaged stack that runs in a circle ends
        SELECT leaf, parent_id FROM frames JOIN stack ON stack.stack_id = frame WHERE parent_id IS NOT NULL
    ), named AS (
        -- once per function, however often it recurs in a stack
        SELECT DISTINCT leaf, name FROM frames JOIN stack ON stack.stack_id = frame
    ), inclusive AS (
        SELECT named.name, sum(ns) AS total_ns FROM named JOIN taken ON leaf = taken.stack_id GROUP BY
        named.name
    ), own AS (
        SELECT name, sum(ns) AS self_ns, sum(weight) AS weight FROM taken JOIN stack USING (stack_id) GROUP
        BY name
    )
    SELECT coalesce(100 * coalesce(weight, 0) / nullif(sum(weight) OVER (), 0), 0) AS share,
           round(coalesce(self_ns, 0))::HUGEINT, round(total_ns)::HUGEINT, round(coalesce(weight,
           0))::HUGEINT, name
    FROM inclusive LEFT JOIN own USING (name) ORDER BY share DESC, total_ns DESC, name
"""


def _rows(data: Data) -> Iterator[Row]:
    return data.query(_SAMPLES) if data.tables.get("sample") else _call_rows(data)


def _call_rows(data: Data) -> Iterator[Row]:
    import numpy as np

    from topsprof.reports.nesting import nest

    calls = data.arrays("""
        SELECT start_ns, duration_ns, dense_rank() OVER (ORDER BY process_id, thread_id) AS track,
               dense_rank() OVER (ORDER BY name) - 1 AS code
        FROM {python}
    """)
    names = [row[0] for row in data.query("SELECT DISTINCT name FROM {python} ORDER BY name")]
    if not names:
        return
    duration, code = calls["duration_ns"], calls["code"]
    nesting = nest(calls["track"], calls["start_ns"], duration)
    own = np.maximum(duration - nesting.child_ns, 0)
    # a recursive call's time is already in the outer call of the same function: only outermost ones make the
    # total.
    # Calls of one function alone nest among themselves, so depth 0 there is outermost.
    outermost = nest(calls["track"] * (len(names) + 1) + code, calls["start_ns"], duration).depth == 0
    self_ns, total_ns = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    np.add.at(self_ns, code, own)
    np.add.at(total_ns, code[outermost], duration[outermost])
    count = np.bincount(code, minlength=len(names))
    whole = int(self_ns.sum())
    for i in sorted(range(len(names)), key=lambda i: (-int(self_ns[i]), -int(total_ns[i]), str(names[i]))):
        share = 100.0 * int(self_ns[i]) / whole if whole else 0.0
        yield share, int(self_ns[i]), int(total_ns[i]), int(count[i]), names[i]


_BASE = Report(
    "py_sum",
    "Python Function Summary",
    "Python functions by own time: from samples where there are any, else from traced calls (then Samples "
    "is the number of "
    "calls). Arguments `samples` and `calls` choose.",
    requires=("sample|python",),
    columns=(
        column("Self (%)", "percent"),
        column("Self Time", "time"),
        column("Total Time", "time"),
        column("Samples", "count"),
        column("Name"),
    ),
    compute=_rows,
)
REPORT = replace(
    _BASE,
    variants={
        "samples": replace(_BASE, requires=("sample",), compute=lambda data: data.query(_SAMPLES)),
        "calls": replace(_BASE, requires=("python",), compute=_call_rows),
    },
)
