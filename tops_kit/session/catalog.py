"""The segments of a session that count: complete, readable, and not replaced by another."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tops_kit.session.ledger import Ledger
from tops_kit.session.schema import TABLES
from tops_kit.session.segment import (
    SEGMENTS,
    Segment,
    SegmentDamagedError,
    SegmentGoneError,
    is_temporary,
    segment_order,
)

LEDGER_STREAM = "session"


@dataclass(frozen=True, slots=True)
class _Damage:
    """A folder of segments that can't be read: its name, how many rows it says it has, and why."""

    name: str
    rows: int
    code: str
    reason: str


class Catalog:
    """Finds a session's segments; those seen before keep their mappings at `refresh`.

    What can't be read is left out, with a line in `ledger`: rows are counted where the segment still says how
    many it had.
    """

    def __init__(self, session: Path) -> None:
        self.session = session
        self.ledger = Ledger()
        self._known: dict[str, Segment] = {}
        self._bad: set[str] = set()
        self._replaced: set[str] = set()
        self._lost: set[tuple[str, str]] = set()
        self._tables: dict[str, list[Segment]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the folder again. OSError when it can't be listed."""
        while not self._look():
            pass  # a compaction took a segment away: what has its rows came after the folder was listed

    def _look(self) -> bool:
        """One look at the folder; False when a segment that it listed is gone."""
        folder = self.session / SEGMENTS
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.is_dir() and not is_temporary(entry.name)]
        except FileNotFoundError:
            if not self.session.is_dir():
                raise
            names = []
        found: dict[str, Segment] = {}
        damaged: list[_Damage] = []
        for name in names:
            segment = self._known.get(name)
            if segment is None and name not in self._bad:
                opened = _open(folder / name)
                if opened is None:
                    return False
                if isinstance(opened, _Damage):
                    damaged.append(opened)
                    continue
                segment = opened
                self.note_lost(segment)
            if segment is not None:
                found[name] = segment
        self._known = found
        replaced = self._replaced = {name for segment in found.values() for name in segment.replaces}
        for damage in damaged:
            # What is replaced may be half deleted, by a compaction at work or one that was killed.
            if damage.name not in replaced:
                self._drop(damage.name, damage.rows, damage.code, damage.reason)
        tables: dict[str, list[Segment]] = {name: [] for name in TABLES}
        for name in sorted(found, key=lambda name: (found[name].order, segment_order(name))):
            if name not in replaced:
                tables[found[name].table.name].append(found[name])
        self._tables = tables
        return True

    def note_lost(self, segment: Segment) -> None:
        """Name in the ledger the files of a segment's index that are damaged, each once."""
        for name in segment.lost:
            if (segment.name, name) in self._lost:
                continue
            self._lost.add((segment.name, name))
            self.ledger.count(
                f"{LEDGER_STREAM}:{segment.name}",
                "repaired:damaged_index",
                1,
                f"{name} is made anew when needed",
            )

    def drop(self, segment: Segment, reason: str) -> None:
        """Leave out a segment that turned out to be damaged."""
        if segment.name not in self._bad:
            self._drop(segment.name, segment.rows, "damaged_segment", reason)
        self._known.pop(segment.name, None)
        rows = self._tables[segment.table.name]
        if segment in rows:
            rows.remove(segment)

    def _drop(self, name: str, rows: int, code: str, reason: str) -> None:
        self._bad.add(name)
        self.ledger.count(f"{LEDGER_STREAM}:{name}", f"dropped:{code}", max(rows, 1), reason)

    def segments(self, table: str) -> list[Segment]:
        """Segments of a table in the order of their rows."""
        return list(self._tables[table])

    def replaced(self) -> set[str]:
        """Names of segments whose rows others hold."""
        return set(self._replaced)

    def tables(self) -> dict[str, int]:
        """Rows by table, of those tables that have any."""
        counts = {name: sum(segment.rows for segment in segments) for name, segments in self._tables.items()}
        return {name: rows for name, rows in counts.items() if rows}


def _open(path: Path) -> Segment | _Damage | None:
    """The segment; what is wrong with it; or None when it is no longer there."""
    rows = 0
    try:
        segment = Segment(path)
        rows = segment.rows
        if not segment.readable:
            version = ".".join(map(str, segment.version))
            return _Damage(path.name, rows, "newer_segment", f"it has format {version}; upgrade tops-kit")
        segment.check_sizes()
    except SegmentGoneError:
        return None
    except SegmentDamagedError as error:
        return _Damage(path.name, rows, "damaged_segment", str(error))
    return segment
