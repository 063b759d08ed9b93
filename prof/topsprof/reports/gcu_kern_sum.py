"""Kernels by name."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

_TITLE = "GCU Kernel Summary"
_TEXT = "Time that kernels ran on any device, by kernel name."

REPORT = time_summary(
    "gcu_kern_sum",
    _TITLE,
    _TEXT + " Argument `full`: by the name with parameters, `base`: by the short name (the default).",
    Source("kernel"),
    count="Instances",
    variants={
        "base": time_summary("gcu_kern_sum", _TITLE, _TEXT, Source("kernel"), count="Instances"),
        "full": time_summary(
            "gcu_kern_sum",
            _TITLE,
            _TEXT,
            Source(
                "kernel",
                ("full_name", "name"),
                label=lambda keys: (keys[0] if keys[0] is not None else keys[1],),
            ),
            count="Instances",
        ),
    },
)
