"""Runtime and driver calls by name."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "api_sum",
    "API Summary",
    "Calls of the device runtime and driver, by function.",
    Source("api"),
    count="Num Calls",
)
