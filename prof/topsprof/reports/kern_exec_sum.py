"""Launches: the call, the queue and the kernel."""

from __future__ import annotations

from topsprof.reports._kernels import with_base
from topsprof.reports._launches import LAUNCHED
from topsprof.reports.model import Report, column

_PHASES = (("T", "total_ns"), ("A", "call_duration_ns"), ("Q", "queued"), ("K", "duration_ns"))
_STATISTICS = ("Avg", "Med", "Min", "Max", "StdDev")


def _statistics(value: str) -> str:
    return (
        f"avg({value}), median({value}), min({value}), max({value}), CASE WHEN count({value}) > 0 "
        f"THEN coalesce(stddev_samp({value}), 0) END"
    )


REPORT = with_base(
    Report(
        "kern_exec_sum",
        "Kernel Launch & Exec Time Summary",
        "Launches by thread, device, call and kernel. T: from the call's begin to the kernel's end, A: the "
        "call, Q: from the call's "
        "end to the kernel's begin (of the QCount launches that waited), K: the kernel.",
        requires=("kernel", "api"),
        columns=(
            column("PID", "id"),
            column("TID", "id"),
            column("DevId", "id"),
            column("Count", "count"),
            column("QCount", "count"),
            *(
                column(phase + word, "time_mean" if word in ("Avg", "Med", "StdDev") else "time")
                for phase, _ in _PHASES
                for word in _STATISTICS
            ),
            column("API Name"),
            column("Kernel Name"),
        ),
        sql=f"""
        WITH {LAUNCHED}, measured AS (SELECT *, nullif(queue_ns, 0) AS queued FROM launched)
        SELECT process_id, thread_id, device_id, count(*), count(queued), {
            ", ".join(_statistics(value) for _, value in _PHASES)
        },
               call_name, name
        FROM measured GROUP BY process_id, thread_id, device_id, call_name, name
        ORDER BY sum(total_ns) DESC, call_name, name, process_id, thread_id, device_id
    """,
    )
)
