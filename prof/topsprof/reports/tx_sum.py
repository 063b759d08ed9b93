"""Annotations by range."""

from __future__ import annotations

from topsprof.reports import _ranges
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "tx_sum",
    "TX Range Summary",
    "Ranges and marks (style Mark, without length), by domain and name. Slices of a trace whose kind is not "
    "known are ranges, "
    "their category the domain. A range's time includes the ranges in it.",
    _ranges.ALL,
    count="Instances",
    keys=("Style", "Range"),
)
