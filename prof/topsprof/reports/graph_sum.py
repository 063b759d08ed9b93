"""Graph launches by graph."""

from __future__ import annotations

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

REPORT = time_summary(
    "graph_sum", "GCU Graph Summary", "Launches of whole graphs, by name.", Source("graph"), count="Instances"
)
