"""How the Python twin writes what callers pass:

Messages, payloads, colours. Nothing here raises, whatever comes in.
"""

from __future__ import annotations

from struct import Struct

from topstx.recorder import layout
from topstx.recorder.twin_names import encoded

_HEAD = Struct("<BH")
_INT = Struct("<BHq")
_FLOAT = Struct("<BHd")
_INT64 = 1 << 63

# The named colours of CSS level 1, and those that nvtx knows by name.
_COLORS = {
    "aqua": 0x00FFFF,
    "black": 0x000000,
    "blue": 0x0000FF,
    "brown": 0xA52A2A,
    "cyan": 0x00FFFF,
    "darkgreen": 0x006400,
    "fuchsia": 0xFF00FF,
    "gray": 0x808080,
    "green": 0x008000,
    "grey": 0x808080,
    "lime": 0x00FF00,
    "magenta": 0xFF00FF,
    "maroon": 0x800000,
    "navy": 0x000080,
    "olive": 0x808000,
    "orange": 0xFFA500,
    "pink": 0xFFC0CB,
    "purple": 0x800080,
    "rapids": 0x7400FF,
    "red": 0xFF0000,
    "silver": 0xC0C0C0,
    "teal": 0x008080,
    "white": 0xFFFFFF,
    "yellow": 0xFFFF00,
}


def text(value: object) -> str:
    """`value` as a message."""
    if value is None:
        return ""
    try:
        return str(value)
    except Exception:  # the object's own __str__ failed; its type still says something
        return type(value).__name__


def color(value: object) -> int:
    """0xAARRGGBB, or 0 for none and for what is no colour."""
    if isinstance(value, int):
        number = int(value)
        if not 0 <= number <= 0xFFFFFFFF:
            return 0
        return number if number > 0xFFFFFF else number | 0xFF000000
    if not isinstance(value, str):
        return 0
    if not value.startswith("#"):
        known = _COLORS.get(value.lower())
        return 0 if known is None else known | 0xFF000000
    digits = value[1:]
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    if len(digits) == 6:
        digits = "ff" + digits
    try:
        return int(digits, 16) if len(digits) == 8 and digits.isalnum() else 0
    except ValueError:
        return 0


def payload(value: object) -> tuple[bytes, int]:
    """(`value` as MORE data, flags): the flag TRUNCATED when it was cut to PAYLOAD_MAX bytes."""
    if isinstance(value, float):
        return _FLOAT.pack(layout.MORE_FLOAT, 8, value), 0
    if isinstance(value, int):
        if -_INT64 <= value < _INT64:
            return _INT.pack(layout.MORE_INT, 8, value), 0
        return _text(layout.MORE_STR, _number(value))
    if isinstance(value, str):
        return _text(layout.MORE_STR, value)
    if isinstance(value, (bytes, bytearray)):
        return _cut(layout.MORE_BYTES, bytes(value))
    if isinstance(value, dict):
        try:
            import json

            return _text(layout.MORE_JSON, json.dumps(value, default=_repr, ensure_ascii=False))
        except Exception:  # keys that JSON has no form for, cycles
            return _text(layout.MORE_STR, _repr(value))
    return _text(layout.MORE_STR, _repr(value))


def tagged(tag: int, data: bytes) -> bytes:
    """One item of MORE data."""
    return _HEAD.pack(tag, len(data)) + data


def _text(tag: int, value: str) -> tuple[bytes, int]:
    data = encoded(value)
    if len(data) > layout.PAYLOAD_MAX:
        whole = data[: layout.PAYLOAD_MAX].decode("utf-8", "ignore").encode()
        return tagged(tag, whole), layout.FLAG_TRUNCATED
    return tagged(tag, data), 0


def _cut(tag: int, data: bytes) -> tuple[bytes, int]:
    if len(data) > layout.PAYLOAD_MAX:
        return tagged(tag, data[: layout.PAYLOAD_MAX]), layout.FLAG_TRUNCATED
    return tagged(tag, data), 0


def _number(value: int) -> str:
    try:
        return str(int(value))
    except ValueError:  # more digits than the interpreter converts
        return hex(value)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # the object's own __repr__ failed; its type still says something
        return f"<{type(value).__name__}>"
