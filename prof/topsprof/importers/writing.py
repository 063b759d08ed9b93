"""What importers write through: rows become sorted, indexed segments as they come, for one importer or
several at once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from tops_kit.session import Ledger, SessionWriter

FLUSH_ROWS = 800_000
"""Rows of one table that make a segment: below the number at which the writer would flush by itself,
unsorted.
"""
FLUSH_BYTES = 256 << 20


class Stage:
    """Collects rows for a session and flushes them sorted into lanes. Several threads may append."""

    def __init__(self, writer: SessionWriter, flush_rows: int = FLUSH_ROWS) -> None:
        self._writer = writer
        self._flush_rows = flush_rows
        self._rows: dict[str, int] = {}
        self._bytes = 0
        self.lock = threading.Lock()

    def append(self, table: str, columns: Mapping[str, Any], rows: int | None = None) -> int:
        """See SessionWriter.append. Returns the number of rows."""
        size = sum(int(getattr(column, "nbytes", 0)) for column in columns.values())
        with self.lock:
            self._writer.append(table, columns, rows)
            if rows is None:
                rows = next(
                    (len(c) for c in columns.values() if hasattr(c, "__len__") and not isinstance(c, str)), 0
                )
            self._rows[table] = self._rows.get(table, 0) + rows
            self._bytes += size
            if self._rows[table] >= self._flush_rows or self._bytes >= FLUSH_BYTES:
                self._flush()
        return rows

    def flush(self) -> None:
        """Write what is buffered."""
        with self.lock:
            self._flush()

    def _flush(self) -> None:
        self._rows.clear()
        self._bytes = 0
        self._writer.flush("lanes")


class FileWriter:
    """The part of SessionWriter that importers use, for one file: rows go to the stage, ledger and
    attributes stay apart.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.ledger = Ledger()
        self.attributes: dict[str, Any] = {}
        self.rows = 0
        """Rows handed on so far, of all tables."""

    def append(self, table: str, columns: Mapping[str, Any], rows: int | None = None) -> None:
        """See SessionWriter.append."""
        self.rows += self._stage.append(table, columns, rows)

    def set_attribute(self, key: str, value: Any) -> None:
        """See SessionWriter.set_attribute."""
        self.attributes[key] = value

    def flush(self, level: str | None = None, meta: Mapping[str, Any] | None = None) -> list[str]:
        """Does nothing: the stage flushes when enough has come."""
        del level, meta
        return []
