"""Calls and device work by name."""

from __future__ import annotations

from topsprof.reports.gcu_sum import CALLS, KERNELS, MEMORY
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "api_gcu_sum",
    "API/GCU Summary (API/Kernels/MemOps)",
    "Runtime calls, kernels, copies and fills together, by name.",
    CALLS,
    KERNELS,
    *MEMORY,
    count="Instances",
    keys=("Category", "Operation"),
)
