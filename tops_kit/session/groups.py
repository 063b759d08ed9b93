"""Rows by the values of several columns: a number for each distinct combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tops_kit.session import columns as cols
from tops_kit.session.arrays import as_numpy, from_numpy
from tops_kit.session.backend import backend
from tops_kit.session.schema import Table
from tops_kit.session.segment import SegmentData

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Grouping:
    """`codes`: int32 number of each row's combination; `count`: how many there are. Null is a value too."""

    codes: Array
    count: int
    _columns: tuple[tuple[str, Callable[[], pa.Array]], ...]

    def keys(self) -> pa.Table:
        """The combinations, a row for each code; names as text. Their order means nothing."""
        if not self._columns:
            return pa.table({"": pa.nulls(self.count)}).select([])
        return pa.table({name: _plain(values()) for name, values in self._columns})


def group_rows(table: Table, data: SegmentData, columns: Sequence[str]) -> Grouping:
    """Number the combinations of some columns' values."""
    codes: Array = np.zeros(data.rows, np.int32)
    known: list[Array] = []  # for each stored column so far, by code: the column's own code
    values: dict[str, pa.Array] = {}
    for name in columns:
        if name not in data.arrays:
            continue
        own, values[name] = _column_codes(data.arrays[name])
        size = len(values[name])
        before = len(known[0]) if known else 1
        wide = before * size > np.iinfo(np.int32).max
        combined = own if before == 1 else (codes.astype(np.int64) if wide else codes) * size + own
        codes, used = _compress(combined, before * size)
        known = [part[used // size] for part in known] + [used % size]
    count = len(known[0]) if known else min(data.rows, 1)
    own_codes = dict(zip(values, known, strict=True))

    def column(name: str) -> pa.Array:
        if name in values:
            return values[name].take(from_numpy(own_codes[name]))
        return cols.constant_array(table.column(name), data.constants.get(name), count)

    return Grouping(codes, count, tuple((name, partial(column, name)) for name in columns))


def by_code(codes: Array, values: Array, counts: Array) -> Array:
    """Values (of 8 bytes each) brought together by code, in their order. `counts`: rows of each code."""
    out = np.empty_like(values)
    backend().scatter(codes, values, counts.astype(np.int64, copy=False), out)
    return out


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _column_codes(array: pa.Array) -> tuple[Array, pa.Array]:
    """(int32 code of each row, value of each code) of one column; null has a code of its own."""
    if not isinstance(array, pa.DictionaryArray):
        array = array.dictionary_encode("encode")
        return as_numpy(array.indices), array.dictionary
    values = array.dictionary
    indices = array.indices
    if indices.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        indices = indices.fill_null(len(values) - 1)
    return as_numpy(indices), values


def _compress(codes: Array, size: int) -> tuple[Array, Array]:
    """(int32 codes without gaps, the old code of each) for codes below `size`."""
    if size > 1 << 22:
        encoded = from_numpy(codes).dictionary_encode()
        return as_numpy(encoded.indices), as_numpy(encoded.dictionary)
    used = np.zeros(size, bool)
    used[codes] = True
    old = np.flatnonzero(used)
    if len(old) == size:
        return codes.astype(np.int32, copy=False), old
    return (np.cumsum(used, dtype=np.int32) - 1)[codes], old
