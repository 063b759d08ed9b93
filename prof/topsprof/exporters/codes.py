"""Numbers for distinct values and combinations of columns, by hashing: sorting millions of rows costs more
than writing them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]


def encode(values: npt.NDArray[Any]) -> tuple[Int64s, Int64s]:
    """(number of each value, the distinct values): numbered by first appearance.

    >>> [part.tolist() for part in encode(np.array([7, 5, 7]))]
    [[0, 1, 0], [7, 5]]
    """
    encoded = pa.array(values.astype(np.int64, copy=False)).dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64), np.asarray(encoded.dictionary)


def combine(*columns: npt.NDArray[Any]) -> tuple[Int64s, Int64s]:
    """(number of each row's combination of values, a row that has each)."""
    code, distinct = encode(columns[0])
    for column in columns[1:]:
        own, values = encode(column)
        code, distinct = encode(code * len(values) + own)
    first = np.empty(len(distinct), np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return code, first
