"""Framework operators by name."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "op_sum",
    "Operator Summary",
    "Operators of a framework on the host, by name. An operator's time includes the operators it calls.",
    Source("op"),
    count="Num Calls",
)
