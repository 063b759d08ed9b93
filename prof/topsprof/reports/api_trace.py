"""Runtime and driver calls one by one."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "api_trace",
    "API Trace",
    "Calls of the device runtime and driver one by one; times since the session's start.",
    requires=("api",),
    columns=(
        column("Start", "point"),
        column("Duration", "time"),
        column("Name"),
        column("Result", "id"),
        column("CorrID", "id"),
        column("Pid", "id"),
        column("Tid", "id"),
        column("Thread Name"),
    ),
    sql="""
        WITH named AS (SELECT process_id, thread_id, any_value(name) AS thread_name FROM thread GROUP BY ALL)
        SELECT start_ns - {origin}, duration_ns, name, return_value, correlation_id, process_id, thread_id,
        thread_name
        FROM {api} LEFT JOIN named USING (process_id, thread_id)
        ORDER BY start_ns, duration_ns DESC, process_id, thread_id
    """,
)
