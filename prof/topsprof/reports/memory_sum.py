"""Allocations by kind of memory."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "memory_sum",
    "Memory Allocation Summary",
    "Allocations and releases, by owner of the memory. MB are 10^6 bytes; Peak is the most in use at one "
    "time.",
    requires=("memory",),
    columns=(
        column("Allocs", "count"),
        column("Frees", "count"),
        column("Allocated (MB)", "number"),
        column("Freed (MB)", "number"),
        column("Largest (MB)", "number"),
        column("Peak (MB)", "number"),
        column("Kind"),
        column("Device", "id"),
        column("PID", "id"),
    ),
    sql="""
        SELECT count(*) FILTER (size_bytes > 0), count(*) FILTER (size_bytes < 0),
               coalesce(sum(size_bytes) FILTER (size_bytes > 0), 0) / 1e6,
               coalesce(-sum(size_bytes) FILTER (size_bytes < 0), 0) / 1e6,
               coalesce(max(size_bytes) FILTER (size_bytes > 0), 0) / 1e6, max(allocated_bytes) / 1e6,
               device_type, device_id, process_id
        FROM {memory} GROUP BY device_type, device_id, process_id
        ORDER BY 3 DESC, device_type, device_id, process_id
    """,
)
