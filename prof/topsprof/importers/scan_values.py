"""Values as the Python twin of the scanner handles them: numbers keep their text, objects their order and
duplicates.
"""

from __future__ import annotations

import re
from json import JSONEncoder
from typing import Any

_NUMBER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?)(\d+))?", re.ASCII)
_HEX = re.compile(r"(?:0[xX](?=.))?([0-9a-fA-F]{1,16})", re.ASCII)
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][c-fC-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_PART = re.compile(r"[-+.\d]*", re.ASCII)
_INT64 = 1 << 63
_MAX_EXPONENT = 100_000
_MAX_DEPTH = 200


class Raw(str):
    """A number, as its text."""

    __slots__ = ()


class Pairs(list[Any]):
    """An object, as its (key, value) pairs."""

    __slots__ = ()


_quote = JSONEncoder(ensure_ascii=False).encode


def compact(value: Any) -> str:
    """A value as JSON text without blanks."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{_quote(key)}:{compact(inner)}" for key, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    return {None: "null", True: "true", False: "false"}[value]


def no_bytes(text: str) -> str:
    """JSON text with each lone escape of a low surrogate spelled \\udc00, at the same length.

    Decoded, those from \\udc80 on would pass for bytes that were no UTF-8 (see `cleaned`).
    """
    return _ESCAPE.sub(lambda found: r"\udc00" if found[1] else found[0], text)


def cleaned(text: str) -> str:
    """The text with U+FFFD in place of lone surrogates and of bytes that were no UTF-8 (decoded by
    surrogateescape).
    """
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        data = b"".join(
            bytes((ord(c) - 0xDC00,))
            if "\udc80" <= c <= "\udcff"
            else b"\xef\xbf\xbd"
            if "\ud800" <= c <= "\udfff"
            else c.encode()
            for c in text
        )
        return data.decode("utf-8", "replace")


def all_cleaned(value: Any) -> tuple[Any, int]:
    """(the value with all text valid, how many of its strings were not)."""
    if isinstance(value, Raw) or value is None or isinstance(value, bool):
        return value, 0
    if isinstance(value, str):
        good = cleaned(value)
        return good, int(good != value)
    count = 0
    items: list[Any] = []
    for item in value:
        if isinstance(value, Pairs):
            key, bad_key = all_cleaned(item[0])
            inner, bad = all_cleaned(item[1])
            items.append((key, inner))
            count += bad_key + bad
        else:
            inner, bad = all_cleaned(item)
            items.append(inner)
            count += bad
    return (Pairs(items) if isinstance(value, Pairs) else items), count


def too_deep(value: Any) -> bool:
    """Whether arrays and objects are nested too deep."""
    level = [value]
    for _ in range(_MAX_DEPTH + 2):
        level = [
            item[1] if isinstance(outer, Pairs) else item
            for outer in level
            if isinstance(outer, list)
            for item in outer
        ]
        if not any(isinstance(item, list) for item in level):
            return False
    return True


def scaled(text: str, shift: int) -> tuple[int, bool] | None:
    """(text as a number times 10^shift, rounded half up in magnitude; whether that is exact).

    None when it is no number or doesn't fit int64.
    """
    found = _NUMBER.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        return None
    digits = found[2] + (found[3] or "")
    exponent = shift - len(found[3] or "")
    if found[5]:
        power = min(int(found[5][:7]), _MAX_EXPONENT)
        exponent += -power if found[4] == "-" else power
    digits = digits.lstrip("0")
    exact = True
    if len(digits) > 36:  # what int64 can't hold anyway, or far below a nanosecond
        exact = not digits[36:].strip("0")
        exponent += len(digits) - 36
        digits = digits[:36]
    number = int(digits or "0")
    if exponent > 0 and number:
        if exponent > 40:
            return None
        number *= 10**exponent
    elif exponent < 0 and number:
        if exponent < -39:
            number, exact = 0, False
        else:
            number, rest = divmod(number, by := 10**-exponent)
            exact = exact and not rest
            number += 2 * rest >= by
    minus = found[1] == "-"
    if number >= _INT64 + minus:
        return None
    return (-number if minus else number), exact


def integer(text: str) -> int | None:
    """A whole number as int64; those of 64 unsigned bits keep their bits. None when it is none."""
    if not text or len(text.encode()) >= 64:
        return None
    found = scaled(text, 0)
    if found is None:
        return _unsigned(text)
    return found[0] if found[1] else None


def _unsigned(text: str) -> int | None:
    try:
        number = int(text) if text.isascii() and text.lstrip("+").isdigit() else None
    except ValueError:
        return None
    return number - 2 * _INT64 if number is not None and _INT64 <= number < 2 * _INT64 else None


def hexadecimal(text: str) -> int | None:
    """1f or 0x1f -> 31, as int64 bits. None when it is none."""
    found = _HEX.fullmatch(text)
    if found is None:
        return None
    number = int(found[1], 16)
    return number - 2 * _INT64 if number >= _INT64 else number


def triple(text: str) -> tuple[int, int, int] | None:
    """Three numbers out of [x,y,z], "x,y,z" or xXyXz, filled up with 1. None when it is nothing like that."""
    text = text.strip(" ")
    text = text[1:].lstrip(" ") if text[:1] in ("[", "(", "{") and text else text
    numbers: list[int] = []
    while True:
        part = _PART.match(text)
        number = integer(part[0]) if part else None
        if number is None or part is None:
            return None
        numbers.append(number)
        text = text[part.end() :].lstrip(" ")
        if len(numbers) == 3 or not text or text[0] not in ",xX":
            break
        text = text[1:].lstrip(" ")
    if text not in ("", "]", ")", "}"):
        return None
    numbers += [1] * (3 - len(numbers))
    return numbers[0], numbers[1], numbers[2]
