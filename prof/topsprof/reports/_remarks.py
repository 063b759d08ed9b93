"""What stands beside tables for people: what figures rest on, what recording cost, what was not recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from topsprof.reports.data import Data
from topsprof.sheet import readable_time
from topsprof.textwidth import printable

if TYPE_CHECKING:
    from tops_kit.session import Session

_NAMED = 4  # ranges
_NO_END = "SELECT 1 FROM process WHERE ended_by IS DISTINCT FROM 'exit' LIMIT 1"
_OF_THE_PROGRAM = "compile"
"""A kind of overhead that is there without us, too."""


def basis(data: Data) -> str:
    """The line above each table of a device: what its times are modelled on; empty: it is no model."""
    # the heading of a virtual function's figures names it
    return "; ".join(dict.fromkeys(device.heading for device in data.devices if device.heading))


def cost(session: Session) -> str:
    """What profiling cost the program, as far as it was measured; empty: there is nothing to say."""
    data = Data(session)
    groups = data.groups("overhead", ("name",), "duration_ns")
    costs = [(group.total, str(group.keys[0])) for group in groups if group.keys[0] != _OF_THE_PROGRAM]
    total = sum(ns for ns, _ in costs)
    if total:
        most = max(costs)[1]
        time = readable_time(total).strip()
        return f"Profiling cost the program {time}, most of it by: {most} (-r overhead_sum)"
    if data.devices and list(data.query(_NO_END)):
        return "What profiling cost the program is not known: it was killed, or had not ended yet"
    return ""


_COMPILED = """
    WITH compiled AS (
        SELECT row_number() OVER () AS number, process_id, thread_id, start_ns, duration_ns
        FROM overhead WHERE name = 'compile' AND duration_ns > 0
    ), inner_most AS (
        SELECT number, any_value(compiled.duration_ns) AS ns, arg_max(tx.name, tx.start_ns)::VARCHAR AS name
        FROM compiled LEFT JOIN {tx} tx
          ON tx.process_id = compiled.process_id AND tx.thread_id = compiled.thread_id
         AND tx.start_ns <= compiled.start_ns AND tx.duration_ns > 0
         AND tx.start_ns + tx.duration_ns >= compiled.start_ns + compiled.duration_ns
        GROUP BY number
    )
    SELECT name, sum(ns)::BIGINT, count(*) FROM inner_most GROUP BY name ORDER BY sum(ns) DESC, name
"""


def compiling(data: Data) -> str:
    """How much of the program's time, and of which ranges, compiling kernels was; empty: nothing is known."""
    if not data.tables.get("overhead"):
        return ""
    found: list[Any]
    if data.tables.get("tx"):
        found = list(data.query(_COMPILED))
    else:
        found = list(
            data.query(
                "SELECT NULL, sum(duration_ns)::BIGINT, count(*) FROM overhead "
                "WHERE name = 'compile' HAVING sum(duration_ns) > 0"
            )
        )
    if not found:
        return ""

    def time(ns: Any) -> str:
        return readable_time(int(ns)).strip()

    count = sum(int(row[2]) for row in found)
    what = "1 kernel" if count == 1 else f"{count:,} kernels"
    text = f"Of the program's time {time(sum(int(row[1]) for row in found))} went to compiling {what}"
    named = [f"{time(ns)} in {printable(str(name))}" for name, ns, _ in found if name is not None]
    if named:
        more = f" and {len(named) - _NAMED} more ranges" if len(named) > _NAMED else ""
        text += f", by innermost range: {', '.join(named[:_NAMED])}{more}"
    return f"{text} (when a kernel is first launched)"


def not_recorded(data: Data) -> str:
    """How to record what the default reports of a device's session lack; empty: they lack nothing."""
    if not data.devices or not data.tables.get("kernel"):
        return ""
    if data.tables.get("kernel_metric") and data.tables.get("kernel_line"):
        return ""
    return (
        "What bounds each kernel, and which source lines cost: recorded with topsprof run --metrics all, "
        "shown by kern_counters and kern_line"
    )


_PYTHON = """
    SELECT sum(CASE WHEN gc THEN weight ELSE 0 END), sum(CASE WHEN state = 'gil' THEN weight ELSE 0 END),
           sum(CASE WHEN state IN ('running', 'native') THEN weight ELSE 0 END)
    FROM {sample} WHERE unit = 'ns'
"""
_WORTH_TELLING = 0.1  # of the time that threads ran


def python(data: Data) -> list[str]:
    """What slowed a Python program down as a whole, where that is much: collections of garbage, the GIL."""
    if not data.tables.get("sample") or data.session.info.get("kind") != "recording":
        return []
    found: list[Any] = list(data.query(_PYTHON))
    ((gc_ns, gil_ns, ran_ns),) = found
    if not ran_ns:
        return []
    told = []
    for ns, what, report in (
        (gc_ns, "collecting garbage was {time}, {share:.0%} of the time that threads ran", "gc_sum"),
        (gil_ns, "threads waited {time} for the GIL, and ran for {ran}", "gil_sum"),
    ):
        if ns and ns >= _WORTH_TELLING * ran_ns:
            times = {"time": readable_time(int(ns)).strip(), "ran": readable_time(int(ran_ns)).strip()}
            told.append(f"Python: {what.format(share=ns / ran_ns, **times)} (-r {report})")
    return told
