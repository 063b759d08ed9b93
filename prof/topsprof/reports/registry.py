"""Finds reports: the report NAME is the constant REPORT of the module NAME of this package. A new report is
one new file."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import cast

from tops_kit.errors import UserError
from topsprof.reports.aliases import ALIASES
from topsprof.reports.model import Report

_MACHINERY = frozenset(
    {"aliases", "data", "filters", "manual", "model", "nesting", "output", "registry", "shapes"}
)

DEFAULT: tuple[tuple[str, str], ...] = (
    ("step_sum", "step"),
    ("tx_sum", "tx"),
    ("tx_gcu_proj_sum", "tx"),
    ("osrt_sum", "osrt"),
    ("api_sum", "api"),
    ("sync_sum", "sync"),
    ("gcu_kern_sum", "kernel"),
    ("kern_counters", "kernel_metric"),
    ("kern_line", "kernel_line"),
    ("graph_exec_sum", "graph"),
    ("mem_time_sum", "memcpy|memset"),
    ("mem_size_sum", "memcpy|memset"),
    ("mem_alloc", "memory"),
    ("stream_race", "stream_race"),
    ("op_sum", "op"),
    ("py_call_sum", "python"),
    ("py_slow", "sample"),
    ("py_sum", "sample"),
    ("py_waits", "sample"),
    ("pymem_peak", "pymem"),
    ("pymem_sum", "pymem"),
)
"""What is shown of a session with a device of ours when no report is asked for: name, and the tables of which
one must have rows."""

_OWN = frozenset(
    {
        "tx_gcu_proj_sum",
        "sync_sum",
        "kern_counters",
        "kern_line",
        "graph_exec_sum",
        "mem_alloc",
        "stream_race",
    }
)

OF_RECORDINGS = frozenset({"py_slow", "py_waits"})
"""Those of them that only samples of ours tell."""

IF_ANY = frozenset({"py_slow"})
"""Those of them that are left out where they have no row: of most programs there is nothing to say there."""

DEFAULT_ANYWHERE = tuple(entry for entry in DEFAULT if entry[0] not in _OWN)
"""The same for sessions without one: what most traces have, and what comes from kept summaries."""


def names() -> list[str]:
    """The names of all reports, sorted."""
    package = import_module("topsprof.reports")
    return sorted(
        module.name
        for module in pkgutil.iter_modules(package.__path__)
        if not (module.name in _MACHINERY or module.name.startswith("_"))
    )


def find(text: str) -> tuple[str, Report]:
    """The report that `NAME[:argument]` means: its key in outputs (`name` or `name:argument`) and the report.

    NAME may be an alias. Raises UserError when there is no such report or argument.
    """
    name, _, argument = text.strip().partition(":")
    name = ALIASES.get(name, name)
    report = _load(name)
    if not argument:
        return name, report
    if argument not in report.variants:
        known = ", ".join(sorted(report.variants)) or "none"
        raise UserError(f"report '{name}' has no argument '{argument}': it knows {known}")
    return f"{name}:{argument}", report.variants[argument]


def _load(name: str) -> Report:
    if name not in names():
        raise UserError(_unknown(name))
    return cast(Report, import_module(f"topsprof.reports.{name}").REPORT)


def _unknown(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, [*names(), *ALIASES], n=1)
    hint = f"did you mean '{close[0]}'?" if close else "'topsprof stats --help-reports' lists them"
    return f"there is no report '{name}': {hint}"
