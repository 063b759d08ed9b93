"""Operations of different streams that used the same memory with no order between them."""

from __future__ import annotations

from topsprof.reports.model import Report, column

REPORT = Report(
    "stream_race",
    "Stream Races",
    "Pairs of operations that used the same bytes of a device with nothing that orders them (a wait for an "
    "event, a synchronization), one of them storing: the result is a matter of luck. By what the two are and "
    "where they were asked for, the innermost call first; Bytes are the most that one pair has in common.",
    requires=("stream_race",),
    columns=(
        column("Count", "count"),
        column("First Seen", "point", 5),
        column("Bytes", "count", 2),
        column("PID", "id"),
        column("Device", "id"),
        column("First", rank=2),
        column("First Stack", rank=0),
        column("Second", rank=2),
        column("Second Stack", rank=0),
    ),
    sql="""
        SELECT count(*), min(start_ns) - {origin}, max(size_bytes), process_id, device_id,
               name::VARCHAR AS first,
               replace(first_stack, chr(10), ' < ') AS first_stack, second::VARCHAR AS second,
               replace(second_stack, chr(10), ' < ') AS second_stack
        FROM {stream_race} race GROUP BY ALL
        ORDER BY count(*) DESC, min(start_ns), process_id, device_id, first, second, 7, 9
    """,
)
