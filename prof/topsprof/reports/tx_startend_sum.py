"""Start/end ranges by range."""

from __future__ import annotations

from topsprof.reports import _ranges
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "tx_startend_sum",
    "TX Start/End Range Summary",
    "Ranges that may overlap or end on another thread, by domain and name.",
    _ranges.START_END,
    count="Instances",
    keys=("Range",),
)
