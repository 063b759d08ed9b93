"""Graph launches: what the call costs the host, what the device does for it, by node."""

from __future__ import annotations

from topsprof.reports._launches import CALLS
from topsprof.reports.model import Report, column

REPORT = Report(
    "graph_exec_sum",
    "GCU Graph Launch & Exec Summary",
    "Launches of whole graphs by process, device and graph. Total Time is that on the device; Call is what "
    "the launching call took the host. ... / Node: divided by the nodes that ran.",
    requires=("graph",),
    columns=(
        column("PID", "id"),
        column("DevId", "id"),
        column("Launches", "count", 1),
        column("Nodes", "count", 1),
        column("Total Time", "time", 1),
        column("Avg", "time_mean", 4),
        column("Min", "time", 6),
        column("Max", "time", 6),
        column("Time / Node", "time_mean", 3),
        column("Call Total", "time", 4),
        column("Call Avg", "time_mean", 2),
        column("Call / Node", "time_mean", 1),
        column("Name"),
    ),
    sql=f"""
        WITH {CALLS}
        SELECT process_id, graph.device_id, count(*), sum(nodes), sum(graph.duration_ns),
               avg(graph.duration_ns), min(graph.duration_ns), max(graph.duration_ns),
               sum(graph.duration_ns) / nullif(sum(nodes), 0), sum(call_duration_ns), avg(call_duration_ns),
               sum(call_duration_ns) / nullif(sum(nodes) FILTER (call_duration_ns IS NOT NULL), 0),
               graph.name::VARCHAR AS name
        FROM {{graph}} graph LEFT JOIN calls USING (process_id, correlation_id)
        GROUP BY process_id, graph.device_id, graph.name
        ORDER BY sum(graph.duration_ns) DESC, name, process_id, graph.device_id
    """,
)
