"""The session: one Arrow store for the recorder, importers, simulator, command line, terminal and web.

    with SessionWriter.create("demo.topsprof", kind="import") as writer:
        writer.append("tx", {"start_ns": starts, "duration_ns": durations, "name": names, "process_id": 1})
    session = Session.open("demo.topsprof")
    session.table("tx", ["name", "duration_ns"])
    session.sql_connection().sql("select name, sum(duration_ns) from tx group by name")

The names below are loaded when they are first used, so that importing the schema alone stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tops_kit.session import schema
    from tops_kit.session.compaction import compact, start_compaction
    from tops_kit.session.inspecting import info
    from tops_kit.session.ledger import Ledger, LedgerEntry
    from tops_kit.session.packing import pack, unpack
    from tops_kit.session.reader import Session, needs_recovery
    from tops_kit.session.selecting import Windows
    from tops_kit.session.selection import Filter, Selection
    from tops_kit.session.writer import SessionWriter

_HOMES = {
    "Filter": "selection",
    "Ledger": "ledger",
    "LedgerEntry": "ledger",
    "Selection": "selection",
    "Session": "reader",
    "SessionWriter": "writer",
    "Windows": "selecting",
    "compact": "compaction",
    "info": "inspecting",
    "needs_recovery": "reader",
    "pack": "packing",
    "schema": "schema",
    "start_compaction": "compaction",
    "unpack": "packing",
}

__all__ = [
    "Filter",
    "Ledger",
    "LedgerEntry",
    "Selection",
    "Session",
    "SessionWriter",
    "Windows",
    "compact",
    "info",
    "needs_recovery",
    "pack",
    "schema",
    "start_compaction",
    "unpack",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{home}")
    return module if name == home else getattr(module, name)
