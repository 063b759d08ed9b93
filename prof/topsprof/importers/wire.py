"""The protobuf wire format as columns: the fields of a million messages at once, without an object per field.

`_wire` (C) does the scanning; the numpy twin in this file steps through all messages together, one field of
each at a time. Both give the same columns. What a field means is the caller's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tops_kit.extension import load as load_extension

Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_KNOWN_WIRES = (VARINT, FIXED64, LENGTH, FIXED32)


_INTERFACE = 1  # of _wire.c, which says when to raise it


def _extension() -> ModuleType | None:
    return load_extension("topsprof.importers._wire", _INTERFACE)[0]


def problem() -> str:
    """Why _wire is not used; "" when it is."""
    return load_extension("topsprof.importers._wire", _INTERFACE)[1]


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of many messages, ordered by message and place. `value` is of varint and fixed fields, `start`
    and `end` of wire type 2 ones (positions in the buffer). `damaged` messages ended early; their fields up
    to there are here."""

    row: Int64s
    field: npt.NDArray[np.uint32]
    wire: Bytes
    value: Uint64s
    start: Int64s
    end: Int64s
    damaged: int = 0

    def where(self, number: int, *wires: int) -> Fields:
        """Those of one number (and of those wire types, when given)."""
        keep = np.flatnonzero(self.field == number)
        if wires and len(keep):
            keep = keep[np.isin(self.wire[keep], np.array(wires, np.uint8))]
        return self.take(keep)

    def take(self, index: npt.NDArray[Any]) -> Fields:
        return Fields(
            self.row[index],
            self.field[index],
            self.wire[index],
            self.value[index],
            self.start[index],
            self.end[index],
        )

    def scalar(self, rows: int, number: int, default: int = 0) -> tuple[Uint64s, npt.NDArray[np.bool_]]:
        """(value, present) of a field that occurs once per message, for messages 0..rows-1; the last one
        wins."""
        found = np.flatnonzero(self.field == number)
        out = np.full(rows, default, np.uint64)
        has = np.zeros(rows, bool)
        if len(found):
            found = found[self.wire[found] != LENGTH]
            row = self.row[found]
            out[row] = self.value[found]
            has[row] = True
        return out, has

    def span(self, rows: int, number: int) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
        """(start, end, present) of a wire type 2 field that occurs once per message; the last one wins."""
        found = np.flatnonzero(self.field == number)
        start, end = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        has = np.zeros(rows, bool)
        if len(found):
            found = found[self.wire[found] == LENGTH]
            row = self.row[found]
            start[row] = self.start[found]
            end[row] = self.end[found]
            has[row] = True
        return start, end, has


def fields(buffer: Bytes, starts: Int64s, ends: Int64s) -> Fields:
    """The fields of the messages `buffer[starts[i]:ends[i]]`."""
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    extension = _extension()
    if extension is None:
        return _fields(buffer, starts, ends)
    row, field, wire, value, start, end, damaged = extension.fields(buffer, starts, ends)
    return Fields(
        np.frombuffer(row, np.int64),
        np.frombuffer(field, np.uint32),
        np.frombuffer(wire, np.uint8),
        np.frombuffer(value, np.uint64),
        np.frombuffer(start, np.int64),
        np.frombuffer(end, np.int64),
        damaged,
    )


def split(buffer: Bytes, start: int, end: int, number: int) -> tuple[Int64s, Int64s, int]:
    """The wire type 2 fields of that number in one long message, which may go on after `end`.

    Returns their starts, ends, and where the first incomplete field begins; -1 - position where no field can
    begin.
    """
    extension = _extension()
    if extension is None:
        return _split(buffer, start, end, number)
    starts, ends, after = extension.split(buffer, start, end, number)
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64), after


def varints(buffer: Bytes, starts: Int64s, ends: Int64s) -> tuple[Int64s, Uint64s]:
    """(span, value) of the varints that are packed in spans, e.g. of repeated scalar fields."""
    index, owner = _positions(starts, ends)
    raw = buffer[index]
    last = raw < 128
    first = np.empty(len(raw), bool)
    first[:1] = True
    first[1:] = last[:-1] | (owner[1:] != owner[:-1])
    begin = np.flatnonzero(first)
    place = np.arange(len(raw)) - begin[np.cumsum(first) - 1]
    shift = np.minimum(place, 9).astype(np.uint64) * np.uint64(7)
    parts = (raw & 127).astype(np.uint64) << shift
    values = np.add.reduceat(parts, begin) if len(begin) else np.empty(0, np.uint64)
    return owner[begin], values


