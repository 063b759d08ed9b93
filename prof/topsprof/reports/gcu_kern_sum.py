"""Kernels by name."""

from __future__ import annotations

from topsprof.reports._kernels import BASE, FULL
from topsprof.reports.model import Report, Source
from topsprof.reports.shapes import time_summary


def _report(source: Source, **variants: Report) -> Report:
    return time_summary(
        "gcu_kern_sum",
        "GCU Kernel Summary",
        "Time that kernels ran on any device, by kernel name; argument `base`: by the short name.",
        source,
        count="Instances",
        variants=variants,
    )


REPORT = _report(FULL, base=_report(BASE))
