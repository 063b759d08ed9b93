"""Annotations one by one."""

from __future__ import annotations

from topsprof.reports._ranges import RANGE_SQL
from topsprof.reports.model import Report, column

REPORT = Report(
    "tx_trace",
    "TX Trace",
    "Ranges and marks one by one; times since the session's start.",
    requires=("tx",),
    columns=(
        column("Start", "point"),
        column("End", "point"),
        column("Duration", "time"),
        column("Style"),
        column("Range"),
        column("Category"),
        column("Payload"),
        column("Error"),
        column("PID", "id"),
        column("TID", "id"),
        column("Lvl", "id"),
    ),
    sql=f"""
        SELECT start_ns - {{origin}}, end_ns - {{origin}}, duration_ns, style, {RANGE_SQL}, category,
        payload, error,
               process_id, thread_id, depth
        FROM {{tx}} ORDER BY start_ns, duration_ns DESC, process_id, thread_id
    """,
)