def fixed64(buffer: Bytes, starts: Int64s, ends: Int64s) -> tuple[Int64s, Uint64s]:
    """(span, value) of the fixed64 values that are packed in spans."""
    index, owner = _positions(starts, starts + (ends - starts) // 8 * 8)
    return owner[::8], buffer[index].view("<u8").astype(np.uint64)


def repeated(buffer: Bytes, found: Fields, packed_fixed: bool = False) -> tuple[Int64s, Uint64s]:
    """(row, value) of a repeated scalar field, packed or not, in order."""
    spans = found.wire == LENGTH
    if not spans.any():
        return found.row, found.value
    unpack = fixed64 if packed_fixed else varints
    owner, value = unpack(buffer, found.start[spans], found.end[spans])
    place = np.concatenate((np.flatnonzero(~spans), np.flatnonzero(spans)[owner]))
    order = np.argsort(place, kind="stable")
    return found.row[place[order]], np.concatenate((found.value[~spans], value))[order]


def texts(buffer: Bytes, starts: Int64s, ends: Int64s) -> tuple[pa.Array, int]:
    """The spans as a string array, and how many were no UTF-8 (their bad bytes are replaced)."""
    lengths = np.maximum(ends - starts, 0)
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    index, _ = _positions(starts, starts + lengths)
    data = buffer[index]
    array = pa.Array.from_buffers(
        pa.large_string(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        # Rare: only then is every text looked at one by one.
        raw = data.tobytes()
        repaired = [
            raw[a:b].decode("utf-8", "replace")
            for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]
        bad = sum("\ufffd" in text for text in repaired)
        return pa.array(repaired, pa.large_string()), bad
    return array, 0


def _positions(starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Every position of every span, and the span that it belongs to."""
    lengths = np.maximum(ends - starts, 0)
    owner = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(owner)) + np.repeat(starts - before, lengths), owner


def _varint(data: Bytes, at: Int64s, end: Int64s) -> tuple[Uint64s, Int64s, npt.NDArray[np.bool_]]:
    """(value, position after it, ok) of a varint at each position."""
    value = np.zeros(len(at), np.uint64)
    after = at.copy()
    ok = np.zeros(len(at), bool)
    active = np.arange(len(at))
    for shift in range(0, 70, 7):
        active = active[after[active] < end[active]]
        if not len(active):
            break
        byte = data[after[active]]
        if shift < 64:
            value[active] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        after[active] += 1
        done = byte < 128
        ok[active[done]] = True
        active = active[~done]
    return value, after, ok


def _fields(buffer: Bytes, starts: Int64s, ends: Int64s) -> Fields:
    """The twin of the extension's `fields`."""
    size = len(buffer)
    sane = (starts >= 0) & (ends <= size) & (starts <= ends)
    damaged = int((~sane).sum())
    row = np.flatnonzero(sane & (starts < ends))
    at, end = starts[row], ends[row]
    found: list[tuple[npt.NDArray[Any], ...]] = []
    while len(row):
        tag, after, ok = _varint(buffer, at, end)
        wire = (tag & np.uint64(7)).astype(np.uint8)
        number = tag >> np.uint64(3)
        ok &= (number > 0) & (tag < 1 << 32) & np.isin(wire, np.array(_KNOWN_WIRES, np.uint8))
        value = np.zeros(len(row), np.uint64)
        start, stop = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
        for kind, width in ((FIXED64, 8), (FIXED32, 4)):
            here = np.flatnonzero(ok & (wire == kind))
            here_ok = end[here] - after[here] >= width
            ok[here[~here_ok]] = False
            here = here[here_ok]
            index = after[here][:, None] + np.arange(width)
            value[here] = buffer[index].view(f"<u{width}").reshape(-1)
            after[here] += width
        here = np.flatnonzero(ok & ((wire == VARINT) | (wire == LENGTH)))
        number_value, next_at, fine = _varint(buffer, after[here], end[here])
        ok[here[~fine]] = False
        after[here] = next_at
        value[here] = number_value
        long = np.flatnonzero(ok & (wire == LENGTH))
        room = (end[long] - after[long]).astype(np.uint64)
        ok[long[value[long] > room]] = False
        long = long[value[long] <= room]
        start[long] = after[long]
        after[long] += value[long].astype(np.int64)
        stop[long] = after[long]
        value[wire == LENGTH] = 0
        damaged += int((~ok).sum())
        keep = np.flatnonzero(ok)
        found.append(
            (row[keep], number[keep].astype(np.uint32), wire[keep], value[keep], start[keep], stop[keep])
        )
        keep = keep[after[keep] < end[keep]]
        row, at, end = row[keep], after[keep], end[keep]
    if not found:
        empty = np.empty(0, np.int64)
        return Fields(
            empty,
            empty.astype(np.uint32),
            empty.astype(np.uint8),
            empty.astype(np.uint64),
            empty,
            empty,
            damaged,
        )
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    row_, field_, wire_, value_, start_, end_ = (column[order] for column in columns)
    return Fields(row_, field_, wire_, value_, start_, end_, damaged)


def _split(buffer: Bytes, start: int, end: int, number: int) -> tuple[Int64s, Int64s, int]:
    """The twin of the extension's `split`. Where one part begins is known only after the one before: so it
    steps."""
    data = buffer[start:end].tobytes()
    starts: list[int] = []
    ends: list[int] = []
    at, size = 0, len(data)

    def varint(i: int) -> tuple[int, int]:
        value = shift = 0
        while i < size and shift < 70:
            byte = data[i]
            i += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, i
            shift += 7
        return -1, i

    while at < size:
        tag, i = varint(at)
        wire = tag & 7
        if tag < 0:
            return _pair(starts, ends, start, start + at if size - at < 10 else -1 - (start + at))
        if tag >> 3 == 0 or tag >> 32 or wire not in _KNOWN_WIRES:
            return _pair(starts, ends, start, -1 - (start + at))
        if wire == VARINT:
            value, i = varint(i)
            length = 0
        elif wire == LENGTH:
            value, i = varint(i)
            length = value
        else:
            value, length = 0, 8 if wire == FIXED64 else 4
        if value < 0 or length > size - i:
            return _pair(starts, ends, start, start + at)
        if wire == LENGTH and tag >> 3 == number:
            starts.append(i)
            ends.append(i + length)
        at = i + length
    return _pair(starts, ends, start, end)


def _pair(starts: list[int], ends: list[int], offset: int, after: int) -> tuple[Int64s, Int64s, int]:
    return np.array(starts, np.int64) + offset, np.array(ends, np.int64) + offset, after
