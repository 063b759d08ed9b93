"""JSON text made of columns: quoting and joining by Arrow's string kernels, without a loop per value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_CONTROL = "[\x01-\x1f]"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def quote(texts: pa.Array) -> pa.Array:
    """Each string as a JSON string; null stays null."""
    out = pc.replace_substring(texts, "\\", "\\\\")
    out = pc.replace_substring(out, '"', '\\"')
    if pc.any(pc.match_substring_regex(out, _CONTROL)).as_py():
        for code in range(1, 32):
            out = pc.replace_substring(out, chr(code), _SHORT.get(chr(code), f"\\u{code:04x}"))
    if pc.any(pc.match_substring(out, "\0")).as_py():
        out = pc.replace_substring(out, "\0", "\\u0000")
    mark = pa.scalar('"', out.type)
    return pc.binary_join_element_wise(mark, out, mark, pa.scalar("", out.type))


def floats(values: npt.NDArray[np.float64] | pa.Array) -> pa.Array:
    """Each number as JSON that reads back to the same double; what JSON has no number for becomes a
    string."""
    array = pa.array(values, pa.float64())
    text = pc.cast(array, pa.string())
    odd = pc.invert(pc.is_finite(array))
    if pc.any(odd).as_py():
        names = pc.if_else(
            pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
        )
        text = pc.if_else(odd, names, text)
    return text


def joined(rows: npt.NDArray[np.int64], count: int, parts: pa.Array, opening: str, closing: str) -> pa.Array:
    """For each of `count` rows its parts, separated by commas, between brackets; null for a row without
    parts.

    `rows` says whose each part is and must not decrease.
    """
    offsets = np.searchsorted(rows, np.arange(count + 1)).astype(np.int64)
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), parts)
    text = pc.binary_join(lists, pa.scalar(",", parts.type))
    out = pc.binary_join_element_wise(
        pa.scalar(opening, parts.type), text, pa.scalar(closing, parts.type), pa.scalar("", parts.type)
    )
    return pc.if_else(pa.array(np.diff(offsets) > 0), out, pa.scalar(None, parts.type))
