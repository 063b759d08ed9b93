"""Waits for the device by kind."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "sync_sum",
    "Synchronization Summary",
    "Waits for a device, stream or event, by name.",
    Source("sync"),
    count="Num Calls",
)
