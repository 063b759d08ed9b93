"""The scanner of trace JSON in Python: the same machine as _scan.c with the same results, some ten times
slower.

It holds a piece of the file as text and one event at a time as Python values.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

import numpy as np

from topsprof.importers.scan_columns import (
    ABSENT,
    EVENT,
    GIVEN,
    GLOBAL,
    LOCAL,
    NONE,
    NUMBER,
    REST,
    SERIES,
    STRING,
    WRONG,
)
from topsprof.importers.scan_intervals import Stacks, nest
from topsprof.importers.scan_values import (
    Pairs,
    Raw,
    all_cleaned,
    compact,
    hexadecimal,
    integer,
    no_bytes,
    scaled,
    too_deep,
    triple,
)

__all__ = ["Scanner", "Stacks", "nest"]  # what _scan has

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_NEXT: Final = re.compile(r"\}[ \t\n\r]*,[ \t\n\r]*(?=\{)")
_ODD: Final = re.compile(r"[+-]?(?:Infinity|infinity|NaN|nan|NAN|Inf|inf|INF)")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PLAIN_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_NEAR: Final = 12  # an error this near to the end of the text may only be a lack of text
_WHOLE_ARGS: Final = frozenset("MPONDvV")


class _MoreError(Exception):
    """The text ends within the value."""


class _BadError(Exception):
    """No JSON, not even with repairs."""


class Scanner:
    """See _scan.c; methods and results are the same."""

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        self._kinds = dict(keys)
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._text = ""
        self._wanted = 0
        self._offset = 0  # bytes before _text
        self._state = "start"
        self._array = self._final = self._comma = self._any_events = False
        self._ids: dict[bytes, int] = {}
        self._strings: list[bytes] = []
        self._metadata: list[tuple[bytes, bytes]] = []
        self._issues: dict[str, tuple[int, int]] = {}
        self._pending: list[tuple[str, int]] = []
        self._clear()

    def _clear(self) -> None:
        self._dense: dict[str, list[int]] = {name: [] for name in EVENT}
        self._sparse: dict[str, tuple[list[int], list[Any]]] = {key: ([], []) for key in self._kinds}
        self._rest: list[bytes] = []
        self._rest_rows: list[int] = []
        self._series: tuple[list[int], list[int], list[float]] = ([], [], [])
        self.rows = 0

    # ---- the interface ----

    def feed(self, data: bytes, /) -> int:
        """Scan one more piece of the file; returns the rows that wait."""
        self._text += self._decode(bytes(data))
        if len(self._text) >= self._wanted:
            self._run()
        return self.rows

    def finish(self) -> int:
        """The file has ended; returns the rows that wait."""
        self._text += self._decode(b"", True)
        self._final = True
        self._run()
        if self._state in ("events", "lost"):
            self._issue("missing_bracket", 0)
        elif self._state == "top" and "truncated_metadata" not in self._issues:
            self._issue("truncated_metadata", 0)
        if not self._any_events and "no_events" not in self._issues:
            self._issue("no_events", len(self._text))
        return self.rows

    def take(self) -> dict[str, Any]:
        """The waiting rows as a dict of column buffers; empties them."""
        out: dict[str, Any] = {
            name: np.array(values, EVENT[name]).tobytes() for name, values in self._dense.items()
        }
        out["keys"] = {
            key: (
                np.array(rows, np.uint32).tobytes(),
                np.array(values, np.float64 if self._kinds[key] == "f" else np.int64).tobytes(),
            )
            for key, (rows, values) in self._sparse.items()
            if rows
        }
        out["rest_rows"] = np.array(self._rest_rows, REST["rest_rows"]).tobytes()
        out["rest_ends"] = np.cumsum([len(text) for text in self._rest], dtype=REST["rest_ends"]).tobytes()
        out["rest"] = b"".join(self._rest)
        for (name, dtype), values in zip(SERIES.items(), self._series, strict=True):
            out[name] = np.array(values, dtype).tobytes()
        self._clear()
        return out

    def strings(self, first: int, /) -> tuple[int, bytes, bytes]:
        """(start, int64 end offsets, text) of the strings from an id on."""
        if not 0 <= first <= len(self._strings):
            raise IndexError("no such string")
        start = sum(map(len, self._strings[:first]))
        ends = start + np.cumsum([len(text) for text in self._strings[first:]], dtype=np.int64)
        return start, ends.tobytes(), b"".join(self._strings[first:])

    def metadata(self) -> list[tuple[bytes, bytes]]:
        """[(key, JSON text)] beside the events, so far."""
        return list(self._metadata)

    def issues(self) -> list[tuple[str, int, int]]:
        """[(code, count, first position)] so far."""
        return [(code, count, position) for code, (count, position) in self._issues.items()]

    # ---- issues ----

    def _position(self, at: int) -> int:
        return self._offset + len(self._text[:at].encode("utf-8", "surrogateescape"))

    def _issue(self, code: str, at: int) -> None:
        count, position = self._issues.get(code, (0, -1))
        self._issues[code] = (count + 1, position if count else self._position(at))

    def _maybe(self, code: str, at: int) -> None:
        """An issue of the value being read: counted once all of that is right."""
        self._pending.append((code, at))

    def _keep_issues(self) -> None:
        for code, at in self._pending:
            self._issue(code, at)
        self._pending.clear()

    # ---- text to values ----

    def _value(self, at: int) -> tuple[Any, int]:
        """(value, position after it) of the JSON value at `at`, repaired where that is possible."""
        text = self._text
        self._pending.clear()
        strict = True
        shift = 0  # what repairs have made the text longer by
        while True:
            nans = 0

            def constant(name: str) -> None:
                nonlocal nans
                nans += 1

            decoder = JSONDecoder(
                strict=strict,
                parse_int=Raw,
                parse_float=Raw,
                parse_constant=constant,
                object_pairs_hook=Pairs,
            )
            try:
                value, end = decoder.raw_decode(text, at)
            except RecursionError:
                raise _BadError from None
            except (JSONDecodeError, StopIteration) as error:
                found = getattr(error, "pos", len(text))
                message = getattr(error, "msg", "")
                if message.startswith("Invalid control character"):
                    strict = False
                    continue
                fixed = _repaired(text, found, self._maybe)
                if fixed is not None:
                    shift += len(fixed) - len(text)
                    text = fixed
                    continue
                if not self._final and (
                    message.startswith("Unterminated string") or found >= len(text) - _NEAR
                ):
                    raise _MoreError from None
                if message.startswith("Invalid \\") and text.find('"', found) < 0:
                    raise _MoreError from None  # an escape is cut off, and the string with it
                if self._final and (message.startswith("Unterminated string") or found >= len(text)):
                    raise _MoreError from None
                raise _BadError from None
            if isinstance(value, Raw) and not self._final and not text[end : end + _NEAR].strip(".eE+-"):
                raise _MoreError
            slice_ = text[at:end]
            if "\\u" in slice_ and (same := no_bytes(slice_)) != slice_:
                text = text[:at] + same + text[end:]
                continue
            for _ in range(nans):
                self._maybe("not_a_number", at)
            if not strict:
                for token in _STRING.findall(slice_):
                    if _CONTROL.search(token):
                        self._maybe("control_character", at)
            if "\\u" in slice_ or _SURROGATE.search(slice_):
                value, bad = all_cleaned(value)
                for _ in range(bad):
                    self._maybe("bad_text", at)
            if too_deep(value):
                raise _BadError
            return value, end - shift

    # ---- the whole file ----

    def _run(self) -> None:
        at = self._steps()
        self._offset += len(self._text[:at].encode("utf-8", "surrogateescape"))
        self._text = self._text[at:]
        self._wanted = 2 * len(self._text) if len(self._text) > 65536 else 0

    def _steps(self) -> int:
        """Run as far as the text goes; returns the unconsumed position."""
        at = 0
        states: dict[str, Callable[[int, str], tuple[int, bool]]] = {
            "start": self._start,
            "top": self._top,
            "top_lost": self._top_lost,
            "events": self._events,
            "lost": self._lost,
            "done": self._done,
        }
        while True:
            at = _skip(self._text, at)
            if at >= len(self._text):
                return at
            at, go = states[self._state](at, self._text[at])
            if not go:
                return at

    def _start(self, at: int, c: str) -> tuple[int, bool]:
        if c == "{":
            self._state = "top"
        elif c == "[":
            self._state = "events"
            self._array = self._comma = self._any_events = True
        else:
            self._issue("no_events", at)
            self._state = "done"
        return at + 1, True

    def _top(self, at: int, c: str) -> tuple[int, bool]:
        if c == ",":
            return at + 1, True
        if c == "}":
            self._state = "done"
            return at + 1, True
        try:
            if c != '"':
                raise _BadError
            key, after = self._value(at)
            pending = self._pending.copy()
            after = _skip(self._text, after)
            if after >= len(self._text):
                raise _MoreError
            if self._text[after] != ":":
                raise _BadError
            after = _skip(self._text, after + 1)
            if after >= len(self._text):
                raise _MoreError
            if key == "traceEvents" and self._text[after] == "[":
                self._state = "events"
                self._any_events = self._comma = True
                return after + 1, True
            value, after = self._value(after)
            self._pending[:0] = pending
        except _MoreError:
            if self._final:
                self._issue("truncated_metadata", at)
                return len(self._text), False
            return at, False
        except _BadError:
            self._issue("malformed_metadata", at)
            self._state = "top_lost"
            return at + 1, True
        self._keep_issues()
        self._metadata.append((key.encode(), compact(value).encode()))
        return after, True

    def _top_lost(self, at: int, c: str) -> tuple[int, bool]:
        del c
        found = self._text.find('"traceEvents"', at)
        if found < 0:
            return (len(self._text) if self._final else max(at, len(self._text) - 12)), False
        self._state = "top"
        return found, True

    def _events(self, at: int, c: str) -> tuple[int, bool]:
        if c == ",":
            if self._comma:
                self._issue("extra_comma", at)
            self._comma = True
            return at + 1, True
        if c == "]":
            if self._comma and self.rows:
                self._issue("extra_comma", at)
            self._state = "done" if self._array else "top"
            return at + 1, True
        if c == "}" and not self._array:
            self._issue("missing_bracket", at)
            self._state = "done"
            return at + 1, True
        try:
            value, after = self._value(at)
        except _MoreError:
            if not self._final:
                return at, False
            self._issue("truncated_event", at)
            return len(self._text), False
        except _BadError:
            self._issue("malformed_event", at)
            self._state = "lost"
            return at + 1, True
        if isinstance(value, Pairs):
            self._keep_issues()
            if value:
                self._event(value)
            else:
                self._issue("empty_event", after - 1)
        else:
            self._issue("not_an_object", at)
        if not self._comma:
            self._issue("missing_comma", at)
        self._comma = False
        return after, True

    def _lost(self, at: int, c: str) -> tuple[int, bool]:
        del c
        found = _NEXT.search(self._text, at)
        if found is None:
            brace = self._text.rfind("}", at)
            rest = self._text[brace + 1 :].strip(" \t\n\r,") if brace >= 0 else "x"
            return (brace if not rest and not self._final else len(self._text)), False
        self._state = "events"
        self._comma = True
        return found.end(), True

    def _done(self, at: int, c: str) -> tuple[int, bool]:
        del c
        if "trailing_data" not in self._issues and "no_events" not in self._issues:
            self._issue("trailing_data", at)
        return len(self._text), False

    # ---- events ----

    def _intern(self, text: str) -> int:
        data = text.encode()
        known = self._ids.get(data)
        if known is None:
            known = self._ids[data] = len(self._strings)
            self._strings.append(data)
        return known

    def _event(self, event: Pairs) -> None:
        row: dict[str, int] = dict.fromkeys(EVENT, 0)
        row["name"] = row["cat"] = row["scope"] = -1
        args: Pairs | None = None
        more: list[tuple[str, Any]] = []
        for key, value in event:
            if key in ("ph", "s", "bp"):
                if isinstance(value, str) and not isinstance(value, Raw) and value:
                    row[key] = value.encode()[0]
            elif key in ("ts", "dur"):
                self._time(row, key, value)
            elif key in ("pid", "tid"):
                self._who(row, key, value)
            elif key in ("name", "cat", "scope"):
                if value is not None:
                    row[key] = self._intern(value if isinstance(value, str) else compact(value))
            elif key == "id":
                kind, number = self._id(value)
                if row["id_kind"] <= STRING:
                    row["id_kind"], row["id"] = kind, number
            elif key == "id2":
                for where, inner in value if isinstance(value, Pairs) else ():
                    kind, number = self._id(inner)
                    if kind and where in ("local", "global"):
                        row["id_kind"], row["id"] = kind + (LOCAL if where == "local" else GLOBAL), number
            elif key == "args" and isinstance(value, Pairs):
                args = value
            elif not (key == "args" and value is None):
                more.append((key, value))
        rest = self._args(args or Pairs(), chr(row["ph"])) + more
        if rest:
            self._rest.append(compact(Pairs(rest)).encode())
            self._rest_rows.append(self.rows)
        for name, column in self._dense.items():
            column.append(row[name])
        self.rows += 1
        self._any_events = True

    def _args(self, args: Pairs, phase: str) -> list[tuple[str, Any]]:
        """Wanted keys into their columns; returns the others."""
        if phase in _WHOLE_ARGS and phase != "\0":
            return list(args)
        rest: list[tuple[str, Any]] = []
        taken: dict[str, Any] = {}
        for key, value in args:
            if phase == "C":
                if isinstance(value, str) and len(value) < 64 and _PLAIN_NUMBER.fullmatch(value):
                    for column, one in zip(
                        self._series, (self.rows, self._intern(key), float(value)), strict=True
                    ):
                        column.append(one)  # type: ignore[attr-defined]
                else:
                    rest.append((key, value))
                continue
            kind = self._kinds.get(key)
            if kind is None or not self._take(taken, key, kind, value):
                rest.append((key, value))
        for key, value in taken.items():
            rows, values = self._sparse[key]
            rows.append(self.rows)
            values.append(value)
        return rest

    def _take(self, taken: dict[str, Any], key: str, kind: str, value: Any) -> bool:
        """Put a value into the column of a wanted key; False when it doesn't fit there."""
        text = value if isinstance(value, str) else compact(value)
        string = isinstance(value, str) and not isinstance(value, Raw)
        if kind in "iu":
            number = integer(text)
            if number is None and string and text[:2] in ("0x", "0X"):
                number = hexadecimal(text)
            if number is None or (
                kind == "i" and number < 0 and text[0] != "-"
            ):  # only u may need all 64 bits
                return False
            taken[key] = number
        elif kind == "f":
            if len(text) >= 64 or not _PLAIN_NUMBER.fullmatch(text):
                return False
            taken[key] = float(text)
        elif kind == "x":
            numbers = triple(text)
            if numbers is None:
                return False
            taken[key] = numbers
        elif value is None:
            return False
        elif string and not text:
            taken.pop(key, None)
        else:
            taken[key] = self._intern(text)
        return True

    def _time(self, row: dict[str, int], key: str, value: Any) -> None:
        if value is None:
            row[f"{key}_state"] = ABSENT
            return
        text = value if isinstance(value, str) else None
        if text is not None and not isinstance(text, Raw):
            text = text.strip(" ")
        number = scaled(text, 3) if text is not None else None
        if number is not None:
            row[key] = number[0]
        row[f"{key}_state"] = WRONG if number is None else GIVEN

    def _who(self, row: dict[str, int], key: str, value: Any) -> None:
        if not isinstance(value, str) or not value:
            row[f"{key}_kind"] = NONE
            return
        number = integer(value)
        row[f"{key}_kind"] = STRING if number is None else NUMBER
        row[key] = self._intern(value) if number is None else number

    def _id(self, value: Any) -> tuple[int, int]:
        if not isinstance(value, str):
            return NONE, 0
        number = integer(value) if isinstance(value, Raw) else hexadecimal(value)
        return (NUMBER, number) if number is not None else (STRING, self._intern(value))


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _repaired(text: str, at: int, issue: Callable[[str, int], None]) -> str | None:
    """The text without what the decoder stumbled over at `at`: a comma too many, or a number it doesn't
    know.
    """
    odd = _ODD.match(text, at)
    if odd:
        return f"{text[:at]}NaN{text[odd.end() :]}"
    before = at
    while before and text[before - 1] in " \t\n\r":
        before -= 1
    comma = at if text[at : at + 1] == "," else before - 1
    if comma < 0 or text[comma] != ",":
        return None
    after = _skip(text, comma + 1)
    if text[after : after + 1] not in ("}", "]") or text[:comma].rstrip(" \t\n\r")[-1:] in ("{", "[", ","):
        return None
    issue("extra_comma", comma)
    return text[:comma] + " " + text[comma + 1 :]
