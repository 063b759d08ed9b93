"""How the Python twin writes the messages and payloads that callers pass. Nothing here raises."""

from __future__ import annotations

from struct import Struct

from topstx.recorder import layout, values
from topstx.recorder.twin_names import encoded, fitting

_HEAD = Struct("<BH")
_INT = Struct("<BHq")
_FLOAT = Struct("<BHd")
_INT64 = 1 << 63
_ERROR_BYTES_MAX = 255


def text(value: object) -> str:
    """`value` as a message."""
    if value is None:
        return ""
    try:
        return str(value)
    except Exception:  # the object's own __str__ failed; its type still says something
        return f"<unprintable {type(value).__name__}>"


def integer(value: int) -> int:
    """A plain int of an int, whatever its class overrides."""
    return int.__index__(value)


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
            json = values.json_text(value)
        except Exception:  # user code in the values' __repr__
            json = None
        return _text(layout.MORE_JSON, json) if json is not None else (b"", 0)
    simple = values.plain(value)
    return payload(simple) if simple is not None else (b"", 0)


def error(type_: type[BaseException]) -> bytes:
    """The exception that left a range, as MORE data."""
    return tagged(layout.MORE_ERROR, fitting(type_.__name__, _ERROR_BYTES_MAX))


def tagged(tag: int, data: bytes) -> bytes:
    """One item of MORE data."""
    return _HEAD.pack(tag, len(data)) + data


def _text(tag: int, value: str) -> tuple[bytes, int]:
    data = encoded(value)
    if len(data) > layout.PAYLOAD_MAX:
        return tagged(tag, fitting(value, layout.PAYLOAD_MAX)), layout.FLAG_TRUNCATED
    return tagged(tag, data), 0


def _cut(tag: int, data: bytes) -> tuple[bytes, int]:
    if len(data) > layout.PAYLOAD_MAX:
        return tagged(tag, data[: layout.PAYLOAD_MAX]), layout.FLAG_TRUNCATED
    return tagged(tag, data), 0


def _number(value: int) -> str:
    try:
        return str(integer(value))
    except ValueError:  # more digits than the interpreter converts
        return hex(integer(value))


def is_decorated(value: object) -> bool:
    """Whether `annotate(value)` is `@annotate` without parentheses: a function, method, class, or what else
    has a qualified name of its own. Another callable object (a model, say) is a message.
    """
    if isinstance(value, classmethod):
        return True
    try:
        return callable(value) and isinstance(getattr(value, "__qualname__", None), str)
    except Exception:  # code of the program: a message, then
        return False
