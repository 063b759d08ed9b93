"""Rows of bytes from columns: what every exporter of records or lines is made with.

A row is the concatenation of pieces; each piece is a column and how to write its values. `_assemble` (C)
writes them; the numpy twin in this file scatters piece by piece. Both give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tops_kit.extension import load as load_extension

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

CONSTANT, VARINT, FIXED, BYTES, SIZED, WRAPPED_VARINT, WRAPPED_FIXED, WRAPPED_SIZED, INTEGER, MICROS = range(
    10
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One column of the rows. See the kinds in `_assemble.c`; `present` says in which rows it is written
    (None: all)."""

    kind: int
    prefix: bytes = b""
    inner: bytes = b""
    values: Int64s | None = None
    data: Bytes | None = None
    starts: Int64s | None = None
    ends: Int64s | None = None
    present: Mask | None = None

    def only(self, present: Mask | None) -> Piece:
        """The same piece in fewer rows."""
        if present is None:
            return self
        return replace(self, present=present if self.present is None else self.present & present)

    def take(self, index: npt.NDArray[Any]) -> Piece:
        """The piece for other rows."""

        def pick(array: Any) -> Any:
            return None if array is None else array[index]

        return replace(
            self,
            values=pick(self.values),
            starts=pick(self.starts),
            ends=pick(self.ends),
            present=pick(self.present),
        )

    @property
    def wrapped(self) -> bool:
        return self.kind in (WRAPPED_VARINT, WRAPPED_FIXED, WRAPPED_SIZED)


@dataclass(frozen=True, slots=True)
class Rows:
    """Assembled rows: row i is `data[starts[i]:ends[i]]`."""

    data: Bytes
    starts: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    def piece(
        self,
        kind: int = BYTES,
        prefix: bytes = b"",
        inner: bytes = b"",
        index: npt.NDArray[Any] | None = None,
    ) -> Piece:
        """The rows (or those of `index`) as a piece of other rows."""
        starts, ends = (self.starts, self.ends) if index is None else (self.starts[index], self.ends[index])
        return Piece(kind, prefix, inner, None, self.data, starts, ends)

    @staticmethod
    def concat(parts: list[Rows]) -> Rows:
        """All rows of the parts, in order."""
        parts = [part for part in parts if len(part)]
        if not parts:
            none = np.empty(0, np.int64)
            return Rows(np.empty(0, np.uint8), none, none)
        bases = np.cumsum([0] + [len(part.data) for part in parts[:-1]])
        return Rows(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.starts + base for part, base in zip(parts, bases, strict=True)]),
            np.concatenate([part.ends + base for part, base in zip(parts, bases, strict=True)]),
        )

    @staticmethod
    def scattered(count: int, parts: list[tuple[Int64s, Rows]]) -> Rows:
        """`count` rows, those of each part at its places."""
        joined = Rows.concat([rows for _, rows in parts])
        places = np.concatenate([np.empty(0, np.int64), *(where for where, _ in parts)])
        starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
        starts[places], ends[places] = joined.starts, joined.ends
        return Rows(joined.data, starts, ends)


def constant(text: bytes, present: Mask | None = None) -> Piece:
    """The same bytes in every row."""
    return Piece(CONSTANT, text, present=present)


def number(
    kind: int, values: Any, prefix: bytes = b"", inner: bytes = b"", present: Mask | None = None
) -> Piece:
    """A column of integers (or of the bits of doubles), written as the kind says."""
    array = np.ascontiguousarray(values)
    if array.dtype.kind == "f" and kind in (FIXED, WRAPPED_FIXED):
        array = array.astype(np.float64).view(np.int64)
    return Piece(kind, prefix, inner, array.astype(np.int64, copy=False), present=present)


