"""Lines that kernels printed."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "print_trace",
    "Lines Printed by Kernels",
    "Lines that kernels printed, in the order of the kernels' ends (Start is that end), those of a kernel in "
    "the order of its threads. Block and Thread (counted over the launch) say who printed it.",
    requires=("print",),
    columns=(
        column("Start", "point"),
        column("PID", "id"),
        column("DevId", "id"),
        column("Strm", "id"),
        column("CorrId", "id"),
        column("Block", "id"),
        column("Thread", "id"),
        column("Kernel", rank=1),
        column("Text", rank=0),
    ),
    sql="""
        SELECT start_ns - {origin}, process_id, device_id, stream_id, correlation_id, block, thread,
               name::VARCHAR, text
        FROM {print} line ORDER BY start_ns, process_id, correlation_id
    """,
)
