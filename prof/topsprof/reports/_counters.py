"""SQL that sums counters of launches up by kernel. Launches with the same counters share one set of them, so
nothing here goes through counters launch by launch."""

from __future__ import annotations

from topsprof.reports._kernels import NAME_SQL

STALLS = {
    "dma": "transfers",
    "vector": "vector unit",
    "matrix": "matrix unit",
    "queue": "full queue",
    "barrier": "barriers",
    "atomic": "atomics",
    "launch": "launch",
    "tail": "others to end",
}
"""What is waited for: cause as counters are named -> as tables call it."""

_CASES = " ".join(f"WHEN '{cause}' THEN '{word}'" for cause, word in STALLS.items())
_WORDS = f"CASE cause {_CASES} ELSE cause END"

BY_KERNEL = f"""
    WITH sets AS (
        SELECT process_id, metric_id, {NAME_SQL} AS name, count(*) AS launches,
               sum(duration_ns)::DOUBLE AS ns, sum(duration_ns) AS exact_ns,
               sum(contention_ns) AS contention_ns,
               -- the device had nothing to do, and the call took longer than the kernel then did
               count(*) FILTER (graph_node_id IS NULL AND start_ns - submit_ns < 1000
                   AND submit_ns - queued_ns > duration_ns) AS starved
        FROM {{kernel}} kernel GROUP BY ALL
    ), counters AS (
        SELECT process_id, metric_id, value, counter::VARCHAR AS counter FROM kernel_metric
    ), wide AS (
        SELECT process_id, metric_id, max(value) FILTER (counter = 'cycles') AS cycles,
               max(value) FILTER (counter = 'operations_per_s')
                   * max(value) FILTER (counter = 'duration_ns') / 1e9 AS operations,
               max(value) FILTER (counter = 'peak_operations_per_s') AS peak,
               max(value) FILTER (counter = 'roof_operations_per_s') AS roof,
               max(value) FILTER (counter = 'l3_bytes_per_s')
                   * max(value) FILTER (counter = 'duration_ns') / 1e9 AS l3_bytes,
               max(value) FILTER (counter = 'peak_l3_bytes_per_s') AS l3_peak,
               max(value) FILTER (counter = 'sips_used') AS sips_used,
               max(value) FILTER (counter = 'sips') AS sips,
               -- all time of the SIPs in use: issuing or waiting
               sum(value) FILTER (counter = 'scalar_cycles'
                   OR (starts_with(counter, 'stall_') AND ends_with(counter, '_cycles'))) AS lifetime,
               min(substr(counter, 7)) FILTER (
                   starts_with(counter, 'bound_') AND NOT starts_with(counter, 'bound_by_')) AS kind,
               min(replace(substr(counter, 10), '_', ' ')) FILTER (starts_with(counter, 'bound_by_')) AS bound
        FROM counters GROUP BY process_id, metric_id
    ), kernels AS (
        SELECT name, sum(launches) AS launches, sum(exact_ns) AS exact_ns, sum(ns) AS ns,
               sum(contention_ns) AS contention_ns, sum(starved) AS starved,
               sum(launches * cycles) / sum(launches) FILTER (cycles IS NOT NULL) AS cycles,
               sum(launches * operations) AS operations, sum(launches * l3_bytes) AS l3_bytes,
               sum(ns) FILTER (peak IS NOT NULL) AS known_ns,
               sum(ns * peak) / 1e9 AS peak, sum(ns * roof) / 1e9 AS roof, sum(ns * l3_peak) / 1e9 AS l3_peak,
               sum(ns * sips_used) AS sips_used, sum(ns * sips) AS sips, sum(launches * lifetime) AS lifetime
        FROM sets LEFT JOIN wide USING (process_id, metric_id) GROUP BY name
    ), bounds AS (
        SELECT name, arg_max(kind, ns) AS kind, arg_max(bound, ns) AS bound FROM (
            SELECT name, kind, bound, sum(ns) AS ns
            FROM sets JOIN wide USING (process_id, metric_id) WHERE kind IS NOT NULL
            GROUP BY ALL ORDER BY kind, bound
        ) GROUP BY name
    ), stalls AS (
        SELECT name, arg_max(cause, cycles) AS cause, max(cycles) AS cycles FROM (
            SELECT name, replace(substr(counter, 7), '_cycles', '') AS cause, sum(launches * value) AS cycles
            FROM sets JOIN counters USING (process_id, metric_id)
            WHERE starts_with(counter, 'stall_') AND ends_with(counter, '_cycles')
            GROUP BY ALL ORDER BY cause
        ) WHERE cycles > 0 GROUP BY name
    )
    SELECT coalesce(100 * ns / nullif(sum(ns) OVER (), 0), 0), exact_ns, launches,
           round(kernels.cycles)::BIGINT,
           CASE WHEN kind = 'overhead' THEN 'launch' ELSE kind END, bound,
           100 * starved / launches,
           operations / nullif(known_ns, 0), 100 * operations / nullif(peak, 0),
           l3_bytes / nullif(known_ns, 0), 100 * l3_bytes / nullif(l3_peak, 0),
           operations / nullif(l3_bytes, 0), 100 * operations / nullif(roof, 0),
           {_WORDS}, 100 * stalls.cycles / nullif(lifetime, 0),
           sips_used / nullif(known_ns, 0), 100 * sips_used / nullif(sips, 0),
           100 * contention_ns / nullif(ns, 0), name
    FROM kernels LEFT JOIN bounds USING (name) LEFT JOIN stalls USING (name)
    ORDER BY exact_ns DESC, name
"""
