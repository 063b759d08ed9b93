"""Turning events into rows of the session's tables: process numbers, args, and what an import carries
along.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.arrays import from_list, from_numpy
from topsprof.importers.base import ImportOptions
from topsprof.importers.chrome_pairs import distinct
from topsprof.importers.scan import Batch, Bools, Bytes8, Int32s, Int64s, Strings
from topsprof.importers.scan_columns import NONE, STRING

NAMED_BASE = 1 << 40
"""Processes and threads that the trace calls by a name instead of a number get numbers from here on."""


class Numbers:
    """Numbers of processes and threads of one file, and the names of those that have no number of their
    own.
    """

    def __init__(self, options: ImportOptions, strings: Strings) -> None:
        self._options = options
        self._strings = strings
        self._named: dict[int, int] = {}
        self._keys: dict[int, int] = {}

        self.missing = 0  # the pid of events that state none

    @property
    def named(self) -> dict[int, str]:
        """Number -> name of what the trace calls by a name."""
        return {number: self._strings.text(string) for string, number in self._named.items()}

    def plain(self, values: Int64s, kinds: Bytes8, missing: int = 0) -> Int64s:
        """pid or tid columns as numbers: names get one each, nothing is `missing`."""
        if (kinds == 1).all():
            return values
        numbers = np.where(kinds == NONE, missing, values)
        for string in np.unique(values[kinds == STRING]).tolist():
            number = self._named.setdefault(string, NAMED_BASE + len(self._named))
            numbers[(kinds == STRING) & (values == string)] = number
        return numbers

    def key(self, pid: int) -> int:
        """The session's process_id of one pid."""
        known = self._keys.get(pid)
        if known is None:
            known = self._keys[pid] = self._options.process_id(pid)
        return known

    def keys(self, pids: Int64s) -> Int64s:
        """The session's process_id of each pid."""
        found = distinct(pids)
        wanted = [self.key(pid) for pid in found]
        if wanted == found:
            return pids
        return np.array(wanted, np.int64)[np.searchsorted(np.array(found, np.int64), pids)]


def nullable(values: npt.NDArray[Any], there: Bools) -> Any:
    """An Arrow array with nulls where nothing is there; None when nothing is there at all."""
    if there.all():
        return from_numpy(values)
    return from_numpy(values, ~there) if there.any() else None


def text_scalar(text: str | None) -> pa.Scalar:
    """As pyarrow.scalar, which would load pandas to ask whether it was given a Series."""
    return from_list([text], pa.string())[0]


def _joined(*texts: Any) -> Any:
    """Texts of each row one after the other; null where one of them is."""
    return pc.binary_join_element_wise(*texts, text_scalar(""))


class Rows:
    """Some events of a batch, about to become rows of one table. Columns are in the order of `at`."""

    def __init__(self, batch: Batch, at: Int64s, strings: Strings) -> None:
        self.batch = batch
        self.at = at
        self.strings = strings
        self._used: set[str] = set()

    def __len__(self) -> int:
        return len(self.at)

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column that every event has."""
        return self.batch.column(name)[self.at]

    def integers(self, key: str) -> Any:
        """The args key as nullable integers."""
        values, there = self.integers_there(key)
        return nullable(values, there)

    def integers_there(self, key: str) -> tuple[Int64s, Bools]:
        """(value, whether it is there) of the args key."""
        self._used.add(key)
        return self.batch.values(key, self.at)

    def restore(self, key: str) -> None:
        """The args key stays in `args`, though it has been read."""
        self._used.discard(key)

    def floats(self, key: str) -> Any:
        """The args key as nullable floats."""
        self._used.add(key)
        return nullable(*self.batch.values(key, self.at, np.float64))

    def text_ids(self, key: str) -> Int64s:
        """The args key as ids of strings, -1 where it is not there."""
        values, there = self.integers_there(key)
        return np.where(there, values, -1)

    def names(self, key: str) -> Any:
        """The args key as names; None when no row has it."""
        ids = self.text_ids(key)
        return self.strings.names(ids) if (ids >= 0).any() else None

    def triples(self, key: str) -> tuple[Any, Any, Any]:
        """The args key as three nullable integer columns."""
        self._used.add(key)
        values, there = self.batch.triples(key, self.at)
        return nullable(values[:, 0], there), nullable(values[:, 1], there), nullable(values[:, 2], there)

    def mapped(self, ids: Int64s | Int32s, function: Callable[[str], str | None]) -> Any:
        """A name column made from the texts of `ids`: the function is called once a distinct text."""
        used, places, none = self.strings.codes(ids)
        values = [function(self.strings.text(number)) for number in used.tolist()]
        if all(value is None for value in values):
            return None
        names = from_list(values, pa.string()).dictionary_encode()
        return names.take(from_numpy(places, none))

    def args(self, kinds: dict[str, str]) -> pa.StringArray:
        """The JSON objects of what no column took: the args without a column, and those columns that were
        not asked for.

        `kinds` are the kinds of the wanted keys. Call it last.
        """
        rest = self.batch.rest(self.at)
        mine = np.zeros(self.batch.rows, np.bool_)
        mine[self.at] = True
        pieces = [
            self._piece(key, kinds[key])
            for key in self.batch.keys
            if key not in self._used and mine[self.batch.sparse(key)[0]].any()
        ]
        if not pieces:
            return rest
        nothing = text_scalar("")
        inner = _joined(text_scalar(","), pc.utf8_slice_codeunits(rest, 1, -1))
        members = [pc.coalesce(text, nothing) for text in (inner, *pieces)]  # each with a comma before it
        joined = _joined(*members)
        objects = _joined(text_scalar("{"), pc.utf8_slice_codeunits(joined, 1), text_scalar("}"))
        return pc.if_else(pc.equal(joined, nothing), text_scalar(None), objects)

    def _piece(self, key: str, kind: str) -> Any:
        """`,"key":value` for the rows that have it, else null."""
        if kind == "x":
            values, there = self.batch.triples(key, self.at)
            texts: Any = from_list([f"[{x},{y},{z}]" for x, y, z in values.tolist()], pa.string())
        else:
            values, there = self.batch.values(key, self.at, np.float64 if kind == "f" else np.int64)
            if kind == "u":
                texts = pc.cast(from_numpy(values.view(np.uint64)), pa.string())
            elif kind in "if":
                texts = pc.cast(from_numpy(values), pa.string())
            else:
                as_json = json.dumps if kind == "s" else _json_text
                texts = self.mapped(np.where(there, values, -1), as_json).dictionary_decode()
        texts = _joined(text_scalar(f",{json.dumps(key)}:"), texts)
        return pc.if_else(from_numpy(there), texts, text_scalar(None))


def _json_text(text: str) -> str:
    """A text that was JSON, or a string, as JSON."""
    if text[:1] in "[{":
        try:
            json.loads(text)
        except ValueError:
            return json.dumps(text)
        return text
    return json.dumps(text)
