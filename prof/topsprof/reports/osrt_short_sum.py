"""Operating system calls that were only counted."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "osrt_short_sum",
    "OS Runtime Calls, Counted Only",
    "Calls of the operating system that were shorter than --osrt-threshold, by function.",
    requires=("osrt_short",),
    columns=(
        column("Total Time", "time"),
        column("Num Calls", "count"),
        column("Avg", "time_mean"),
        column("Total (MB)", "number"),
        column("Name"),
    ),
    sql="""
        SELECT sum(total_ns)::BIGINT AS total, sum(calls)::BIGINT, sum(total_ns) / sum(calls),
               sum(size_bytes) / 1e6, name
        FROM {osrt_short} GROUP BY name ORDER BY total DESC, name
    """,
)
