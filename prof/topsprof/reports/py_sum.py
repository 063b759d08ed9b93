"""Where Python spends its time: from call stack samples, or from traced calls where there are no samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from topsprof.reports._samples import ALL, RAN, by_frame
from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

_SAMPLES = by_frame("name", RAN)
_WALL = by_frame("name", ALL)


def _rows(data: Data) -> Iterator[Row]:
    return data.query(_SAMPLES) if data.tables.get("sample") else _call_rows(data)


def _call_rows(data: Data) -> Iterator[Row]:
    import numpy as np

    from topsprof.reports.nesting import nest

    calls = data.arrays("""
        SELECT start_ns, duration_ns, dense_rank() OVER (ORDER BY process_id, thread_id) AS track,
               dense_rank() OVER (ORDER BY name) - 1 AS code
        FROM {python}
    """)
    names = [row[0] for row in data.query("SELECT DISTINCT name FROM {python} ORDER BY name")]
    if not names:
        return
    duration, code = calls["duration_ns"], calls["code"]
    nesting = nest(calls["track"], calls["start_ns"], duration)
    own = np.maximum(duration - nesting.child_ns, 0)
    # a recursive call's time is already in the outer call of the same function: only outermost ones make the
    # total.
    # Calls of one function alone nest among themselves, so depth 0 there is outermost.
    outermost = nest(calls["track"] * (len(names) + 1) + code, calls["start_ns"], duration).depth == 0
    self_ns, total_ns = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    np.add.at(self_ns, code, own)
    np.add.at(total_ns, code[outermost], duration[outermost])
    count = np.bincount(code, minlength=len(names))
    whole = int(self_ns.sum())
    for i in sorted(range(len(names)), key=lambda i: (-int(self_ns[i]), -int(total_ns[i]), str(names[i]))):
        share = 100.0 * int(self_ns[i]) / whole if whole else 0.0
        yield share, int(self_ns[i]), int(total_ns[i]), int(count[i]), names[i]


_BASE = Report(
    "py_sum",
    "Python Function Summary",
    "Python functions by own time while they ran: from samples where there are any, else from traced "
    "calls (then Samples is the number of calls). Arguments `samples` and `calls` choose; `wall` counts "
    "waiting, too.",
    requires=("sample|python",),
    columns=(
        column("Self (%)", "percent"),
        column("Self Time", "time"),
        column("Total Time", "time"),
        column("Samples", "count"),
        column("Name"),
    ),
    compute=_rows,
    first=20,
)
REPORT = replace(
    _BASE,
    variants={
        "samples": replace(_BASE, requires=("sample",), compute=lambda data: data.query(_SAMPLES)),
        "wall": replace(_BASE, requires=("sample",), compute=lambda data: data.query(_WALL)),
        "calls": replace(_BASE, requires=("python",), compute=_call_rows),
    },
)
