"""What the tools themselves cost."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "overhead_sum",
    "Overhead Summary",
    "Time that profiling itself cost the program, by cause.",
    Source("overhead"),
    count="Instances",
)
