"""Source lines of kernels by what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

_CAUSES = ("dma", "vector", "matrix", "queue", "barrier", "atomic")

_STALLS = ", ".join(
    f"coalesce(sum(cycles) FILTER (counter = 'stall_{cause}_cycles'), 0)::BIGINT" for cause in _CAUSES
)

_SQL = f"""
    WITH sets AS (
        SELECT process_id, metric_id, count(*) AS launches FROM {{kernel}}
        WHERE metric_id IS NOT NULL GROUP BY ALL
    ), lines AS (
        SELECT kernel::VARCHAR AS kernel, file::VARCHAR AS file, line, counter::VARCHAR AS counter,
               sum(launches * value) AS cycles
        FROM kernel_line JOIN sets USING (process_id, metric_id) GROUP BY ALL
    ), wide AS (
        SELECT kernel, file, line, coalesce(sum(cycles) FILTER (counter = 'cost_cycles'), 0) AS cost,
               coalesce(sum(cycles) FILTER (counter = 'cycles'), 0)::BIGINT,
               coalesce(sum(cycles) FILTER (counter = 'issued'), 0)::BIGINT, {_STALLS},
               coalesce(sum(cycles) FILTER (counter = 'bytes'), 0) / 1e6
        FROM lines GROUP BY kernel, file, line
    )
    SELECT coalesce(100 * cost / nullif(sum(cost) OVER (), 0), 0), cost::BIGINT,
           wide.* EXCLUDE (kernel, file, line, cost), kernel, file, line
    FROM wide ORDER BY cost DESC, kernel, file, line
"""


def _rows(data: Data) -> Iterator[Row]:
    from topsprof.reports._sources import Sources

    sources = Sources(data.session.info["created_ns"])
    for *figures, kernel, file, line in data.query(_SQL):
        place = None if file is None else f"{str(file).rpartition('/')[2]}:{line}"
        yield (*figures, kernel, place, sources.line(file, line), file)


REPORT = Report(
    "kern_line",
    "Kernel Source Lines",
    "Source lines of kernels, the costliest first, over all launches and SIPs. Cost are the cycles that "
    "passed because of a line: issuing its instructions, and all waiting for what it started, wherever "
    "that was. Cycles are those that passed at the line: issuing, and its own waiting (Wait ..., by "
    "cause). Bytes are "
    "those that its transfers moved, in MB (10^6 bytes). Source is shown where the file is older than the "
    "session.",
    requires=("kernel", "kernel_line"),
    columns=(
        column("Cost (%)", "percent"),
        column("Cost", "count", 4),
        column("Cycles", "count", 5),
        column("Issued", "count", 4),
        column("Wait Transfer", "count", 3),
        column("Wait Vector", "count", 7),
        column("Wait Matrix", "count", 7),
        column("Wait Queue", "count", 8),
        column("Wait Barrier", "count", 8),
        column("Wait Atomic", "count", 8),
        column("Bytes (MB)", "number", 4),
        column("Kernel", rank=6),
        column("Line", rank=0),
        column("Source"),
        column("File", rank=9),
    ),
    compute=_rows,
    record="topsprof run --metrics per-line",
    first=30,
)
