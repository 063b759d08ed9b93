"""SQL that pairs device work with the runtime call that caused it."""

from __future__ import annotations

from topsprof.reports._kernels import NAME_SQL

CALLS = """
    calls AS (
        -- one call per correlation: the outer one where a runtime and a driver call share a number
        SELECT process_id, correlation_id, min(start_ns) AS call_ns,
               arg_min(duration_ns, start_ns) AS call_duration_ns,
               arg_min(name, start_ns)::VARCHAR AS call_name, arg_min(thread_id, start_ns) AS thread_id
        FROM api WHERE correlation_id IS NOT NULL AND correlation_id > 0
        GROUP BY process_id, correlation_id
    )
"""
"""All calls, filters aside: work that filters leave keeps its call, wherever that is."""

LAUNCHED = f"""{CALLS},
    launched AS (
        SELECT calls.process_id, calls.thread_id, kernel.device_id, call_ns, call_duration_ns, call_name,
               greatest(kernel.start_ns - (call_ns + call_duration_ns), 0) AS queue_ns,
               kernel.start_ns, kernel.duration_ns, kernel.end_ns - call_ns AS total_ns, {NAME_SQL} AS name,
               CASE WHEN grid_x IS NOT NULL THEN concat_ws(' ', grid_x, grid_y, grid_z) END AS grid,
               CASE WHEN block_x IS NOT NULL THEN concat_ws(' ', block_x, block_y, block_z) END AS block
        FROM {{kernel}} kernel JOIN calls USING (process_id, correlation_id)
    )
"""
"""Kernels with their call. `queue_ns` is 0 when the kernel began before the call returned (or the clocks
disagree)."""
