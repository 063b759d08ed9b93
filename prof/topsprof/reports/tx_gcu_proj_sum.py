"""Ranges projected to the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data


def _rows(data: Data) -> Iterator[Row]:
    import numpy as np

    from topsprof.reports._projection import figures, groups, ranges_with_work

    ranges = ranges_with_work(data)
    operations = ranges.last - ranges.first
    rows = []
    for (name, style), of in groups(ranges.name, ranges.style):
        projection = ranges.projection_ns[of]
        depth = ranges.depth[of]
        levels = depth[~np.isnan(depth)]
        rows.append(
            (
                ranges.names[name],
                ranges.styles[style] or None,
                int(projection.sum()),
                int(ranges.duration_ns[of].sum()),
                len(of),
                *figures(projection),
                int(operations[of].sum()),
                float(operations[of].mean()),
                float(levels.mean()) if len(levels) else None,
            )
        )
    yield from sorted(rows, key=lambda row: (-row[2], str(row[0]), str(row[1])))


REPORT = Report(
    "tx_gcu_proj_sum",
    "TX GCU Projection Summary",
    "Ranges projected from the host to the device: a range's projection goes from the begin of the first to "
    "the end of the last operation whose call began in the range on the same thread. Ranges that launched "
    "nothing are left out.",
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
    compute=_rows,
)
