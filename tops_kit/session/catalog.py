"""The segments of a session that count: complete, readable, and not replaced by another."""

from __future__ import annotations

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
        self._tables: dict[str, list[Segment]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the folder again. OSError when it can't be listed."""
        folder = self.session / SEGMENTS
        try:
            names = [entry.name for entry in folder.iterdir() if not is_temporary(entry.name)]
        except FileNotFoundError:
            if not self.session.is_dir():
                raise
            names = []
        found: dict[str, Segment] = {}
        for name in names:
            segment = self._known.get(name) or (None if name in self._bad else self._open(folder / name))
            if segment is not None:
                found[name] = segment
        self._known = found
        replaced = self._replaced = {name for segment in found.values() for name in segment.replaces}
        tables: dict[str, list[Segment]] = {name: [] for name in TABLES}
        for name in sorted(found, key=lambda name: (found[name].order, segment_order(name))):
            if name not in replaced:
                tables[found[name].table.name].append(found[name])
        self._tables = tables

    def _open(self, path: Path) -> Segment | None:
        try:
            segment = Segment(path)
            if not segment.readable:
                self._drop(
                    path.name,
                    segment.rows,
                    "newer_segment",
                    f"it has format {'.'.join(map(str, segment.version))}; upgrade tops-kit",
                )
                return None
            segment.check_sizes()
        except SegmentGoneError:
            return None
        except SegmentDamagedError as error:
            self._drop(path.name, _rows_of(path), "damaged_segment", str(error))
            return None
        for name in segment.lost:
            self.ledger.count(
                f"{LEDGER_STREAM}:{segment.name}",
                "repaired:damaged_index",
                1,
                f"{name} is made anew when needed",
            )
        return segment

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


def _rows_of(path: Path) -> int:
    try:
        return Segment(path).rows
    except (SegmentDamagedError, SegmentGoneError):
        return 0
