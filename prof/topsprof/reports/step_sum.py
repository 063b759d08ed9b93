"""Steps by name: ProfilerStep#7 and ProfilerStep#8 stay apart, a step is what users compare."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "step_sum",
    "Step Summary",
    "Iterations of a training or serving loop, by name.",
    Source("step"),
    count="Instances",
)
