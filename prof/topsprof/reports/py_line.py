"""Where Python spends its time, by source line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from topsprof.reports._samples import ALL, RAN, by_frame
from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

_RAN = by_frame("file, line, name", RAN)
_WALL = by_frame("file, line, name", ALL)


def _rows(data: Data, sql: str) -> Iterator[Row]:
    for share, own, total, samples, file, line, name in data.query(sql):
        place = "" if file is None else file if line is None else f"{file}:{line}"
        yield share, own, total, samples, name, place


_BASE = Report(
    "py_line",
    "Python Line Summary",
    "Lines of Python by own time while they ran, from samples. The argument `wall` counts waiting, too.",
    requires=("sample",),
    columns=(
        column("Self (%)", "percent"),
        column("Self Time", "time"),
        column("Total Time", "time"),
        column("Samples", "count"),
        column("Name", rank=1),
        column("Place", rank=0),
    ),
    compute=lambda data: _rows(data, _RAN),
    first=20,
)
REPORT = replace(_BASE, variants={"wall": replace(_BASE, compute=lambda data: _rows(data, _WALL))})
