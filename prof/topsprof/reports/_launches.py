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

_WORK = f"""
    work AS (
        SELECT process_id, correlation_id, start_ns, end_ns, duration_ns, {NAME_SQL} AS name,
               true AS is_kernel
        FROM {{kernel}} kernel
        UNION ALL
        SELECT process_id, correlation_id, start_ns, end_ns, duration_ns, 'memcpy', false FROM {{memcpy}}
        UNION ALL
        SELECT process_id, correlation_id, start_ns, end_ns, duration_ns, 'memset', false FROM {{memset}}
    )
"""

IN_RANGES = f"""WITH {CALLS}, {_WORK},
    done AS (
        SELECT work.start_ns, work.end_ns, work.duration_ns, work.name, is_kernel, call_ns,
               calls.process_id, calls.thread_id
        FROM work JOIN calls USING (process_id, correlation_id)
    ), threads AS (
        SELECT process_id, thread_id, row_number() OVER (ORDER BY process_id, thread_id) AS number
        FROM (SELECT DISTINCT process_id, thread_id FROM done)
    ), reach AS (
        SELECT min(start_ns) AS low, max(end_ns) - min(start_ns) + 1 AS span
        FROM (SELECT start_ns, end_ns FROM {{tx}} UNION ALL SELECT call_ns, call_ns FROM done)
    ), ranges AS (
        -- thread and time in one number: containment is two inequalities, which DuckDB joins by sorting
        SELECT row_number() OVER () AS range_id, tx.*, number::HUGEINT * span + (start_ns - low) AS low_key,
               number::HUGEINT * span + (end_ns - low) AS high_key
        FROM {{tx}} tx JOIN threads USING (process_id, thread_id) CROSS JOIN reach
        WHERE coalesce(style, '') <> 'Mark'
    ), keyed AS (
        SELECT done.*, number::HUGEINT * span + (call_ns - low) AS key
        FROM done JOIN threads USING (process_id, thread_id) CROSS JOIN reach
    ), inside AS (
        SELECT range_id, keyed.start_ns, keyed.end_ns, keyed.duration_ns, keyed.name AS work_name, is_kernel
        FROM ranges JOIN keyed ON key >= low_key AND key < high_key
    )
"""
"""`inside`: device work by the range in which it was launched, on the launching thread; `ranges`: the
ranges."""
