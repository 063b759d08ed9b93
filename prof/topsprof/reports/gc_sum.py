"""Pauses in which Python collected garbage."""

from __future__ import annotations

from topsprof.reports._samples import THREADS
from topsprof.reports.model import Report, column

REPORT = Report(
    "gc_sum",
    "Garbage Collection Summary",
    "Pauses in which a thread collected garbage, by generation, thread and the function that set it off, "
    "from samples: each is known to the time between two samples, and shorter ones are met by chance, so "
    "that totals are right where there are many. How many there were: counter_sum, 'garbage collections'.",
    requires=("gc",),
    columns=(
        column("Time (%)", "percent"),
        column("Total Time", "time"),
        column("Pauses", "count"),
        column("Avg", "time_mean"),
        column("Min", "time"),
        column("Max", "time"),
        column("Generation", "count"),
        column("Thread", rank=1),
        column("Name", rank=0),
    ),
    sql=f"""
        WITH {THREADS}
        SELECT coalesce(100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0), 0),
               sum(duration_ns)::HUGEINT, count(*), avg(duration_ns), min(duration_ns), max(duration_ns),
               generation, title, stack.name::VARCHAR AS function
        FROM {{gc}} gc LEFT JOIN titled USING (process_id, thread_id) LEFT JOIN stack USING (stack_id)
        GROUP BY generation, title, function ORDER BY 2 DESC, generation, title, function
    """,
)
