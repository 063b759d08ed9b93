"""A selection: which part of a session is meant. The CLI, SQL, the terminal and the web share it as one small
value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tops_kit.errors import UserError

_UNITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
_TIME = re.compile(r"\s*([+-]?)(\d*)(?:\.(\d*))?\s*(ns|us|ms|s)?\s*")
OPERATORS = ("!=", "<=", ">=", "!~", "=", "<", ">", "~")
_FILTER = re.compile(r"\s*([A-Za-z_]\w*)\s*(!=|<=|>=|!~|=|<|>|~)(.*)", re.DOTALL)
Scalar = str | int | float | bool | None


def parse_time(text: str, default_unit: str = "s") -> int:
    """Nanoseconds that a text like `1.5s`, `200ms`, `12us`, `7ns` or `3` (in the default unit) stands for,
    exactly.
    """
    match = _TIME.fullmatch(text)
    if not match or not (match[2] or match[3]):
        raise UserError(f"'{text}' is not a time; write e.g. 1.5s, 200ms, 30us or 100ns")
    power = _UNITS[match[4] or default_unit]
    fraction = match[3] or ""
    if len(fraction.rstrip("0")) > power:
        raise UserError(f"'{text}' is finer than a nanosecond")
    value = int((match[2] or "0") + fraction.ljust(power, "0")[:power])
    return -value if match[1] == "-" else value


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition: `column` `operator` `value`. Operators are = != < <= > >=, and ~ !~ for regular
    expressions.
    """

    column: str
    operator: str
    value: Scalar

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise UserError(f"unknown operator '{self.operator}'; one of {' '.join(OPERATORS)}")
        if self.operator in ("~", "!~"):
            _check_regex(str(self.value))

    @classmethod
    def parse(cls, text: str) -> Filter:
        """The filter that e.g. `stream_id=7` or `name~gemm` writes down."""
        match = _FILTER.fullmatch(text)
        if not match:
            raise UserError(f"'{text}' is not a filter; write e.g. stream_id=7 or name~gemm")
        value = match[3].strip()
        return cls(match[1], match[2], value if match[2] in ("~", "!~") else _parse_scalar(value))

    def __str__(self) -> str:
        value = str(self.value) if self.operator in ("~", "!~") else _scalar_text(self.value)
        return f"{self.column}{self.operator}{value}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Part of a session. All that is given must hold; what is None or empty restricts nothing.

    time     (begin, end) in absolute ns of session time, either may be None; or a text `begin/end` relative
             to the session's start, e.g. "1.2s/3s" or "/500ms". An interval is selected when it overlaps the
             range.
    tracks   tracks of which one must match: each a mapping of track columns to values, e.g. {"device_id": 0,
             "stream_id": 7}
    names    regular expression that is found in the name
    filters  further conditions

    Rows of tables without a column that is asked for are not selected. Tables of kind PLAIN (process, thread,
    ...) are not restricted at all. UserError for a malformed text or expression.
    """

    time: tuple[int | None, int | None] | str | None = None
    tracks: tuple[tuple[tuple[str, Scalar], ...], ...] = ()
    names: str | None = None
    filters: tuple[Filter, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.time, str):
            _relative_range(self.time)
        elif self.time is not None:
            object.__setattr__(self, "time", (self.time[0], self.time[1]))
        tracks: Any = self.tracks
        object.__setattr__(
            self,
            "tracks",
            tuple(tuple(sorted(track.items() if isinstance(track, Mapping) else track)) for track in tracks),
        )
        object.__setattr__(self, "filters", tuple(self.filters))
        if self.names is not None:
            _check_regex(self.names)

    @property
    def empty(self) -> bool:
        """Whether the selection restricts nothing."""
        return self == Selection()

    def time_range(self, session_start_ns: int) -> tuple[int | None, int | None] | None:
        """The time range in absolute ns, None when time is not restricted."""
        if isinstance(self.time, str):
            begin, end = _relative_range(self.time)
            return (
                None if begin is None else session_start_ns + begin,
                None if end is None else session_start_ns + end,
            )
        return self.time

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; what restricts nothing is left out."""
        value: dict[str, Any] = {}
        if self.time is not None:
            value["time"] = self.time if isinstance(self.time, str) else list(self.time)
        if self.tracks:
            value["tracks"] = [dict(track) for track in self.tracks]
        if self.names is not None:
            value["names"] = self.names
        if self.filters:
            value["filters"] = [str(one) for one in self.filters]
        return value

    @classmethod
    def from_json(cls, value: object) -> Selection:
        """The selection that `to_json` gave. UserError when it is none."""
        if not isinstance(value, Mapping) or not set(value) <= {"time", "tracks", "names", "filters"}:
            raise UserError("a selection is an object with time, tracks, names and filters")
        time, tracks, names, filters = (value.get(key) for key in ("time", "tracks", "names", "filters"))
        if isinstance(time, (list, tuple)):
            if len(time) != 2 or not all(
                end is None or (isinstance(end, int) and not isinstance(end, bool)) for end in time
            ):
                raise UserError("the time of a selection is [begin, end] in ns, or a text like 1s/2s")
            time = (time[0], time[1])
        elif time is not None and not isinstance(time, str):
            raise UserError("the time of a selection is [begin, end] in ns, or a text like 1s/2s")
        if names is not None and not isinstance(names, str):
            raise UserError("the names of a selection are a regular expression")
        tracks, filters = tracks or [], filters or []
        if not isinstance(tracks, (list, tuple)) or not all(isinstance(track, Mapping) for track in tracks):
            raise UserError("the tracks of a selection are a list of objects")
        if not isinstance(filters, (list, tuple)) or not all(isinstance(one, str) for one in filters):
            raise UserError("the filters of a selection are a list of texts like stream_id=7")
        return cls(
            time, tuple(tuple(track.items()) for track in tracks), names, tuple(map(Filter.parse, filters))
        )

    def __str__(self) -> str:
        """The compact text: what restricts nothing is empty; else e.g. `1.2s/3s` or the JSON object without
        spaces.
        """
        if self.empty:
            return ""
        if isinstance(self.time, str) and self == Selection(time=self.time):
            return self.time
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Selection:
        """The selection that a compact text (see `str`) stands for."""
        text = text.strip()
        if not text:
            return cls()
        if not text.startswith("{"):
            return cls(time=text)
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise UserError("the selection is not valid JSON") from error


def _relative_range(text: str) -> tuple[int | None, int | None]:
    begin, slash, end = text.partition("/")
    if not slash:
        raise UserError(f"'{text}' is not a time range; write begin/end, e.g. 1.2s/3s or /500ms")
    first = parse_time(begin) if begin.strip() else None
    last = parse_time(end) if end.strip() else None
    if first is not None and last is not None and last < first:
        raise UserError(f"the time range '{text}' ends before it begins")
    return first, last


def _check_regex(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError) as error:
        raise UserError(f"'{pattern}' is not a regular expression: {error}") from error


def _parse_scalar(text: str) -> Scalar:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (str, int, float, bool, type(None))) else text


def _scalar_text(value: Scalar) -> str:
    """The shortest text that `_parse_scalar` reads as the value."""
    if isinstance(value, str) and value == value.strip() and _parse_scalar(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
