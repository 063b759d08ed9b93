"""Push/pop ranges by range."""

from __future__ import annotations

from topsprof.reports import _ranges
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "tx_pushpop_sum",
    "TX Push/Pop Range Summary",
    "Nested ranges of a thread, by domain and name.",
    _ranges.PUSH_POP,
    count="Instances",
    keys=("Range",),
)
