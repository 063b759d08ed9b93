"""What Python threads wait for, and where."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "py_waits",
    "Python Waits",
    "What threads waited for and where, from samples: locks, sleeps, files, sockets, the GIL, ...",
    requires=("sample",),
    columns=(
        column("Time (%)", "percent"),
        column("Total Time", "time"),
        column("Samples", "count"),
        column("Waited For", rank=0),
        column("Call", rank=2),
        column("Function", rank=0),
        column("Place", rank=1),
    ),
    sql="""
        WITH waits AS (
            SELECT weight, CASE WHEN state = 'gil' THEN 'gil' ELSE coalesce(wait, 'other') END AS waited,
                   CASE WHEN state = 'gil' THEN NULL ELSE coalesce(syscall, native)::VARCHAR END AS call,
                   stack.name::VARCHAR AS function,
                   CASE WHEN stack.line IS NULL THEN stack.file::VARCHAR
                        ELSE stack.file || ':' || stack.line END AS place
            FROM {sample} sample LEFT JOIN stack USING (stack_id)
            WHERE state IN ('blocked', 'gil') AND unit = 'ns'
        )
        SELECT coalesce(100 * sum(weight) / nullif(sum(sum(weight)) OVER (), 0), 0),
               round(sum(weight))::HUGEINT, count(*), waited, call, function, place
        FROM waits GROUP BY waited, call, function, place
        ORDER BY sum(weight) DESC, waited, call, function, place
    """,
    first=20,
)
