"""Pauses in which Python collected garbage."""

from __future__ import annotations

from topsprof.reports._samples import THREADS
from topsprof.reports.model import Report, column

REPORT = Report(
    "gc_sum",
    "Garbage Collection Summary",
    "Pauses in which a thread collected garbage, by thread and the function that set it off, from samples: "
    "shorter ones than the time between two samples may be missing.",
    requires=("sample",),
    columns=(
        column("Time (%)", "percent"),
        column("Total Time", "time"),
        column("Pauses", "count"),
        column("Avg", "time_mean"),
        column("Min", "time"),
        column("Max", "time"),
        column("Thread", rank=1),
        column("Name", rank=0),
    ),
    sql=f"""
        WITH {THREADS}, marked AS (
            SELECT start_ns, weight, process_id, thread_id, gc, stack_id,
                   CASE WHEN gc AND NOT coalesce(lag(gc) OVER w, false) THEN 1 ELSE 0 END AS begins
            FROM {{sample}} WHERE gc IS NOT NULL
            WINDOW w AS (PARTITION BY process_id, thread_id ORDER BY start_ns)
        ), numbered AS (
            SELECT *, sum(begins) OVER (PARTITION BY process_id, thread_id ORDER BY start_ns ROWS UNBOUNDED
                                        PRECEDING) AS pause FROM marked
        ), pauses AS (
            SELECT process_id, thread_id, pause, sum(weight) AS ns, arg_min(stack_id, start_ns) AS stack_id
            FROM numbered WHERE gc GROUP BY process_id, thread_id, pause
        )
        SELECT coalesce(100 * sum(ns) / nullif(sum(sum(ns)) OVER (), 0), 0),
               round(sum(ns))::HUGEINT, count(*), avg(ns), round(min(ns))::HUGEINT, round(max(ns))::HUGEINT,
               title, stack.name::VARCHAR AS function
        FROM pauses LEFT JOIN titled USING (process_id, thread_id) LEFT JOIN stack USING (stack_id)
        GROUP BY title, function ORDER BY 2 DESC, title, function
    """,
)
