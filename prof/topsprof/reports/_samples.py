"""SQL that reports of samples share: what ran, and which functions and lines it ran in."""

from __future__ import annotations

from typing import Final

RAN: Final = "coalesce(state, 'running') NOT IN ('blocked', 'gil', 'simulator')"
"""Samples of threads that ran: all of a trace that does not tell."""
ALL: Final = "coalesce(state, 'running') <> 'simulator'"


def by_frame(keys: str, which: str) -> str:
    """Own and total time by the columns `keys` of frames, of the samples for which `which` holds.

    Columns: share in percent, own ns, total ns, samples, then the keys.
    """
    joined = " AND ".join(f"inclusive.{key} IS NOT DISTINCT FROM own.{key}" for key in keys.split(", "))
    of_inclusive = ", ".join(f"inclusive.{key}" for key in keys.split(", "))
    return f"""
    WITH RECURSIVE taken AS (
        -- a sample stands for its weight in ns; samples of a profile without a clock count, but have no time
        SELECT stack_id, count(*) AS samples, sum(CASE WHEN unit = 'ns' THEN weight ELSE 0 END) AS ns,
               sum(CASE WHEN unit = 'ns' OR weight IS NULL THEN 1 ELSE weight END) AS weight
        FROM {{sample}} WHERE coalesce(unit, 'ns') <> 'bytes' AND stack_id IS NOT NULL AND {which}
        GROUP BY stack_id
    ), frames AS (
        SELECT stack_id AS leaf, stack_id AS frame FROM taken
        UNION  -- not UNION ALL: a damaged stack that runs in a circle ends
        SELECT leaf, parent_id FROM frames JOIN stack ON stack.stack_id = frame WHERE parent_id IS NOT NULL
    ), named AS (
        -- once, however often it recurs in a stack
        SELECT DISTINCT leaf, {keys} FROM frames JOIN stack ON stack.stack_id = frame
    ), inclusive AS (
        SELECT {keys}, sum(ns) AS total_ns FROM named JOIN taken ON leaf = taken.stack_id GROUP BY {keys}
    ), own AS (
        SELECT {keys}, sum(ns) AS self_ns, sum(weight) AS weight FROM taken JOIN stack USING (stack_id)
        GROUP BY {keys}
    ), timed AS (
        SELECT coalesce(bool_and(ns > 0), false) AS by_time FROM taken
    )
    SELECT coalesce(100 * CASE WHEN by_time THEN coalesce(self_ns, 0) / nullif(sum(self_ns) OVER (), 0)
                               ELSE coalesce(weight, 0) / nullif(sum(weight) OVER (), 0) END, 0) AS share,
           round(coalesce(self_ns, 0))::HUGEINT, round(total_ns)::HUGEINT,
           round(coalesce(weight, 0))::HUGEINT, {of_inclusive}
    FROM inclusive LEFT JOIN own ON {joined}, timed
    ORDER BY share DESC, total_ns DESC, {of_inclusive}
    """


THREADS: Final = """
    titled AS (
        SELECT process_id, thread_id, coalesce(name || ' (' || thread_id || ')', thread_id::VARCHAR) AS title
        FROM thread
    )
"""
