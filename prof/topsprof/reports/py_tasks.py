"""What asyncio tasks did while they had their thread."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "py_tasks",
    "Asyncio Task Summary",
    "Time of asyncio tasks by name, from samples: what they ran, and for how long they blocked their thread, "
    "and with it all other tasks.",
    requires=("sample",),
    columns=(
        column("Time (%)", "percent"),
        column("Run Time", "time"),
        column("Blocked Time", "time"),
        column("Samples", "count"),
        column("Task", rank=0),
        column("Hottest Function", rank=1),
    ),
    sql="""
        WITH mine AS (
            SELECT task::VARCHAR AS task, weight, state IN ('blocked', 'gil') AS waits,
                   stack.name::VARCHAR AS function
            FROM {sample} sample LEFT JOIN stack USING (stack_id)
            WHERE task IS NOT NULL AND coalesce(state, '') <> 'simulator'
        ), by_function AS (
            SELECT task, function, sum(weight) AS ns, sum(CASE WHEN waits THEN weight ELSE 0 END) AS waited,
                   count(*) AS samples
            FROM mine GROUP BY task, function
        )
        SELECT coalesce(100 * sum(ns) / nullif(sum(sum(ns)) OVER (), 0), 0),
               round(sum(ns) - sum(waited))::HUGEINT, round(sum(waited))::HUGEINT, sum(samples)::HUGEINT,
               task, arg_max(function, ns)
        FROM by_function GROUP BY task ORDER BY sum(ns) DESC, task
    """,
)
