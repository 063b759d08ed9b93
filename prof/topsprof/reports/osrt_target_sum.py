"""Operating system calls by what they were for: file, peer, pipe, lock."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "osrt_target_sum",
    "OS Runtime Summary by Target",
    "Time, calls and bytes of each function on each file, peer, pipe or lock. Calls shorter than "
    "--osrt-threshold are not among them: see osrt_short_sum.",
    requires=("osrt",),
    columns=(
        column("Time (%)", "percent"),
        column("Total Time", "time"),
        column("Num Calls", "count"),
        column("Max", "time"),
        column("Total (MB)", "number"),
        column("Failed", "count"),
        column("Name"),
        column("Target"),
    ),
    sql="""
        SELECT 100.0 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0) AS share,
               sum(duration_ns) AS total, count(*), max(duration_ns),
               coalesce(sum(size_bytes), 0) / 1e6, count(*) FILTER (WHERE coalesce(error, '') <> ''),
               name, coalesce(target, '')
        FROM {osrt} GROUP BY name, target ORDER BY total DESC, name, target
    """,
)
