"""Kernels by the range that launched them."""

from __future__ import annotations

from topsprof.reports._kernels import with_base
from topsprof.reports._launches import IN_RANGES
from topsprof.reports._ranges import RANGE_SQL
from topsprof.reports.model import Report, column

REPORT = with_base(
    Report(
        "tx_kern_sum",
        "TX Range Kernel Summary",
        "Kernels by the range in which they were launched. A kernel counts in every range around its call.",
        requires=("tx", "api", "kernel"),
        columns=(
            column("TX Range"),
            column("Style"),
            column("PID", "id"),
            column("TID", "id"),
            column("TX Inst", "count"),
            column("Kern Inst", "count"),
            column("Total Time", "time"),
            column("Avg", "time_mean"),
            column("Med", "time_mean"),
            column("Min", "time"),
            column("Max", "time"),
            column("StdDev", "time_mean"),
            column("Kernel Name"),
        ),
        sql=IN_RANGES
        + f"""
        SELECT {RANGE_SQL} AS range_name, style, process_id, thread_id,
               count(DISTINCT range_id), count(*), sum(inside.duration_ns) AS total, avg(inside.duration_ns),
               median(inside.duration_ns), min(inside.duration_ns), max(inside.duration_ns),
               coalesce(stddev_samp(inside.duration_ns), 0), work_name
        FROM inside JOIN ranges USING (range_id) WHERE is_kernel
        GROUP BY ALL ORDER BY total DESC, range_name, work_name, process_id, thread_id
    """,
    )
)
