"""Launches one by one."""

from __future__ import annotations

from topsprof.reports._kernels import with_base
from topsprof.reports._launches import LAUNCHED
from topsprof.reports.model import Report, column

REPORT = with_base(
    Report(
        "kern_exec_trace",
        "Kernel Launch & Exec Time Trace",
        "Launches one by one, in order of their call; times since the session's start.",
        requires=("kernel", "api"),
        columns=(
            column("API Start", "point"),
            column("API Dur", "time"),
            column("Queue Start", "point"),
            column("Queue Dur", "time"),
            column("Kernel Start", "point"),
            column("Kernel Dur", "time"),
            column("Total Dur", "time"),
            column("PID", "id"),
            column("TID", "id"),
            column("DevId", "id"),
            column("API Function"),
            column("GridXYZ"),
            column("BlockXYZ"),
            column("Kernel Name"),
        ),
        sql=f"""
        WITH {LAUNCHED}
        SELECT call_ns - {{origin}}, call_duration_ns,
               CASE WHEN queue_ns > 0 THEN call_ns + call_duration_ns - {{origin}} END, nullif(queue_ns, 0),
               start_ns - {{origin}}, duration_ns, total_ns, process_id, thread_id, device_id, call_name,
               grid, block, name
        FROM launched ORDER BY call_ns, start_ns, name
    """,
    )
)
