"""What only the call says that started a kernel or a copy.

Traces of AMD devices have grid, block and shared memory in the args of hipLaunchKernel and
hipExtModuleLaunchKernel, and the bytes in those of hipMemcpy*. The rows of the device get them by the
correlation, where both stand in the same batch. The calls keep them in their args.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.session.arrays import from_numpy
from topsprof.importers.chrome_rows import Rows, nullable
from topsprof.importers.scan import Bools, Int64s

_MOST_DIGITS = 18


def launched_with(rows: Rows, key: str) -> tuple[Any, Any, Any]:
    """`grid` or `block` of kernels as three nullable integer columns."""
    own = rows.triples(key)
    values, there = rows.batch.triples(key, rows.at)
    call, known = _calls(rows, key, there)
    if call is None:
        return own
    found, _ = rows.batch.triples(key, call)
    values = np.where(known[:, None], found, values)
    there = there | known
    return nullable(values[:, 0], there), nullable(values[:, 1], there), nullable(values[:, 2], there)


def shared_bytes(rows: Rows) -> Any:
    """`shared memory` of kernels."""
    values, there = rows.integers_there("shared memory")
    call, known = _calls(rows, "shared memory", there)
    if call is not None:
        values = np.where(known, rows.batch.values("shared memory", call)[0], values)
        there = there | known
    return nullable(values, there)


def copied_bytes(rows: Rows) -> Any:
    """`bytes` of copies, else the `size` that the call states as text."""
    values, there = rows.integers_there("bytes")
    call, known = _calls(rows, "size", there)
    if call is None:
        return nullable(values, there)
    sizes = np.where(known, rows.batch.values("size", call)[0], -1)
    used, inverse = np.unique(sizes, return_inverse=True)
    numbers = np.array([_size(rows.strings.text(int(one))) for one in used], np.int64)[inverse]
    known = numbers >= 0
    there = there | known
    return from_numpy(np.where(known, numbers, values), ~there) if there.any() else None


def _calls(rows: Rows, key: str, there: Bools) -> tuple[Int64s | None, Bools]:
    """(for each row the row of its batch that is the call with `key` of the same correlation, whether there
    is one). The first is None when no row gets anything so.
    """
    with_key: npt.NDArray[Any] = rows.batch.sparse(key)[0]
    nothing = np.zeros(len(rows), np.bool_)
    if there.all() or len(with_key) <= int(there.sum()):
        return None, nothing
    with_key = np.setdiff1d(with_key, rows.at)
    number, has_number = rows.batch.values("correlation", with_key)
    calls, numbers = with_key[has_number], number[has_number]
    if not len(calls):
        return None, nothing
    order = np.argsort(numbers, kind="stable")
    calls, numbers = calls[order].astype(np.int64), numbers[order]
    wanted, has_wanted = rows.batch.values("correlation", rows.at)
    place = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    known = ~there & has_wanted & (wanted != 0) & (numbers[place] == wanted)
    return (calls[place], known) if known.any() else (None, nothing)


def _size(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else -1
