"""The ledger: for each stream of records, how many were requested, written, dropped, repaired and so on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# What can happen to a record. All but the first two make the ledger unclean, and what was asked for does not.
KINDS = ("requested", "written", "dropped", "repaired", "clipped", "moved", "unsupported")
_CLEAN_KINDS = frozenset(KINDS[:2])
_ASKED_FOR = frozenset({("dropped", "aged"), ("dropped", "held_back")})


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """`count` records of `stream` were `kind` (one of KINDS) for the reason `code`; `note` is for people."""

    stream: str
    kind: str
    code: str
    count: int
    note: str

    @property
    def clean(self) -> bool:
        return self.kind in _CLEAN_KINDS or (self.kind, self.code) in _ASKED_FOR

    @property
    def line(self) -> str:
        """One readable line, e.g. `import:chrome: dropped 3 (end without begin): line 17`."""
        code = f" ({self.code.replace('_', ' ')})" if self.code else ""
        note = f": {self.note}" if self.note else ""
        return f"{self.stream}: {self.kind} {self.count}{code}{note}"


class Ledger:
    """Counts by (stream, kind, code). Entries add up; the first note given for one is kept.

    >>> ledger = Ledger()
    >>> ledger.count("import:chrome", "dropped:end_without_begin", 3, note="first at byte 120")
    >>> ledger.lines()
    ['import:chrome: dropped 3 (end without begin): first at byte 120']
    """

    def __init__(self, entries: Iterable[LedgerEntry] = ()) -> None:
        self._entries: dict[tuple[str, str, str], tuple[int, str]] = {}
        for entry in entries:
            self._add(entry.stream, entry.kind, entry.code, entry.count, entry.note)

    def count(self, stream: str, what: str, n: int = 1, note: str = "") -> None:
        """Add `n` records to `what`: a kind, or `kind:code`. `stream` is e.g. "import:chrome" or
        "process:123".

        ValueError for an unknown kind. Counting 0 of something leaves no entry.
        """
        kind, _, code = what.partition(":")
        if kind not in KINDS:
            raise ValueError(f"unknown kind of ledger entry {kind!r}: one of {', '.join(KINDS)}")
        if n:
            self._add(stream, kind, code, int(n), note)

    def _add(self, stream: str, kind: str, code: str, n: int, note: str) -> None:
        count, old_note = self._entries.get((stream, kind, code), (0, ""))
        self._entries[stream, kind, code] = (count + n, old_note or note)

    @property
    def entries(self) -> list[LedgerEntry]:
        """All entries, in order of their first count."""
        return [LedgerEntry(*key, count, note) for key, (count, note) in self._entries.items()]

    @property
    def clean(self) -> bool:
        """Whether every record that was asked for was written as it came."""
        return all(entry.clean for entry in self.entries)

    def total(self, kind: str, stream: str | None = None, code: str | None = None) -> int:
        """Sum of the counts of a kind, of one stream and code or of all."""
        return sum(
            entry.count
            for entry in self.entries
            if entry.kind == kind and stream in (None, entry.stream) and code in (None, entry.code)
        )

    def lines(self, all_kinds: bool = False) -> list[str]:
        """Readable lines of what is not clean, or of everything."""
        return [entry.line for entry in self.entries if all_kinds or not entry.clean]

    @property
    def asked_for(self) -> list[str]:
        """Readable lines of what is not there because nobody wanted it."""
        return [entry.line for entry in self.entries if (entry.kind, entry.code) in _ASKED_FOR]

    def merge(self, other: Ledger) -> None:
        """Add the counts of another ledger to this one."""
        for entry in other.entries:
            self._add(entry.stream, entry.kind, entry.code, entry.count, entry.note)

    def copy(self) -> Ledger:
        return Ledger(self.entries)

    def to_json(self) -> list[dict[str, Any]]:
        """Entries as JSON values, the form in session.json."""
        return [
            {"stream": e.stream, "kind": e.kind, "code": e.code, "count": e.count, "note": e.note}
            for e in self.entries
        ]

    @classmethod
    def from_json(cls, value: object) -> Ledger:
        """The ledger that `to_json` gave; malformed entries raise ValueError."""
        ledger = cls()
        if not isinstance(value, list):
            raise ValueError("a ledger is a list of entries")
        for entry in value:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("count"), int):
                raise ValueError("a ledger entry is an object with a count")
            what = f"{entry.get('kind', '')}:{entry.get('code', '')}"
            ledger.count(str(entry.get("stream", "")), what, entry["count"], str(entry.get("note", "")))
        return ledger
