"""Decimal numbers as text into exact nanoseconds, by columns."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.errors import TraceError

_PLAIN = r"^(?P<sign>-?)(?P<whole>[0-9]{1,18})(?:\.(?P<part>[0-9]*))?$"


def nanoseconds(texts: pa.Array, digits: int) -> npt.NDArray[np.int64]:
    """Each number times 10 ** digits, exactly; what is finer is rounded to the nearest. TraceError for what
    is no number.

    >>> nanoseconds(pa.array(["1.5", "-0.001", "2e3"]), 3).tolist()
    [1500, -1, 2000000]
    """
    found = pc.extract_regex(texts, _PLAIN)
    if found.null_count == len(texts):
        return _one_by_one(texts, digits)
    lacking = found.is_null()  # too long, or with an exponent
    whole = np.asarray(pc.cast(pc.if_else(lacking, "0", found.field("whole")), pa.int64()))
    part = pc.if_else(lacking, "", found.field("part"))
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(part, digits + 1, "0"), 0, digits + 1)
    tenths = np.asarray(pc.cast(padded, pa.int64()))  # of the result's unit
    magnitude = (tenths + 5) // 10
    fits = whole <= (np.iinfo(np.int64).max - 10**digits) // 10**digits
    magnitude = magnitude + np.where(fits, whole, 0) * 10**digits
    negative = np.asarray(pc.equal(found.field("sign"), "-").fill_null(False))
    value: npt.NDArray[np.int64] = np.where(negative, -magnitude, magnitude)
    odd = np.flatnonzero(np.asarray(lacking) | ~fits)
    if len(odd):
        value[odd] = _one_by_one(texts.take(pa.array(odd)), digits)
    return value


def _one_by_one(texts: pa.Array, digits: int) -> npt.NDArray[np.int64]:
    """Numbers with an exponent, or too long for the quick way."""
    out = []
    for text in texts.to_pylist():
        try:
            number = int((Decimal(text) * 10**digits).to_integral_value())
        except (InvalidOperation, TypeError, OverflowError, ValueError):
            raise TraceError(f"{text!r} is not a time") from None
        if not -(1 << 63) <= number < 1 << 63:
            raise TraceError(f"{text} is a time beyond what 64 bits of nanoseconds hold")
        out.append(number)
    return np.array(out, np.int64)
