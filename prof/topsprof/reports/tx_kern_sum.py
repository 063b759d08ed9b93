"""Kernels by the range that launched them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from topsprof.reports._kernels import BASE_SQL, NAME_SQL
from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data


def _rows(data: Data, name_sql: str) -> Iterator[Row]:
    import numpy as np

    from topsprof.reports._projection import grouped_figures, groups, ranges_with_work

    ranges = ranges_with_work(data, kernels_only=True, name_sql=name_sql)
    work = ranges.work
    duration = work.end_ns - work.start_ns
    rows: list[tuple[Any, ...]] = []
    for (name, style, process, thread), of in groups(
        ranges.name, ranges.style, ranges.process_id, ranges.thread_id
    ):
        # one range name of one thread at a time: all pairs of range and kernel at once may not fit
        counts = ranges.last[of] - ranges.first[of]
        owner = np.repeat(np.arange(len(of)), counts)
        kernel = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - ranges.first[of], counts)
        code = work.name[kernel]
        pairs = np.unique(code.astype(np.int64) * len(of) + owner)
        instances = np.bincount(pairs // len(of), minlength=len(work.names))
        rows += [
            (
                ranges.names[name],
                ranges.styles[style] or None,
                process,
                thread if thread >= 0 else None,
                int(instances[one]),
                *figures,
                work.names[one],
            )
            for one, *figures in grouped_figures(code, duration[kernel])
        ]
    yield from sorted(rows, key=lambda row: (-row[6], *map(str, (row[0], row[-1], *row[1:4]))))


_BASE = Report(
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
    compute=partial(_rows, name_sql=NAME_SQL),
)
REPORT = replace(_BASE, variants={"base": replace(_BASE, compute=partial(_rows, name_sql=BASE_SQL))})
