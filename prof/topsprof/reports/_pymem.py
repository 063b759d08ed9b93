"""SQL that reports of sampled memory share: which allocations there were, and when most was in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from topsprof.reports.data import Data

RECORD: Final = "topsprof run -t pymem"

WORDS: Final = (
    "Estimates from samples: Error is their standard error. At Peak is what was in use when most was in use "
    "in its process, At End what was at the end, Growth what the second half of the time added. MB are 10^6 "
    "bytes."
)


def allocations(data: Data) -> str:
    """The beginning of a WITH: tables `placed` (a row for each sampled allocation, with what of it counts),
    `peaks` (a row for each process).

    `weight_bytes` is what an allocation stands for, `unsure` its part of the square of the error. In a part
    of the time (`--filter-time`) peak, end and halves are those of that part; what was allocated before is
    in use there, too.
    """
    begin, end = "NULL", "NULL"
    if data.windows:
        begin, end = str(data.windows[0][0]), str(data.windows[-1][1])
    return f"""
    WITH seen AS (
        SELECT process_id, min(start_ns) AS first_ns, max(start_ns) AS last_ns FROM pymem GROUP BY process_id
    ), spans AS (
        SELECT process_id, greatest({begin}, least(process.start_ns, first_ns)) AS begin_ns,
               least({end}, greatest(process.end_ns, last_ns)) AS end_ns
        FROM seen LEFT JOIN process USING (process_id)
    ), known AS (
        SELECT process_id, allocation, min(start_ns) FILTER (name = 'alloc') AS start_ns,
               max(start_ns) FILTER (name = 'free') AS freed_ns, any_value(stack_id) AS stack_id,
               any_value(weight_bytes) AS weight_bytes, any_value(size_bytes) AS size_bytes
        FROM pymem GROUP BY process_id, allocation
    ), tops AS (
        -- the first of several moments of the same height
        SELECT process_id, min_by(start_ns, (-heap_bytes, start_ns)) AS peak_ns
        FROM {{pymem}} GROUP BY process_id
    ), peaks AS (
        SELECT process_id, begin_ns, end_ns, begin_ns + (end_ns - begin_ns) // 2 AS half_ns, peak_ns
        FROM spans JOIN tops USING (process_id)
    ), placed AS (
        SELECT process_id, allocation, stack_id, weight_bytes, size_bytes,
               weight_bytes * (weight_bytes - size_bytes) AS unsure,
               start_ns BETWEEN begin_ns AND end_ns AS taken,
               start_ns <= peak_ns AND coalesce(freed_ns > peak_ns, true) AS at_peak,
               start_ns <= end_ns AND coalesce(freed_ns > end_ns, true) AS at_end,
               start_ns <= half_ns AND coalesce(freed_ns > half_ns, true) AS at_half
        FROM known JOIN peaks USING (process_id) WHERE start_ns IS NOT NULL AND start_ns <= end_ns
    )
    """


SITE: Final = "coalesce(stack.name, '[not in Python]')"
PLACE: Final = "CASE WHEN stack.line IS NULL THEN stack.file ELSE stack.file || ':' || stack.line END"
FIGURES: Final = """
    coalesce(sum(weight_bytes) FILTER (at_peak), 0) / 1e6,
    sqrt(greatest(coalesce(sum(unsure) FILTER (at_peak), 0), 0)) / 1e6,
    coalesce(sum(weight_bytes) FILTER (at_end), 0) / 1e6,
    (coalesce(sum(weight_bytes) FILTER (at_end), 0) - coalesce(sum(weight_bytes) FILTER (at_half), 0)) / 1e6,
    coalesce(sum(weight_bytes) FILTER (taken), 0) / 1e6,
    round(coalesce(sum(weight_bytes / size_bytes) FILTER (taken), 0))::HUGEINT,
    count(*)
"""
"""The figures of a group of `placed`."""
