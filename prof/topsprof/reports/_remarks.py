"""What stands beside tables for people: what figures rest on, what recording cost, what was not recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topsprof.reports.data import Data
from topsprof.sheet import readable_time

if TYPE_CHECKING:
    from tops_kit.session import Session

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
    return "Profiling cost the program no time that was measured" if data.devices else ""


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
