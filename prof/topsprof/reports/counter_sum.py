"""Counters."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "counter_sum",
    "Counter Summary",
    "Values of counters, by counter and series, each value counted once.",
    requires=("counter",),
    columns=(
        column("Count", "count"),
        column("Avg", "number"),
        column("Med", "number"),
        column("Min", "number"),
        column("Max", "number"),
        column("StdDev", "number"),
        column("First", "number"),
        column("Last", "number"),
        column("Unit"),
        column("Counter"),
        column("Series"),
        column("PID", "id"),
    ),
    sql="""
        SELECT count(value), avg(value), median(value), min(value), max(value), coalesce(stddev_samp(value),
        0),
               arg_min(value, start_ns), arg_max(value, start_ns), any_value(unit),
               CASE WHEN coalesce(domain, '') = '' THEN name ELSE domain || ':' || name END AS counter_name,
               series, process_id
        FROM {counter} WHERE isfinite(value) GROUP BY counter_name, series, process_id
        ORDER BY counter_name, series, process_id
    """,
)
