"""Snapshots by themselves: `GET /orders > 500ms` asks for one when such a range took longer or is still open.

Rows of ranges (and of traced Python functions) are looked at as they go into segments, a second after their
end at most; tables of open ranges once a second.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tops_kit.collect.arrays import Array
from tops_kit.collect.flight.plan import FlightPlan, Request
from tops_kit.collect.flight.rules import Rule, like, parse

TABLES: Final = ("tx", "python")

_SAME_NS: Final = 1_000_000
_REMEMBERED: Final = 256


@dataclass(frozen=True, slots=True)
class OpenRange:
    """A range that has not ended: begin in session time, and how long it has been open."""

    process_id: int
    begin_ns: int
    length_ns: int
    name: str
    domain: str


class Triggers:
    """The rules of a recording. `see` is for the writing thread, the rest for the drain loop."""

    def __init__(self, plan: FlightPlan) -> None:
        self.rules = [parse(text) for text in plan.when]
        self._limit, self._cooldown_s = plan.when_limit, plan.cooldown_s
        self._least_ns = min((rule.over_ns for rule in self.rules), default=0)
        self._lock = threading.Lock()
        self._fired: list[Request] = []
        self._count = 0
        self._last: float | None = None
        self._told: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)  # open ones: process, begin
        self.held_back = 0
        """Ranges over their threshold that came within the cool-down, or past the limit."""

    @property
    def over(self) -> bool:
        """Whether there will be no more."""
        return self._count >= self._limit

    def take(self) -> list[Request]:
        """What is asked for since the last call."""
        with self._lock:
            fired, self._fired = self._fired, []
        return fired

    def see(self, table: str, columns: Mapping[str, Any]) -> bool:
        """Look at rows; whether a snapshot is asked for."""
        if table not in TABLES or not self.rules:
            return False
        durations = columns.get("duration_ns")
        if not isinstance(durations, np.ndarray):
            return False
        rows = np.flatnonzero(durations > self._least_ns)
        if not len(rows):
            return False
        names, domains = _texts(columns.get("name"), rows), _texts(columns.get("domain"), rows)
        fired = False
        for rule in self.rules:
            mine = durations[rows] > rule.over_ns
            mine &= names.among(lambda name, rule=rule: like(rule.name, name))  # type: ignore[misc]
            mine &= domains.among(lambda domain, rule=rule: domain == rule.domain)  # type: ignore[misc]
            fired |= self._see_rows(rule, columns, rows[mine], names.words_at(mine))
        return fired

    def _see_rows(self, rule: Rule, columns: Mapping[str, Any], rows: Array, names: _Words) -> bool:
        """Rows that fit a rule: of all that come at once one asks for a snapshot."""
        process = columns.get("process_id")
        for at, row in enumerate(rows.tolist()):
            if self._is_told(process if isinstance(process, int) else -1, int(columns["start_ns"][row])):
                continue
            name = names.words[names.codes[at]]
            self.held_back += len(rows) - at - 1
            return self._fire(rule, name, f"{name} took {_length(int(columns['duration_ns'][row]))}")
        return False

    def see_open(self, ranges: list[OpenRange]) -> bool:
        """Look at what is open; each range counts once, also when it ends later."""
        fired = False
        for one in ranges:
            rule = next(
                (r for r in self.rules if one.length_ns > r.over_ns and r.fits(one.name, one.domain)), None
            )
            if rule is None or self._is_told(one.process_id, one.begin_ns):
                continue
            self._told.append((one.process_id, one.begin_ns))
            fired |= self._fire(rule, one.name, f"{one.name} is open for {_length(one.length_ns)}")
        return fired

    def _is_told(self, process_id: int, begin_ns: int) -> bool:
        return any(
            process == process_id and abs(begin - begin_ns) < _SAME_NS for process, begin in list(self._told)
        )

    def _fire(self, rule: Rule, label: str, text: str) -> bool:
        with self._lock:
            now = time.monotonic()
            waiting = self._last is not None and now - self._last < self._cooldown_s
            if self.over or waiting:
                self.held_back += 1
                return False
            self._last = now
            self._count += 1
            self._fired.append(Request("trigger", label, text=f"{text} ({rule.text})"))
            return True


@dataclass(frozen=True, slots=True)
class _Words:
    words: list[str]
    codes: Array

    def among(self, wanted: Callable[[str], bool]) -> Array:
        """Where the text is one that is wanted."""
        codes = [code for code, word in enumerate(self.words) if wanted(word)]
        found: Array = np.isin(self.codes, codes)
        return found

    def words_at(self, mask: Array) -> _Words:
        return _Words(self.words, self.codes[mask])


def _texts(column: Any, rows: Array) -> _Words:
    """A column's texts at some rows: the distinct ones, and which of them each row has. Null is ""."""
    if column is None or isinstance(column, str):
        return _Words([column or ""], np.zeros(len(rows), np.int64))
    picked = column.take(pa.array(rows))
    codes = picked.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    numbers, inverse = np.unique(codes, return_inverse=True)
    words = ["" if number < 0 else picked.dictionary[int(number)].as_py() for number in numbers.tolist()]
    return _Words(words, inverse)


def _length(ns: int) -> str:
    return (
        f"{ns / 1e9:.2f} s" if ns >= 10**9 else f"{ns / 1e6:.1f} ms" if ns >= 10**6 else f"{ns / 1e3:.1f} us"
    )
