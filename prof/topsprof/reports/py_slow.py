"""What kept asyncio event loops from going on: turns of a task or callback that took long, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from topsprof.reports._frames import Frame, Node, Stacks, hot_paths, hottest, way
from topsprof.reports._samples import THREADS
from topsprof.reports.model import Report, Row, column

if TYPE_CHECKING:
    from topsprof.reports.data import Data

SLOW_MS: Final = 20
_LEAST: Final = 0.01
"""Places with less than this part of the time are left out."""
_TURNS = """
    RECURSIVE below AS (
        -- what the loop calls: Handle._run calls callbacks and, through a function in C, steps of tasks
        SELECT stack_id, 0 AS depth FROM stack
        WHERE parent_id IN (SELECT stack_id FROM stack WHERE name = 'Handle._run')
        UNION ALL
        SELECT child.stack_id, depth + 1 FROM stack child JOIN below ON child.parent_id = below.stack_id
        WHERE depth < 2048
    ), known AS (SELECT DISTINCT stack_id, true AS called FROM below), taken AS (
        SELECT process_id, thread_id, start_ns, coalesce(weight, 0) AS weight, sample.stack_id,
               CASE WHEN coalesce(gc, false) THEN 'gc' WHEN state = 'gil' THEN 'gil'
                    WHEN state = 'blocked' THEN coalesce(wait::VARCHAR, 'other')
                    WHEN state = 'native' THEN 'native code' ELSE 'running' END AS cause,
               CASE WHEN task IS NOT NULL THEN task::VARCHAR || '/' || coalesce(task_id, 0)
                    WHEN called THEN '' END AS turn_of
        FROM {sample} sample LEFT JOIN known ON known.stack_id = sample.stack_id
        WHERE unit = 'ns' AND sample.stack_id IS NOT NULL AND coalesce(state, '') <> 'simulator'
    ), loops AS (
        SELECT DISTINCT process_id, thread_id FROM taken WHERE turn_of IS NOT NULL
    ), marked AS (
        SELECT taken.*, CASE
            WHEN turn_of IS NOT DISTINCT FROM lag(turn_of) OVER thread
                 AND start_ns - weight - lag(start_ns) OVER thread < 20e6 THEN 0 ELSE 1 END AS begins
        FROM taken JOIN loops USING (process_id, thread_id)
        WINDOW thread AS (PARTITION BY process_id, thread_id ORDER BY start_ns)
    ), numbered AS (
        SELECT *, sum(begins) OVER (PARTITION BY process_id, thread_id ORDER BY start_ns
                                    ROWS UNBOUNDED PRECEDING)::BIGINT AS turn
        FROM marked
    ), slow AS (
        SELECT process_id, thread_id, turn, sum(weight) AS turn_ns FROM numbered
        WHERE turn_of IS NOT NULL GROUP BY ALL HAVING sum(weight) >= SLOW_NS
    ), waits AS (
        SELECT process_id, thread_id, turn, turn_ns, cause, stack_id, weight, start_ns
        FROM numbered JOIN slow USING (process_id, thread_id, turn)
    )
"""
_BY_STACK = """
    WITH {turns}
    SELECT cause, stack_id, process_id || '/' || thread_id || '/' || turn, any_value(turn_ns), sum(weight)
    FROM waits GROUP BY ALL
"""
# Who had what a turn waited for: what other threads did then, and more so than at other times.
_MEANWHILE = f"""
    WITH {{turns}}, {THREADS}, times AS (
        SELECT process_id, thread_id AS loop_id, turn, cause, min(start_ns - weight) AS begin_ns,
               max(start_ns) AS end_ns
        FROM waits WHERE cause IN ('lock', 'gil') GROUP BY ALL
    ), others AS (
        SELECT sample.process_id, sample.thread_id, sample.stack_id, start_ns AS end_ns,
               start_ns - weight AS begin_ns
        FROM {{sample}} sample JOIN (SELECT DISTINCT process_id FROM times) USING (process_id)
        WHERE unit = 'ns' AND stack_id IS NOT NULL
    ), seen AS (
        -- of the waits that began before a sample ended, the last
        SELECT others.*, cause, loop_id,
               greatest(0, least(others.end_ns, times.end_ns)
                           - greatest(others.begin_ns, times.begin_ns)) AS ns
        FROM others ASOF JOIN times
             ON others.process_id = times.process_id AND others.end_ns > times.begin_ns
    ), whole AS (
        SELECT process_id, thread_id, stack_id, sum(end_ns - begin_ns) AS ns FROM others GROUP BY ALL
    ), spans AS (
        SELECT process_id, max(end_ns) - min(begin_ns) AS ns FROM others GROUP BY ALL
    ), waited AS (
        SELECT process_id, cause, sum(end_ns - begin_ns) AS ns FROM times GROUP BY ALL
    ), during AS (
        SELECT process_id, thread_id, stack_id, cause, sum(ns) AS ns FROM seen WHERE thread_id <> loop_id
        GROUP BY ALL
    )
    SELECT during.cause, coalesce(title, during.thread_id::VARCHAR), during.stack_id,
           during.ns - whole.ns * waited.ns / nullif(spans.ns, 0)
    FROM during JOIN whole USING (process_id, thread_id, stack_id) JOIN spans USING (process_id)
         JOIN waited ON waited.process_id = during.process_id AND waited.cause = during.cause
         LEFT JOIN titled ON titled.process_id = during.process_id AND titled.thread_id = during.thread_id
