"""Rows by the values of several columns: a number for each distinct combination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tops_kit.session import columns as cols
from tops_kit.session.arrays import as_numpy, from_numpy
from tops_kit.session.schema import Table
from tops_kit.session.segment import SegmentData

Array = np.ndarray[Any, Any]


def group_codes(table: Table, data: SegmentData, columns: Sequence[str]) -> tuple[Array, pa.Table]:
    """(codes, keys): int32 code of each row, and a table with one row for each code. Null is a value like
    others.

    Keys are plain columns (names as text); their order means nothing.
    """
    codes: Array = np.zeros(data.rows, np.int32)
    known: list[Array] = []  # for each stored column so far, by code: the column's own code
    values: dict[str, pa.Array] = {}
    for name in columns:
        if name not in data.arrays:
            continue
        own, values[name] = _column_codes(data.arrays[name])
        size = len(values[name])
        before = len(known[0]) if known else 1
        combined = own if before == 1 else codes.astype(np.int64) * size + own
        codes, used = _compress(combined, before * size)
        known = [part[used // size] for part in known] + [used % size]
    count = len(known[0]) if known else min(data.rows, 1)
    arrays = []
    for name in columns:
        if name in values:
            arrays.append(_plain(values[name].take(from_numpy(known[list(values).index(name)]))))
        else:
            arrays.append(_plain(cols.constant_array(table.column(name), data.constants.get(name), count)))
    if not columns:
        return codes, pa.table({"": pa.nulls(count)}).select([])
    return codes, pa.table(arrays, names=list(columns))


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
