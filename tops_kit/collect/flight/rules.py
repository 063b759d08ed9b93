"""The rules of --when, as text: `GET /orders > 500ms`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tops_kit.errors import UserError

UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}

_RULE: Final = re.compile(r"(?s)\s*(.+?)\s*>\s*([^>]*)\s*")
_TIME: Final = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*")


def time_ns(text: str) -> int | None:
    """A time as `500ms`, `1.5 s`, `2m` or `3` (seconds), in ns; None when it is none."""
    match = _TIME.fullmatch(text)
    if match is None or (match[2] or "s") not in UNITS:
        return None
    return round(float(match[1]) * UNITS[match[2] or "s"])


@dataclass(frozen=True, slots=True)
class Rule:
    """Ranges called `name` (`*` is any text) in `domain` that take longer than `over_ns`."""

    text: str
    name: str
    domain: str
    over_ns: int

    def fits(self, name: str | None, domain: str | None) -> bool:
        """Whether a range of that name and domain is meant."""
        return (domain or "") == self.domain and like(self.name, name or "")


def like(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern, in which `*` is any text."""
    if "*" not in pattern:
        return pattern == text
    return re.fullmatch("(?s:" + ".*".join(map(re.escape, pattern.split("*"))) + ")", text) is not None


def parse(text: str) -> Rule:
    """The rule that a text like `RANGE > 500ms` or `RANGE@DOMAIN > 2s` is. Raises UserError."""
    match = _RULE.fullmatch(text)
    over = time_ns(match[2]) if match else None
    if match is None or over is None:
        raise UserError(f"--when '{text}': write a range and a time, as in --when 'GET /orders > 500ms'")
    marked = match[1].replace("\\@", "\0")
    name, _, domain = marked.rpartition("@") if "@" in marked else (marked, "", "")
    name, domain = name.replace("\0", "@"), domain.replace("\0", "@")
    if not name:
        raise UserError(f"--when '{text}': name the range before the '@'")
    return Rule(text.strip(), name, "" if domain == "default" else domain, over)
