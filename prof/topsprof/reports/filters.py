"""Which part of a session a report is about: windows of time, from `--filter-time` and `--filter-tx`.

An event belongs to a window when the two overlap, and then counts whole: it is neither cut nor scaled. A
window [t0, t1) is
half-open; an event without length belongs to it when t0 <= start < t1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tops_kit.errors import UserError
from tops_kit.session.selection import parse_time

Window = tuple[int, int]
"""[t0, t1), ns of session time"""

FOREVER = (1 << 63) - 1


def parse_time_range(text: str, origin_ns: int) -> Window:
    """`START/END` -> a window. Either side may be empty. Times count from the session's start, in ns or with
    a unit.

    `@` before a time makes it absolute session time, as SQL shows it. Raises UserError.
    """
    start_text, slash, end_text = text.partition("/")
    if not slash:
        raise UserError(f"--filter-time {text}: expected START/END, e.g. 1.5s/2s or 100ms/")
    start = _time(start_text.strip(), text, origin_ns) if start_text.strip() else -FOREVER
    end = _time(end_text.strip(), text, origin_ns) if end_text.strip() else FOREVER
    if end <= start:
        raise UserError(f"--filter-time {text}: the end must come after the start")
    return start, end


def _time(word: str, text: str, origin_ns: int) -> int:
    try:
        value = parse_time(word.removeprefix("@"), "ns")
    except UserError as error:
        raise UserError(f"--filter-time {text}: {error}") from error
    at = value if word.startswith("@") else origin_ns + value
    if abs(at) >= FOREVER:
        raise UserError(f"--filter-time {text}: {word} is beyond all times that a session can hold")
    return at


def parse_tx(text: str) -> tuple[str, str | None, int | None]:
    """`RANGE[@DOMAIN][/INDEX]` -> name, domain (None: any), index of the instance (None: all of them)."""
    name, index = text, None
    match = re.fullmatch(r"(.+)/(\d+)", text, re.DOTALL)
    if match:
        name, index = match.group(1), int(match.group(2))
    name, at, domain = name.rpartition("@") if "@" in name else (name, "", "")
    if not name:
        raise UserError(f"--filter-tx {text}: expected RANGE[@DOMAIN][/INDEX]")
    return name, domain if at else None, index


def merge(windows: Iterable[Window]) -> tuple[Window, ...]:
    """The union of windows as disjoint ones in order; empty ones are widened to 1 ns."""
    merged: list[Window] = []
    for start, end in sorted((start, max(end, start + 1)) for start, end in windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def intersect(first: tuple[Window, ...], second: tuple[Window, ...]) -> tuple[Window, ...]:
    """What two lists of disjoint, ordered windows have in common."""
    common: list[Window] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            common.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)