def text(array: pa.Array, kind: int = BYTES, prefix: bytes = b"", inner: bytes = b"") -> Piece:
    """A column of strings; rows with null go without. A dictionary array is not expanded."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.DictionaryArray):
        codes = array.indices
        words = spans(array.dictionary)
        present = np.asarray(codes.is_valid()) if codes.null_count else None
        index = np.asarray(codes.fill_null(0)) if codes.null_count else np.asarray(codes)
        if not len(words):
            return Piece(
                kind,
                prefix,
                inner,
                None,
                words.data,
                np.zeros(len(array), np.int64),
                np.zeros(len(array), np.int64),
                np.zeros(len(array), bool),
            )
        return words.piece(kind, prefix, inner, index).only(present)
    present = np.asarray(array.is_valid()) if array.null_count else None
    return spans(array).piece(kind, prefix, inner).only(present)


def spans(array: pa.Array) -> Rows:
    """A string array as rows, without copying its bytes."""
    array = array.cast(pa.large_string())
    offsets, data = array.buffers()[1:]
    begin = (
        np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        if offsets
        else np.zeros(1, np.int64)
    )
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return Rows(raw, begin[:-1], begin[1:])


def assemble(rows: int, pieces: list[Piece]) -> Rows:
    """Write `rows` rows of those pieces."""
    extension = _extension()
    if extension is None:
        return _assemble(rows, pieces)
    data, ends = extension.assemble(
        rows,
        [
            (
                piece.kind,
                piece.prefix,
                piece.inner,
                _plain(piece.values),
                _plain(piece.data),
                _plain(piece.starts),
                _plain(piece.ends),
                None if piece.present is None else np.ascontiguousarray(piece.present, np.uint8),
            )
            for piece in pieces
        ],
    )
    return _rows(np.frombuffer(data, np.uint8), np.frombuffer(ends, np.int64))


_INTERFACE = 1  # of _assemble.c, which says when to raise it


def _extension() -> ModuleType | None:
    return load_extension("topsprof.exporters._assemble", _INTERFACE)[0]


def problem() -> str:
    """Why _assemble is not used; "" when it is."""
    return load_extension("topsprof.exporters._assemble", _INTERFACE)[1]


def _plain(array: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    return None if array is None else np.ascontiguousarray(array)


def _rows(data: Bytes, ends: Int64s) -> Rows:
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1]
    return Rows(data, starts, ends)


def _assemble(rows: int, pieces: list[Piece]) -> Rows:
    """The twin: sizes of all pieces first, then each is scattered to its places."""
    parts = [part for piece in pieces for part in _fragments(piece, rows)]
    sizes = np.zeros(rows, np.int64)
    at = []
    for part in parts:
        at.append(sizes.copy())
        sizes += part.ends - part.starts
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if rows else 0, np.uint8)
    for part, offset in zip(parts, at, strict=True):
        _scatter(out, ends - sizes + offset, part)
    return _rows(out, ends)


def _scatter(out: Bytes, at: Int64s, part: Rows) -> None:
    size = part.ends - part.starts
    total = int(size.sum())
    inner = np.arange(total) - np.repeat(np.cumsum(size) - size, size)
    out[np.repeat(at, size) + inner] = part.data[np.repeat(part.starts, size) + inner]


def _fragments(piece: Piece, rows: int) -> list[Rows]:
    """A piece as spans of each row that stand one after the other."""

    def same(raw: bytes) -> Rows:
        zero = np.zeros(rows, np.int64)
        return Rows(np.frombuffer(raw, np.uint8), zero, zero + len(raw))

    kind, parts = piece.kind, []
    if kind in (VARINT, WRAPPED_VARINT):
        parts = [_varints(piece.values)]  # type: ignore[arg-type]
    elif kind in (FIXED, WRAPPED_FIXED):
        begin = np.arange(rows) * 8
        parts = [Rows(piece.values.astype("<i8").view(np.uint8), begin, begin + 8)]  # type: ignore[union-attr]
    elif kind in (BYTES, SIZED, WRAPPED_SIZED):
        data = Rows(piece.data, piece.starts, piece.ends)  # type: ignore[arg-type]
        parts = [data] if kind == BYTES else [_varints(data.ends - data.starts), data]
    elif kind == INTEGER:
        parts = [spans(pa.array(piece.values).cast(pa.large_string()))]
    elif kind == MICROS:
        parts = [_micros(piece.values)]  # type: ignore[arg-type]
    if piece.wrapped:
        parts.insert(0, same(piece.inner))
        parts.insert(0, _varints(np.sum([part.ends - part.starts for part in parts], axis=0)))
    elif piece.inner and kind in (CONSTANT, BYTES, INTEGER, MICROS):
        parts.append(same(piece.inner))
    parts.insert(0, same(piece.prefix))
    if piece.present is not None:
        parts = [
            Rows(part.data, part.starts, np.where(piece.present, part.ends, part.starts)) for part in parts
        ]
    return parts


def _varints(values: Int64s) -> Rows:
    left = values.astype(np.int64).view(np.uint64)
    size = np.ones(len(left), np.int64)
    for shift in range(7, 64, 7):
        size += left >= np.uint64(1 << shift)
    ends = np.cumsum(size)
    starts = ends - size
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for place in range(10):
        here = np.flatnonzero(size > place)
        if not len(here):
            break
        byte = (left[here] >> np.uint64(7 * place)).astype(np.uint8) & 127
        out[starts[here] + place] = byte | np.where(size[here] > place + 1, 128, 0).astype(np.uint8)
    return Rows(out, starts, ends)


def _micros(values: Int64s) -> Rows:
    import pyarrow.compute as pc

    size = np.abs(values).view(np.uint64)  # of the least int64 as well
    empty = pa.scalar("", pa.large_string())
    sign = pc.if_else(pa.array(values < 0), pa.scalar("-", pa.large_string()), empty)
    whole = pa.array(size // np.uint64(1000)).cast(pa.large_string())
    thousandths = pc.utf8_lpad(pa.array(size % np.uint64(1000)).cast(pa.large_string()), 3, "0")
    joined = pc.binary_join_element_wise(sign, whole, pa.scalar(".", pa.large_string()), thousandths, empty)
    return spans(joined)
