"""Arrow types of the schema's columns, and how the values that callers give become arrays of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.arrays import as_numpy, from_list, from_numpy
from tops_kit.session.schema import Column, Kind, Table

# What a caller may give for a column: an array or list of one value a row, or one scalar for all rows.
Values: TypeAlias = Any

NAME_TYPE = pa.dictionary(pa.int32(), pa.string())
_TYPES: dict[str, pa.DataType] = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "uint8": pa.uint8(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "name": NAME_TYPE,
}
_RANGES = {
    "int64": (-(1 << 63), 1 << 63),
    "int32": (-(1 << 31), 1 << 31),
    "uint32": (0, 1 << 32),
    "uint8": (0, 1 << 8),
}
_SCALARS = (str, bytes, int, float, bool, np.generic, type(None))


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type in which a column is read (it may be stored narrower)."""
    return _TYPES[column.type]


def logical_schema(table: Table) -> pa.Schema:
    """Columns as `Session.table` and SQL give them: those of the schema, and `end_ns` after the duration of
    intervals.
    """
    fields = []
    for column in table.columns:
        fields.append(pa.field(column.name, arrow_type(column)))
        if column.name == "duration_ns" and table.kind is Kind.INTERVAL:
            fields.append(pa.field("end_ns", pa.int64()))
    return pa.schema(fields)


def is_scalar(values: Values) -> bool:
    """Whether a caller's value stands for all rows."""
    return isinstance(values, (*_SCALARS, pa.Scalar))


def scalar_value(column: Column, value: Values) -> Any:
    """A caller's scalar as the plain Python value of the column. Raises as pyarrow does if it doesn't fit."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    type_ = pa.string() if column.type == "name" else arrow_type(column)
    if _is_plain(column, (value,)):
        return value
    return pa.scalar(value, type_).as_py()


def fits(column: Column, value: Any) -> bool:
    """Whether a plain value, e.g. one out of JSON, can stand in the column; None always can."""
    if value is None:
        return True
    if column.type in ("name", "text"):
        return isinstance(value, str)
    if column.type == "bool":
        return isinstance(value, bool)
    if column.type == "float64":
        return type(value) in (int, float)
    low, high = _RANGES[column.type]
    return type(value) is int and low <= value < high


def constant_array(column: Column, value: Any, rows: int) -> pa.Array:
    """`rows` times the same value (None: null)."""
    if value is None:
        return pa.nulls(rows, arrow_type(column))
    if column.type in ("name", "text"):
        names = pa.DictionaryArray.from_arrays(
            from_numpy(np.zeros(rows, np.int32)), from_list([value], pa.string())
        )
        return names if column.type == "name" else names.dictionary_decode()
    one = from_list([value], arrow_type(column))
    return from_numpy(np.repeat(as_numpy(one), rows))


def to_array(column: Column, values: Values) -> pa.Array:
    """A caller's array or list as one Arrow array of the column's type.

    Raises pyarrow's ArrowInvalid (a ValueError) or ArrowTypeError (a TypeError) when a value doesn't fit.
    """
    if isinstance(values, pa.ChunkedArray):
        if pa.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    if not isinstance(values, pa.Array):
        values = _from_python(column, values)
    if column.type == "name":
        return _names(values)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    type_ = arrow_type(column)
    return values if values.type == type_ else values.cast(type_)


def _from_python(column: Column, values: np.ndarray[Any, Any] | Sequence[Any]) -> pa.Array:
    if isinstance(values, np.ndarray) and values.dtype in (np.int64, np.int32, np.float64, np.bool_):
        return from_numpy(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        return pa.array(values)
    if isinstance(values, list) and _is_plain(column, values):
        return from_list(values, pa.string() if column.type == "name" else arrow_type(column))
    if column.type in ("name", "text"):
        return pa.array(values, pa.string())
    return pa.array(values, arrow_type(column))


def _is_plain(column: Column, values: Sequence[Any]) -> bool:
    """Whether all are None or what the column holds: then pyarrow, which would load pandas, need not look."""
    if column.type in ("name", "text"):
        return all(value is None or type(value) is str for value in values)
    return column.type == "int64" and all(
        value is None or (type(value) is int and -(1 << 63) <= value < 1 << 63) for value in values
    )


def _names(values: pa.Array) -> pa.DictionaryArray:
    if not pa.types.is_dictionary(values.type):
        values = values.cast(pa.string()) if values.type != pa.string() else values
        return values.dictionary_encode()
    if values.type == NAME_TYPE:
        return values
    indices, dictionary = values.indices, values.dictionary
    if indices.type != pa.int32():
        indices = indices.cast(pa.int32())
    if dictionary.type != pa.string():
        dictionary = dictionary.cast(pa.string())
    return pa.DictionaryArray.from_arrays(indices, dictionary)


def concat(column: Column, arrays: list[pa.Array]) -> pa.Array:
    """Arrays of one column, one after the other; dictionaries are united, and lose what no row uses."""
    if not arrays:
        return pa.nulls(0, arrow_type(column)) if column.type != "name" else constant_array(column, "", 0)
    if column.type != "name":
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    if len(arrays) == 1:
        return used_names(arrays[0])
    return used_names(pa.concat_arrays(pa.chunked_array(arrays, NAME_TYPE).unify_dictionaries().chunks))


def used_names(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values with a dictionary of just the names in use, in their old order, each once, without
    null.
    """
    dictionary = array.dictionary
    if dictionary.null_count:
        # A null may also hide behind an index: make it an ordinary null.
        return array.dictionary_decode().dictionary_encode()
    size = len(dictionary)
    indices = array.indices
    nothing = from_numpy(np.zeros(1, np.int32))[0]
    codes = as_numpy(pc.coalesce(indices, nothing) if indices.null_count else indices)
    used = np.zeros(size + 1, bool)
    if indices.null_count:
        used[as_numpy(indices.drop_null())] = True
    else:
        used[codes] = True
    if used[:size].all():
        return array
    new = np.cumsum(used, dtype=np.int32) - 1
    mask = as_numpy(pc.is_null(indices)) if indices.null_count else None
    packed = from_numpy(np.maximum(new[codes], 0), mask)
    return pa.DictionaryArray.from_arrays(packed, dictionary.filter(from_numpy(used[:size])))
