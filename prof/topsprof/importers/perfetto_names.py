"""Strings of a Perfetto trace: one pool of distinct ones, and the interning tables of its sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Uint64s = npt.NDArray[np.uint64]

NONE = -1


class Pool:
    """Distinct strings of one import, by number."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The number of a string, new or known."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.values)
            self.values.append(text)
        return code

    def knows(self, text: str) -> bool:
        """Whether the string has a number."""
        return text in self._codes

    def codes(self, texts: pa.Array) -> Int32s:
        """The numbers of many strings; only the distinct ones are looked at one by one. Null becomes NONE."""
        encoded = texts.dictionary_encode()
        known = np.array([self.code(text) for text in encoded.dictionary.to_pylist()] + [NONE], np.int32)
        index = encoded.indices.fill_null(len(known) - 1)
        out: Int32s = known[np.asarray(index)]
        return out

    def array(self, codes: npt.NDArray[Any]) -> pa.DictionaryArray:
        """Those strings as a dictionary array that holds no other; NONE becomes null."""
        used, inverse = np.unique(codes, return_inverse=True)
        mask = inverse < 1 if len(used) and used[0] == NONE else None
        inverse = inverse - (0 if mask is None else 1)
        words = [self.values[code] for code in used[used != NONE].tolist()]
        indices = pa.array(np.maximum(inverse, 0).astype(np.int32), mask=mask)
        return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


class Interned:
    """What sequences interned of one kind: (generation of a sequence's state, id) -> number in the pool."""

    def __init__(self) -> None:
        self._generation = np.empty(0, np.int64)
        self._iid = np.empty(0, np.uint64)
        self._code = np.empty(0, np.int32)
        self._ids = np.empty(0, np.uint64)
        self._keys = np.empty(0, np.int64)

    def add(self, generation: Int64s, iid: Uint64s, code: Int32s) -> None:
        """More definitions; of equal ones the latest counts."""
        if len(iid):
            self._set(
                np.concatenate((self._generation, generation)),
                np.concatenate((self._iid, iid)),
                np.concatenate((self._code, code)),
            )

    def keep(self, generations: set[int]) -> None:
        """Forget the definitions of every other generation."""
        live = np.isin(self._generation, np.fromiter(generations, np.int64, len(generations)))
        if not live.all():
            self._set(self._generation[live], self._iid[live], self._code[live])

    def lookup(self, generation: Int64s, iid: Uint64s) -> Int32s:
        """The numbers of references; NONE where nothing is defined."""
        out = np.full(len(iid), NONE, np.int32)
        if not len(self._ids) or not len(iid):
            return out
        rank = np.minimum(np.searchsorted(self._ids, iid), len(self._ids) - 1)
        key = generation * len(self._ids) + rank
        place = np.searchsorted(self._keys, key, "right") - 1
        found = (self._ids[rank] == iid) & (place >= 0)
        found &= self._keys[np.maximum(place, 0)] == key
        out[found] = self._code[place[found]]
        return out

    def _set(self, generation: Int64s, iid: Uint64s, code: Int32s) -> None:
        self._ids, rank = np.unique(iid, return_inverse=True)
        keys = generation * max(len(self._ids), 1) + rank
        order = np.argsort(keys, kind="stable")
        self._generation, self._iid, self._code = generation[order], iid[order], code[order]
        self._keys = keys[order]
