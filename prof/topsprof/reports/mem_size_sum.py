"""Bytes of copies and fills by kind."""

from __future__ import annotations

from topsprof.reports._operations import MEMCPY, MEMSET
from topsprof.reports.shapes import size_summary

REPORT = size_summary(
    "mem_size_sum",
    "GCU MemOps Summary (by Size)",
    "Copies and fills of device memory, by size in MB (10^6 bytes).",
    MEMCPY,
    MEMSET,
)
