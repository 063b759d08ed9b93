"""Time of copies and fills by kind."""

from __future__ import annotations

from topsprof.reports._operations import MEMCPY, MEMSET
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "mem_time_sum",
    "GCU MemOps Summary (by Time)",
    "Copies and fills of device memory, by time.",
    MEMCPY,
    MEMSET,
    count="Count",
    keys=("Operation",),
)
