"""Arrow arrays of numpy arrays and lists.

`pyarrow.array` and `numpy.asarray` would do the same, but they load pandas (0.3 s and more) the first time,
just to ask whether they were given a Series. Nothing that a short command runs through should cost that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_TYPES = {
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.uint64): pa.uint64(),
    np.dtype(np.uint32): pa.uint32(),
    np.dtype(np.uint16): pa.uint16(),
    np.dtype(np.uint8): pa.uint8(),
    np.dtype(np.float64): pa.float64(),
}


def from_numpy(values: np.ndarray[Any, Any], null: np.ndarray[Any, Any] | None = None) -> pa.Array:
    """A numpy array of integers, floats or bools as an Arrow array, not copied; null where `null` is true."""
    values = np.ascontiguousarray(values)
    valid = None if null is None or not null.any() else pa.py_buffer(np.packbits(~null, bitorder="little"))
    if values.dtype == np.bool_:
        bits = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(values), [valid, bits])
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [valid, pa.py_buffer(values)])


def from_list(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """A list of Python values or None as an array of int64, int32, uint32, uint8, float64, bool or string.

    OverflowError or another ValueError or TypeError for a value that doesn't fit.
    """
    null = np.fromiter((value is None for value in values), bool, len(values))
    if type_ != pa.string():
        dtype: Any = np.bool_ if type_ == pa.bool_() else type_.to_pandas_dtype()
        return from_numpy(np.array([0 if value is None else value for value in values], dtype), null)
    encoded = ["" if value is None else value for value in values]
    data = [text.encode() for text in encoded]
    offsets = np.zeros(len(data) + 1, np.int64)
    np.cumsum([len(part) for part in data], out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise ValueError("more than 2 GB of text in one column")
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(data))]
    return pa.Array.from_buffers(pa.string(), len(data), buffers)


def as_numpy(array: pa.Array) -> np.ndarray[Any, Any]:
    """An array of numbers without nulls as numpy, without a copy; one of bools as a copy. ValueError for
    nulls.
    """
    if array.null_count:
        raise ValueError("the array has nulls")
    data = array.buffers()[1]
    if array.type == pa.bool_():
        if not len(array):
            return np.zeros(0, bool)
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[array.offset : array.offset + len(array)].view(bool)
    dtype = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def end_of(start: np.ndarray[Any, Any], duration: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """start + duration in int64; sums past the largest int64 stop there, a negative duration counts as 0."""
    limit = np.iinfo(np.int64).max
    end: np.ndarray[Any, Any]
    if not len(start) or (duration.min() >= 0 and int(start.max()) + int(duration.max()) <= limit):
        end = np.add(start, duration, dtype=np.int64, casting="unsafe")  # the usual case, in fewer passes
        return end
    length = np.maximum(duration.astype(np.int64, copy=False), 0)
    with np.errstate(over="ignore"):
        end = start + length
    wrapped = end < start
    if wrapped.any():
        end[wrapped] = limit
    return end