"""


@dataclass(slots=True)
class _Cause:
    """The samples of slow turns that say the same of why."""

    tree: Node = field(default_factory=Node)
    samples: list[tuple[list[Frame], str, float, float]] = field(default_factory=list)


def _rows(data: Data, slow_ms: float) -> Iterator[Row]:
    turns = _TURNS.replace("SLOW_NS", str(round(slow_ms * 1e6)))
    stacks = Stacks(data)
    causes: dict[str, _Cause] = defaultdict(_Cause)
    found: list[Any] = list(data.query(_BY_STACK.replace("{turns}", turns)))
    for cause, stack_id, turn, turn_ns, time_ns in found:
        frames = _of_turn(stacks.frames(stack_id))
        causes[cause].tree.add(frames, time_ns)
        causes[cause].samples.append((frames, turn, turn_ns, time_ns))
    total = sum(cause.tree.time_ns for cause in causes.values())
    others = _meanwhile(data, turns, stacks) if causes.keys() & {"lock", "gil"} else {}
    rows = [
        (100.0 * path_ns / total, path_ns, count, longest, name, *told, others.get(name, ""))
        for name, cause in causes.items()
        for path_ns, count, longest, *told in _places(cause)
        if path_ns >= _LEAST * total
    ]
    yield from sorted(rows, key=lambda row: (-row[1], row[4:]))


def _places(cause: _Cause) -> Iterator[tuple[Any, ...]]:
    """(ns, turns, longest of them, function, place, way) of each place where a cause has its time."""
    for path in hot_paths(cause.tree):
        if not path:
            continue
        keys = [(node.name, node.file) for node in path]
        turns = {
            turn: turn_ns
            for frames, turn, turn_ns, _ in cause.samples
            if [(frame.name, frame.file) for frame in frames[: len(keys)]] == keys
        }
        last = path[-1]
        yield (
            round(last.time_ns), len(turns), round(max(turns.values())), last.name, last.place,
            way(path[:-1]),
        )  # fmt: skip


def _of_turn(frames: list[Frame]) -> list[Frame]:
    """What the loop called; of a loop that is not asyncio's own all of it."""
    for index in range(len(frames) - 1, -1, -1):
        if frames[index].name == "Handle._run":
            return frames[index + 1 :] or frames[index:]
    return frames


def _meanwhile(data: Data, turns: str, stacks: Stacks) -> dict[str, str]:
    """Cause -> the thread that most likely had the lock, and where it was; none: nobody stands out."""
    excess: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    found: list[Any] = list(data.query(_MEANWHILE.replace("{turns}", turns)))
    for cause, title, stack_id, more_ns in found:
        if more_ns is not None and more_ns > 0:
            excess[cause][title][stack_id] = more_ns
    told = {}
    for cause, by_thread in excess.items():
        title = max(by_thread, key=lambda thread: (sum(by_thread[thread].values()), thread))
        told[cause] = hottest(by_thread[title], stacks, title)
    return told


_BASE = Report(
    "py_slow",
    "Slow Turns of Event Loops",
    "Why requests of an asyncio program were slow: turns of a task or a callback that took its event loop "
    f"for {SLOW_MS} ms or more, during which nothing else of that loop went on, from samples. Cause is what "
    "the time of those turns went to: running Python, native code, gc (collecting garbage), the GIL, or what "
    "the thread waited for: lock, sleep, socket, file, ... Meanwhile is what another thread did while the "
    "loop waited for a lock or the GIL, more than at other times: it most likely had it. Turns of a task "
    "between which no sample was taken count as one, and places with less than 1 % are left out. Arguments "
    "`5ms` and `100ms` are other limits.",
    requires=("sample",),
    columns=(
        column("Time (%)", "percent"),
        column("Total Time", "time"),
        column("Turns", "count"),
        column("Longest", "time"),
        column("Cause", rank=0),
        column("Function", rank=0),
        column("Place", rank=0),
        column("Called By", rank=2),
        column("Meanwhile", rank=1),
    ),
    compute=lambda data: _rows(data, SLOW_MS),
    first=10,
)
REPORT = replace(
    _BASE,
    variants={
        "5ms": replace(_BASE, compute=lambda data: _rows(data, 5)),
        "100ms": replace(_BASE, compute=lambda data: _rows(data, 100)),
    },
)
