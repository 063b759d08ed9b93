"""Waits for the device by kind; with an argument, by place."""

from __future__ import annotations

from dataclasses import replace

from topsprof.reports._launches import CALLS
from topsprof.reports.model import Report, Source, column
from topsprof.reports.shapes import time_summary

_WHERE = Report(
    "sync_sum",
    "Synchronization by Place",
    "Waits by what was waited for, the call that waited and the line that made it. Place needs call stacks.",
    requires=("sync",),
    columns=(
        column("Time (%)", "percent"),
        column("Total Time", "time"),
        column("Num Calls", "count"),
        column("Avg", "time_mean"),
        column("Max", "time"),
        column("Waited For", rank=0),
        column("Device", "id"),
        column("Stream", "id"),
        column("Event", "id"),
        column("PID", "id"),
        column("TID", "id"),
        column("API Name", rank=2),
        column("Place"),
    ),
    sql=f"""
        WITH {CALLS}, stacks AS (
            SELECT process_id, correlation_id, arg_min(stack_id, start_ns) AS stack_id
            FROM api WHERE stack_id IS NOT NULL GROUP BY process_id, correlation_id
        ), waits AS (
            SELECT sync.duration_ns, coalesce(sync.sync_kind, sync.name)::VARCHAR AS what, sync.device_id,
                   sync.stream_id, sync.event_id, sync.process_id,
                   coalesce(sync.thread_id, calls.thread_id) AS thread_id, call_name,
                   CASE WHEN stack.line IS NULL THEN stack.file::VARCHAR
                        ELSE stack.file || ':' || stack.line END AS place
            FROM {{sync}} sync LEFT JOIN calls USING (process_id, correlation_id)
                 LEFT JOIN stacks USING (process_id, correlation_id)
                 LEFT JOIN stack ON stack.stack_id = stacks.stack_id
        )
        SELECT coalesce(100 * sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0), 0),
               sum(duration_ns), count(*), avg(duration_ns), max(duration_ns), what, device_id, stream_id,
               event_id, process_id, thread_id, call_name, place
        FROM waits GROUP BY what, device_id, stream_id, event_id, process_id, thread_id, call_name, place
        ORDER BY sum(duration_ns) DESC, what, place, call_name, device_id, stream_id, event_id, process_id,
                 thread_id
    """,
    record="topsprof run --backtrace",
)

REPORT = replace(
    time_summary(
        "sync_sum",
        "Synchronization Summary",
        "Waits for a device, stream or event, by name. The argument where: by stream, event and place.",
        Source("sync"),
        count="Num Calls",
    ),
    variants={"where": _WHERE},
)
