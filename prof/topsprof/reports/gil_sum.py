"""Who had the GIL while other threads waited for it."""

from __future__ import annotations

from topsprof.reports._samples import THREADS
from topsprof.reports.model import Report, column

REPORT = Report(
    "gil_sum",
    "GIL Summary",
    "Waiting for the GIL by the thread that had it and the function that ran there, from samples.",
    requires=("sample",),
    columns=(
        column("Time (%)", "percent"),
        column("Wait Time", "time"),
        column("Samples", "count"),
        column("Waiting Thread", rank=1),
        column("Waiting In", rank=2),
        column("Holding Thread", rank=0),
        column("Held In", rank=0),
    ),
    sql=f"""
        WITH {THREADS}, waits AS (
            SELECT start_ns, weight, process_id, thread_id, holder_id, stack.name::VARCHAR AS function
            FROM {{sample}} sample LEFT JOIN stack USING (stack_id) WHERE state = 'gil'
        ), held AS (
            SELECT start_ns, process_id, thread_id AS holder_id, stack.name::VARCHAR AS function
            FROM sample JOIN stack USING (stack_id) WHERE coalesce(state, '') <> 'gil'
        ), joined AS (
            -- what the holder did is in its own sample of the same tick, or the last one before
            SELECT waits.*, held.function AS held_in
            FROM waits ASOF LEFT JOIN held ON waits.process_id = held.process_id
                 AND waits.holder_id = held.holder_id AND waits.start_ns >= held.start_ns
        )
        SELECT coalesce(100 * sum(weight) / nullif(sum(sum(weight)) OVER (), 0), 0),
               round(sum(weight))::HUGEINT, count(*), waiting.title, function,
               coalesce(holding.title, 'unknown'), held_in
        FROM joined LEFT JOIN titled waiting USING (process_id, thread_id)
             LEFT JOIN titled holding ON holding.process_id = joined.process_id
                  AND holding.thread_id = joined.holder_id
        GROUP BY ALL ORDER BY 2 DESC, 4, 5, 6, 7
    """,
)
