"""Which lines of Python allocate memory, and which keep it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from topsprof.reports._pymem import FIGURES, PLACE, RECORD, SITE, WORDS, allocations
from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

_FIGURE_COLUMNS = (
    column("At Peak (MB)", "number", 0),
    column("Error (MB)", "number", 3),
    column("At End (MB)", "number", 1),
    column("Growth (MB)", "number", 1),
    column("Allocated (MB)", "number", 1),
    column("Allocs", "count", 3),
    column("Samples", "count", 4),
)


def _by_site(data: Data, order: str) -> Iterator[Row]:
    return data.query(
        f"""{allocations(data)}
        SELECT {FIGURES}, {SITE}::VARCHAR AS site, {PLACE} AS place
        FROM placed LEFT JOIN stack USING (stack_id)
        GROUP BY site, place ORDER BY {order}, 1 DESC, 5 DESC, site, place
        """
    )


def _by_function(data: Data) -> Iterator[Row]:
    """A function counts once for a stack, however often it recurs in it."""
    return data.query(
        f"""{allocations(data).replace("WITH", "WITH RECURSIVE", 1)}, frames AS (
            SELECT DISTINCT stack_id AS leaf, stack_id AS frame FROM placed WHERE stack_id IS NOT NULL
            UNION  -- not UNION ALL: a damaged stack that runs in a circle ends
            SELECT leaf, parent_id FROM frames JOIN stack ON stack.stack_id = frame
            WHERE parent_id IS NOT NULL
        ), named AS (
            SELECT DISTINCT leaf, name::VARCHAR AS name, file::VARCHAR AS file
            FROM frames JOIN stack ON stack.stack_id = frame
        )
        SELECT {FIGURES}, coalesce(name, '[not in Python]') AS site, file
        FROM placed LEFT JOIN named ON leaf = placed.stack_id
        GROUP BY site, file ORDER BY 1 DESC, 5 DESC, site, file
        """
    )


_BASE = Report(
    "pymem_sum",
    "Python Memory Summary",
    "Lines of Python by the memory that they allocated and that was in use at the peak. Arguments: growth "
    f"(lines whose memory grew come first), total (functions, with all that they called). {WORDS}",
    requires=("pymem",),
    columns=(*_FIGURE_COLUMNS, column("Name", rank=1), column("Place", rank=0)),
    compute=lambda data: _by_site(data, "1 DESC"),
    record=RECORD,
    first=20,
)
REPORT = replace(
    _BASE,
    variants={
        "growth": replace(
            _BASE,
            title="Python Memory Growth",
            description=f"Lines of Python by the memory that the second half of the time added. {WORDS}",
            compute=lambda data: _by_site(data, "4 DESC"),
        ),
        "total": replace(
            _BASE,
            title="Python Memory by Function",
            description="Functions of Python by the memory that they and all that they called allocated and "
            f"that was in use at the peak. {WORDS}",
            compute=_by_function,
        ),
    },
)
