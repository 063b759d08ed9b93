"""Ranges projected to the device."""

from __future__ import annotations

from topsprof.reports._launches import IN_RANGES
from topsprof.reports._ranges import RANGE_SQL
from topsprof.reports.model import Report, column

REPORT = Report(
    "tx_gcu_proj_sum",
    "TX GCU Projection Summary",
    "Ranges projected from the host to the device: a range's projection goes from the begin of the first to "
    "the end of the last "
    "operation whose call began in the range on the same thread. Ranges that launched nothing are left out.",
    requires=("tx", "api", "kernel|memcpy|memset"),
    columns=(
        column("Range"),
        column("Style"),
        column("Total Proj Time", "time"),
        column("Total Range Time", "time"),
        column("Range Instances", "count"),
        column("Proj Avg", "time_mean"),
        column("Proj Med", "time_mean"),
        column("Proj Min", "time"),
        column("Proj Max", "time"),
        column("Proj StdDev", "time_mean"),
        column("Total GCU Ops", "count"),
        column("Avg GCU Ops", "number"),
        column("Avg Range Lvl", "number"),
    ),
    sql=IN_RANGES
    + f""",
        projected AS (
            SELECT range_id, max(end_ns) - min(start_ns) AS projection_ns, count(*) AS operations FROM inside
            GROUP BY range_id
        )
        SELECT {RANGE_SQL} AS range_name, style, sum(projection_ns) AS total, sum(duration_ns), count(*),
        avg(projection_ns),
               median(projection_ns), min(projection_ns), max(projection_ns),
               coalesce(stddev_samp(projection_ns), 0),
               sum(operations), avg(operations), avg(depth)
        FROM projected JOIN ranges USING (range_id)
        GROUP BY ALL ORDER BY total DESC, range_name, style
    """,
)
