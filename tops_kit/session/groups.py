"""Rows by the values of several columns: a number for each distinct combination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tops_kit.session import columns as cols
from tops_kit.session.schema import Table
from tops_kit.session.segment import SegmentData

Array = np.ndarray[Any, Any]


def group_codes(table: Table, data: SegmentData, columns: Sequence[str]) -> tuple[Array, pa.Table]:
    """(codes, keys): int32 code of each row, and a table with one row for each code. Null is a value like
    others.

    Keys are plain columns (names as text); their order means nothing.
    """
    codes = np.zeros(data.rows, np.int64)
    size = 1
    parts: list[tuple[Array, pa.Array] | None] = []
    for name in columns:
        if name not in data.arrays:
            parts.append(None)
            continue
        own, values = _column_codes(data.arrays[name])
        parts.append((own, values))
        if size * max(len(values), 1) >= 1 << 62:
            codes, _, size = _compress(codes, size)
        codes = codes * len(values) + own
        size *= max(len(values), 1)
    codes, first, _ = _compress(codes, size)
    arrays = []
    for name, part in zip(columns, parts, strict=True):
        column = table.column(name)
        if part is None:
            arrays.append(_plain(cols.constant_array(column, data.constants.get(name), len(first))))
        else:
            arrays.append(_plain(part[1].take(pa.array(part[0][first]))))
    if not columns:
        return codes, pa.table({"": pa.nulls(len(first))}).select([])
    return codes, pa.table(arrays, names=list(columns))


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _column_codes(array: pa.Array) -> tuple[Array, pa.Array]:
    """(code of each row, value of each code) of one column; null has a code of its own."""
    if not isinstance(array, pa.DictionaryArray):
        array = array.dictionary_encode("encode")
        return np.asarray(array.indices).astype(np.int64), array.dictionary
    values = array.dictionary
    indices = array.indices
    if indices.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        indices = indices.fill_null(len(values) - 1)
    return np.asarray(indices).astype(np.int64), values


def _compress(codes: Array, size: int) -> tuple[Array, Array, int]:
    """(codes without gaps, row of the first of each, their number) for codes below `size`."""
    if size == 1:
        return np.zeros(len(codes), np.int32), np.zeros(min(len(codes), 1), np.int64), min(len(codes), 1)
    if size <= 1 << 22:
        used = np.zeros(size, bool)
        used[codes] = True
        compact = (np.cumsum(used, dtype=np.int32) - 1)[codes]
        count = int(np.count_nonzero(used))
    else:
        encoded = pa.array(codes).dictionary_encode()
        compact = np.asarray(encoded.indices)
        count = len(encoded.dictionary)
    first = np.empty(count, np.int64)
    # Written back to front, so that the first row of each is the one that stays.
    first[compact[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return compact, first, count
