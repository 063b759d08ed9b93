"""The pipeline of a launch: what each unit of each SIP did when, and what it waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.report.places import Place
from tops_kit.engine.timing_result import CAUSES, UNITS

_DTE = UNITS.index("dte")
_STALL = UNITS.index("stall")
_WHAT = ("run", "wait", "operation", "operation", "transfer")  # by unit


@dataclass(frozen=True)
class Interval:
    """One stretch of one unit. Times in cycles since the launch began.

    `lane`: "scalar", "vector", "matrix", "dte 0" ...; `what`: "run" and "wait" of the scalar unit,
    "operation", "transfer". `waited_for`: where what a wait (or a late start) waited for was started; None
    for nothing. `cause` of a wait. `bytes` of a transfer.
    """

    sip: int
    thread: int
    lane: str
    what: str
    start: int
    end: int
    issued: int
    place: Place
    waited_for: Place | None
    cause: str
    bytes: int


@dataclass(frozen=True, eq=False)
class Pipeline:
    """All intervals, sorted by SIP, lane and time. `rows` is of type INTERVAL (timing_result.py)."""

    rows: npt.NDArray[Any]
    places: tuple[Place, ...]  # by instruction
    channels: int  # of a SIP; the next one is the block's

    def __len__(self) -> int:
        return len(self.rows)

    def sips(self) -> list[int]:
        """SIPs that did something."""
        return sorted(set(self.rows["sip"].tolist()))

    def intervals(self, sip: int | None = None) -> Iterator[Interval]:
        """One after another; of one SIP, or of all."""
        rows = self.rows if sip is None else self.rows[self.rows["sip"] == sip]
        for start, end, issued, size, pc, waited, thread, number, unit, detail in rows.tolist():
            yield Interval(
                number, thread, self._lane(unit, detail), _WHAT[unit],
                start, end, issued, self.places[pc], self.places[waited] if waited >= 0 else None,
                CAUSES[detail] if unit == _STALL else "", size,
            )  # fmt: skip

    def _lane(self, unit: int, detail: int) -> str:
        if unit == _DTE:
            return "dte block" if detail == self.channels else f"dte {detail}"
        return "scalar" if unit == _STALL else UNITS[unit]

    def to_json(self) -> dict[str, Any]:
        """Columns, with places as numbers into a list."""
        known: dict[Place, int] = {}
        out: dict[str, list[Any]] = {name: [] for name in Interval.__dataclass_fields__}
        for interval in self.intervals():
            for name, column in out.items():
                value = getattr(interval, name)
                if isinstance(value, Place):
                    value = known.setdefault(value, len(known))
                column.append(value)
        return {"places": [{"path": place.path, "line": place.line} for place in known], **out}

    def text(self, sip: int, start: int = 0, end: int | None = None, width: int = 80) -> str:
        """A chart of one SIP: a row for each lane, `#` busy, `.` the scalar unit waiting; one column is
        (end - start) / width cycles."""
        rows = self.rows[self.rows["sip"] == sip]
        if not len(rows):
            return f"SIP {sip}: nothing"
        stop = int(rows["end"].max()) if end is None else end
        lanes: dict[str, npt.NDArray[np.float64]] = {}
        waits = np.zeros(width)
        edges = np.linspace(start, max(stop, start + 1), width + 1)
        for row in rows:
            unit, detail = int(row["unit"]), int(row["detail"])
            lane = lanes.setdefault(self._lane(unit, detail), np.zeros(width))
            covered = np.minimum(edges[1:], row["end"]) - np.maximum(edges[:-1], row["start"])
            target = waits if unit == _STALL else lane
            target += np.maximum(covered, 0)
        step = edges[1] - edges[0]
        out = [f"SIP {sip}, cycles {start} to {stop}, {step:.4g} a column"]
        for name, busy in lanes.items():
            marks = [
                "#" if b >= step / 2 else "." if name == "scalar" and w >= step / 2 else "-" if b > 0 else " "
                for b, w in zip(busy, waits, strict=True)
            ]
            out.append(f"{name:>9} |{''.join(marks)}|")
        return "\n".join(out)
