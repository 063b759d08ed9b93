"""What a collector must remember beside rings, names and segments: a small JSON file, replaced as a whole."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tops_kit.session.files import read_json, write_json

FILE = "collector.json"


@dataclass(slots=True)
class State:
    """`processes` as Processes.to_json gives it; `rings_done` are rings whose counts are in there already
    and whose files may go.
    """

    processes: list[dict[str, Any]] = field(default_factory=list)
    rings_done: list[str] = field(default_factory=list)
    notes: list[list[Any]] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Raises OSError."""
        write_json(
            folder / FILE, {"processes": self.processes, "rings_done": self.rings_done, "notes": self.notes}
        )


def load(folder: Path) -> State:
    """The state that a collector left; an empty one when there is none or it is damaged (process ids start
    anew then).
    """
    try:
        value = read_json(folder / FILE)
        return State(list(value["processes"]), list(value["rings_done"]), list(value["notes"]))
    except (OSError, ValueError, KeyError, TypeError, json.JSONDecodeError):
        return State()
