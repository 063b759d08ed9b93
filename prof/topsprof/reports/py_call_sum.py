"""Traced Python calls by function."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "py_call_sum",
    "Python Call Summary",
    "Traced calls of Python functions, by name. A call's time includes the calls it makes.",
    Source("python"),
    count="Num Calls",
)
