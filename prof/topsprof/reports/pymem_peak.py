"""When most memory of Python was in use, by process, and which line had most of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topsprof.reports._pymem import FIGURES, PLACE, RECORD, SITE, WORDS, allocations
from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data


def _rows(data: Data) -> Iterator[Row]:
    return data.query(
        f"""{allocations(data)}, parts AS (
            SELECT process_id, {SITE}::VARCHAR AS site, {PLACE} AS place,
                   sum(weight_bytes) FILTER (at_peak) AS bytes
            FROM placed LEFT JOIN stack USING (stack_id) GROUP BY ALL ORDER BY place, site
        ), most AS (
            SELECT process_id, max(bytes) AS bytes, arg_max(site, bytes) AS site,
                   arg_max(place, bytes) AS place
            FROM parts GROUP BY process_id
        ), figures AS (
            SELECT process_id, {FIGURES} FROM placed GROUP BY process_id
        )
        SELECT figures.* EXCLUDE (process_id), peak_ns - {{origin}}, process_id, process.name::VARCHAR,
               bytes / 1e6, site, place
        FROM figures JOIN peaks USING (process_id) JOIN most USING (process_id)
             LEFT JOIN process USING (process_id)
        ORDER BY 1 DESC, process_id
        """
    )


REPORT = Report(
    "pymem_peak",
    "Python Memory Peak",
    f"Memory of Python by process: how much was in use at most, when, and which line had most. {WORDS}",
    requires=("pymem",),
    columns=(
        column("At Peak (MB)", "number", 0),
        column("Error (MB)", "number", 3),
        column("At End (MB)", "number", 1),
        column("Growth (MB)", "number", 1),
        column("Allocated (MB)", "number", 1),
        column("Allocs", "count", 4),
        column("Samples", "count", 5),
        column("Peak At", "point", 0),
        column("PID", "id", 2),
        column("Process", rank=3),
        column("Most By (MB)", "number", 2),
        column("Name", rank=1),
        column("Place", rank=0),
    ),
    compute=_rows,
    record=RECORD,
)
