"""The scanner of trace JSON, C or twin, and its rows as numpy and Arrow arrays.

A `Batch` is some hundred thousand events as columns. `Strings` is the table of all texts of a file; columns
of names hold its ids (-1: none).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tops_kit.extension import load as load_extension
from tops_kit.session.arrays import from_list, from_numpy
from topsprof.importers.scan_columns import EVENT, REST, SERIES
from topsprof.importers.source import Source

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bytes8 = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

_BATCH_BYTES = 128 << 20

_DTYPES = {**EVENT, **REST, **SERIES}


class Scanner(Protocol):
    """What `_scan.Scanner` and `scan_twin.Scanner` offer."""

    rows: int

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None: ...
    def feed(self, data: bytes, /) -> int: ...
    def finish(self) -> int: ...
    def take(self) -> dict[str, Any]: ...
    def strings(self, first: int, /) -> tuple[int, bytes, bytes]: ...
    def metadata(self) -> list[tuple[bytes, bytes]]: ...
    def issues(self) -> list[tuple[str, int, int]]: ...


_INTERFACE = 1  # of _scan.c, which says when to raise it


def _backend() -> Any:
    """The C module, or its twin where there is none or TOPSKIT_PURE is set.

    Raises ImportError without the C module under TOPSKIT_REQUIRE_C.
    """
    module = load_extension("topsprof.importers._scan", _INTERFACE)[0]
    return module or importlib.import_module("topsprof.importers.scan_twin")


def problem() -> str:
    """Why the scanner is not the one in C; "" when it is."""
    return load_extension("topsprof.importers._scan", _INTERFACE)[1]


def scanner_class() -> type[Scanner]:
    """The scanner in use."""
    return cast("type[Scanner]", _backend().Scanner)


def nest_sorted(track: Int64s, start: Int64s, end: Int64s, tolerance: int) -> tuple[Int64s, int, int]:
    """(ends, trimmed, overlapping) of intervals sorted by (track, start, -length): `scan_intervals.nest`."""
    ends, trimmed, overlapping = _backend().nest(track, start, end, tolerance)
    return np.frombuffer(ends, np.int64), int(trimmed), int(overlapping)


class Stacks(Protocol):
    """What `_scan.Stacks` and `scan_twin.Stacks` offer."""

    def walk(self, track: Int64s, start: Int64s, end: Int64s, function: Int32s, /) -> bytes: ...
    def paths(self) -> bytes: ...


def new_stacks() -> Stacks:
    """Call stacks, none known yet."""
    return cast(Stacks, _backend().Stacks())


class Strings:
    """All texts of a file, by id."""

    def __init__(self) -> None:
        self._ends: Int64s = np.zeros(1024, np.int64)
        self._text: Bytes8 = np.zeros(65536, np.uint8)
        self._known: dict[int, str] = {}
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def update(self, scanner: Scanner) -> None:
        """Take over what the scanner has read since the last time."""
        start, ends, text = scanner.strings(self.count)
        new = np.frombuffer(ends, np.int64)
        count = self.count + len(new)
        size = start + len(text)
        self._ends = _grown(self._ends, count)
        self._text = _grown(self._text, size)
        self._ends[self.count : count] = new
        self._text[start:size] = np.frombuffer(text, np.uint8)
        self.count = count

    def text(self, number: int) -> str:
        """One text; "" for -1."""
        if number < 0:
            return ""
        known = self._known.get(number)
        if known is None:
            start = int(self._ends[number - 1]) if number else 0
            known = bytes(self._text[start : self._ends[number]]).decode()
            self._known[number] = known
        return known

    def take(self, numbers: Int64s | Int32s) -> pa.StringArray:
        """The texts of some ids, none of them negative."""
        if not self.count:
            return pa.nulls(0, pa.string())
        offsets = np.concatenate((np.zeros(1, np.int64), self._ends[: self.count]))
        table = pa.LargeStringArray.from_buffers(self.count, pa.py_buffer(offsets), pa.py_buffer(self._text))
        return table.take(from_numpy(numbers)).cast(pa.string())

    def codes(self, numbers: Int64s | Int32s) -> tuple[Int64s, Int32s, Bools | None]:
        """(the distinct ids, for each row the place of its own among them, which rows have none).

        The last is None when all have one; the place of a row that has none is 0.
        """
        none = numbers < 0
        used = np.zeros(self.count + 1, np.bool_)
        if not none.any():
            used[numbers] = True
            return np.flatnonzero(used), (np.cumsum(used, dtype=np.int32) - 1)[numbers], None
        used[numbers[~none]] = True
        places = np.maximum(np.cumsum(used, dtype=np.int32) - 1, 0)
        return np.flatnonzero(used), np.where(none, 0, places[np.maximum(numbers, 0)]), none

    def names(self, numbers: Int64s | Int32s, default: str | None = None) -> pa.DictionaryArray:
        """A column of ids as a dictionary array; negative ids are `default`, or null."""
        used, indices, none = self.codes(numbers)
        dictionary = self.take(used)
        if none is not None and default is None and not len(dictionary):
            dictionary = from_list([""], pa.string())
        if none is not None and default is not None:
            dictionary = pa.concat_arrays([dictionary, from_list([default], pa.string())])
            return pa.DictionaryArray.from_arrays(
                from_numpy(np.where(none, len(dictionary) - 1, indices).astype(np.int32)), dictionary
            )
        array = from_numpy(indices.astype(np.int32), none)
        return pa.DictionaryArray.from_arrays(array, dictionary)


def _grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if size <= len(array):
        return array
    bigger = np.empty(max(size, 2 * len(array)), array.dtype)
    bigger[: len(array)] = array
    return bigger


class Batch:
    """Some events of a file, as columns of `rows` values; see scan_columns.py for their names and types."""

    def __init__(self, taken: dict[str, Any], shift_ns: int = 0) -> None:
        self._taken = taken
        self._shift_ns = shift_ns  # added to all ts: the file counts from another origin than its session
        self.keys: dict[str, tuple[bytes, bytes]] = taken["keys"]
        self.rows = len(taken["ph"])
        self._dense: dict[str, tuple[npt.NDArray[Any], Bools]] = {}

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column that every event has."""
        if name == "ts" and self._shift_ns:
            return self._shifted
        return np.frombuffer(self._taken[name], _DTYPES[name])

    @cached_property
    def _shifted(self) -> Int64s:
        return np.frombuffer(self._taken["ts"], np.int64) + self._shift_ns

    def sparse(
        self, key: str, dtype: type[np.generic] = np.int64
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        """(rows that have it, their values) of a wanted args key."""
        rows, values = self.keys.get(key, (b"", b""))
        return np.frombuffer(rows, np.uint32), np.frombuffer(values, dtype)

    def values(
        self, key: str, at: Int64s, dtype: type[np.generic] = np.int64
    ) -> tuple[npt.NDArray[Any], Bools]:
        """(value, whether it is there) of a wanted args key for each of the rows `at`."""
        dense, there = self._filled(key, dtype, ())
        return dense[at], there[at]

    def triples(self, key: str, at: Int64s) -> tuple[Int64s, Bools]:
        """As `values`, of a key of kind x: an array of shape (len(at), 3)."""
        dense, there = self._filled(key, np.int64, (3,))
        return dense[at], there[at]

    def _filled(
        self, key: str, dtype: type[np.generic], shape: tuple[int, ...]
    ) -> tuple[npt.NDArray[Any], Bools]:
        """A key as a column of the whole batch: several tables take their rows of it."""
        known = self._dense.get(key)
        if known is None:
            rows, values = self.sparse(key, dtype)
            there = np.zeros(self.rows, np.bool_)
            there[rows] = True
            dense = np.zeros((self.rows, *shape), dtype)
            dense[rows] = values.reshape(-1, *shape)
            known = self._dense[key] = dense, there
        return known

    @cached_property
    def _rest(self) -> tuple[pa.StringArray, Int64s]:
        ends = self.column("rest_ends")
        offsets = np.zeros(len(ends) + 1, np.int32)
        offsets[1:] = ends
        texts = pa.StringArray.from_buffers(
            len(ends), pa.py_buffer(offsets), pa.py_buffer(self._taken["rest"])
        )
        where = np.full(self.rows, -1, np.int64)
        where[self.column("rest_rows")] = np.arange(len(ends))
        return texts, where

    def rest(self, at: Int64s) -> pa.StringArray:
        """For each of the rows `at` the JSON object of the args that are no wanted key; null where there is
        none.
        """
        texts, where = self._rest
        index = where[at]
        return texts.take(from_numpy(np.maximum(index, 0), index < 0))


def batches(
    source: Source, scanner: Scanner, strings: Strings, rows: int, shift_ns: int = 0
) -> Iterator[Batch]:
    """Scan a file; yields batches of about `rows` events, fewer when they are long, `strings` being up
    to date with each.
    """
    fed = 0
    for piece in source.chunks():
        fed += len(piece)
        if scanner.feed(piece) >= rows or fed >= _BATCH_BYTES:
            fed = 0
            strings.update(scanner)
            yield Batch(scanner.take(), shift_ns)
    scanner.finish()
    strings.update(scanner)
    yield Batch(scanner.take(), shift_ns)
