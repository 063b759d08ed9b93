"""Graph launches: what the call costs the host, what the device does for it, by node."""

from __future__ import annotations

from topsprof.reports._launches import CALLS
from topsprof.reports.model import Report, column

_NODES = Report(
    "graph_exec_sum",
    "GCU Graph Nodes",
    "Nodes of executable graphs in order: what each does, which of the others it waits for (After), how "
    "often it ran and how long it took on the device. Events and joins take no time.",
    requires=("graph_node",),
    columns=(
        column("PID", "id"),
        column("Graph", "id"),
        column("Exec", "id"),
        column("Node", "id"),
        column("After", rank=1),
        column("Kind", rank=2),
        column("Runs", "count", 2),
        column("Total Time", "time", 1),
        column("Avg", "time_mean", 2),
        column("DevId", "id"),
        column("Name"),
    ),
    sql="""
        WITH launched AS (
            SELECT process_id, correlation_id, any_value(exec_id) AS exec_id FROM graph GROUP BY ALL
        ), work AS (
            SELECT process_id, graph_id, graph_node_id, correlation_id, duration_ns FROM {kernel}
            UNION ALL SELECT process_id, graph_id, graph_node_id, correlation_id, duration_ns FROM {memcpy}
            UNION ALL SELECT process_id, graph_id, graph_node_id, correlation_id, duration_ns FROM {memset}
            UNION ALL SELECT process_id, graph_id, graph_node_id, correlation_id, duration_ns
            FROM {host_function}
        ), ran AS (
            SELECT process_id, graph_id, exec_id, graph_node_id, count(*) AS runs,
                   sum(duration_ns) AS total_ns
            FROM work LEFT JOIN launched USING (process_id, correlation_id)
            WHERE graph_node_id IS NOT NULL GROUP BY ALL
        ), last AS (  -- an update tells the nodes again
            SELECT *, row_number() OVER (
                PARTITION BY process_id, exec_id, graph_node_id ORDER BY rowid DESC) AS newest
            FROM (SELECT *, row_number() OVER () AS rowid FROM graph_node)
        )
        SELECT last.process_id, last.graph_id, last.exec_id, last.graph_node_id,
               replace(trim(after, '[]'), ',', ' '), node_kind::VARCHAR, coalesce(runs, 0), total_ns,
               total_ns / runs, device_id, name::VARCHAR
        FROM last LEFT JOIN ran
          ON ran.process_id = last.process_id AND ran.graph_id = last.graph_id
         AND ran.graph_node_id = last.graph_node_id
         AND (ran.exec_id = last.exec_id OR ran.exec_id IS NULL)
        WHERE newest = 1
        ORDER BY last.process_id, last.exec_id, last.graph_node_id
    """,
)

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
    variants={"nodes": _NODES},
)
