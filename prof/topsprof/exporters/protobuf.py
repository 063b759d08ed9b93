"""The few messages of a Perfetto trace that are written one by one: descriptors, interned strings, the
clock."""

from __future__ import annotations

import struct

Value = int | float | str | bytes | bool


def varint(value: int) -> bytes:
    """A number (negative ones as 64 bits)."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, wire: int) -> bytes:
    """What stands before a field's value. Wire: 0 varint, 1 fixed64, 2 bytes."""
    return varint(field << 3 | wire)


def encode(field: int, value: Value) -> bytes:
    """One field."""
    if isinstance(value, float):
        return tag(field, 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return tag(field, 0) + varint(value)
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return tag(field, 2) + varint(len(data)) + data


def message(*fields: tuple[int, Value | None]) -> bytes:
    """A message of those fields; None leaves one out."""
    return b"".join(encode(field, value) for field, value in fields if value is not None)
