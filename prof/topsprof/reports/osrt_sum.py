"""Operating system calls by name."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "osrt_sum",
    "OS Runtime Summary",
    "Calls of the operating system, by function.",
    Source("osrt"),
    count="Num Calls",
)
