"""The text of what kernels print, from the records that print.h describes.

A format has `{}` for each argument, with a format specification after a colon as in Python (`{:.3f}`);
that of a tile goes to each element. `{{` and `}}` stand for braces. Arguments that have no `{}` follow at
the end; one that its specification doesn't suit is written plainly.
"""

from __future__ import annotations

import re
import string
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.isa.dtypes import DTYPES

HEADER = struct.Struct("=IiiiII")  # size in bytes, format, thread, block, epoch, grid epoch
_I32, _F32, _BOOL, _TILE = range(4)
_WIDEST = 1000  # characters of a formatted value, as the compiler takes them


def lines(records: bytes, formats: Sequence[str]) -> list[str]:
    """One text a record."""
    out = []
    at = 0
    while at < len(records):
        size, number, *_ = HEADER.unpack_from(records, at)
        out.append(_text(formats[number], _arguments(records[at + HEADER.size : at + size])))
        at += size
    return out


def places(records: bytes) -> list[tuple[int, int]]:
    """Block and thread (of the launch) of each record: who printed the line."""
    out = []
    at = 0
    while at < len(records):
        size, _, thread, block, *_ = HEADER.unpack_from(records, at)
        out.append((block, thread))
        at += size
    return out


class _Tile(str):
    """A tile's text; a format specification goes to each of its elements."""

    values: npt.NDArray[Any]

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> _Tile:
        """As numpy writes it, all elements."""
        tile = cls(np.array2string(values, separator=", ", threshold=values.size + 1))
        tile.values = values
        return tile

    def __format__(self, specification: str) -> str:
        if not specification:
            return str(self)

        def written(element: Any) -> str:
            return format(element.item(), specification)

        return np.array2string(
            self.values, separator=", ", threshold=self.values.size + 1, formatter={"all": written}
        )


def _arguments(words: bytes) -> list[int | float | bool | str]:
    out: list[int | float | bool | str] = []
    at = 0
    while at < len(words):
        (tag,) = struct.unpack_from("=I", words, at)
        at += 4
        if tag == _TILE:
            text, at = _tile(words, at)
            out.append(text)
            continue
        if tag == _F32:
            out.append(_short(np.frombuffer(words, np.float32, 1, at)[0]))
        else:
            (value,) = struct.unpack_from("=i", words, at)
            out.append(bool(value) if tag == _BOOL else value)
        at += 4
    return out


class _Float32(float):
    """A float that prints as few digits as tell it from other f32."""

    def __str__(self) -> str:
        return str(np.float32(self))

    def __format__(self, specification: str) -> str:
        return float(self).__format__(specification) if specification else str(self)


def _short(value: np.float32) -> float:
    return _Float32(value)


def _tile(words: bytes, at: int) -> tuple[str, int]:
    code, rank = struct.unpack_from("=II", words, at)
    extents = struct.unpack_from(f"={rank}i", words, at + 8)
    at += 8 + 4 * rank
    dtype = DTYPES[code]
    count = int(np.prod(extents, dtype=np.int64))
    values = np.frombuffer(words, np.float32 if dtype.is_float else np.int32, count, at).reshape(extents)
    if dtype.kind == "b":
        values = values.astype(np.bool_)
    return _Tile.of(values), at + 4 * count


def _bounded(specification: str) -> str:
    """A format specification; "" for one that would fill the memory: a file may hold any."""
    return (
        ""
        if any(int(digits.lstrip("0")[:9] or 0) > _WIDEST for digits in re.findall(r"\d+", specification))
        else specification
    )


def _text(pattern: str, arguments: list[int | float | bool | str]) -> str:
    left = iter(arguments)
    out = []
    try:
        pieces = list(string.Formatter().parse(pattern))
    except ValueError:  # not a format: a text with a single brace
        pieces = [(pattern, None, None, None)]
    for literal, field, specification, _ in pieces:
        out.append(literal)
        if field is None:
            continue
        argument = next(left, None)
        if argument is None:
            out.append("{}")
            continue
        try:
            out.append(format(argument, _bounded(specification or "")))
        except ValueError:
            out.append(str(argument))
    out.extend(f" {argument}" for argument in left)
    return "".join(out)
