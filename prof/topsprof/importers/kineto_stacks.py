"""Python call stacks of operators: which traced Python functions and modules each operator lies in.

Some versions of Kineto write the operators and Python functions of a thread in the order of their starts: one
pass with a stack for each thread does, over all batches (`OperatorStacks`). Others write all functions after
all operators: then the operators have to wait (`LateOperators`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tops_kit.session.arrays import from_list, from_numpy
from topsprof.importers.chrome_pairs import distinct
from topsprof.importers.device_names import MODULE
from topsprof.importers.scan import Int32s, Int64s, Strings, new_stacks

HELD_BYTES = 400 << 20
"""What waiting operators and functions may take."""
_MERGED_ROWS = 1 << 19


class OperatorStacks:
    """Finds the stack of each operator of a file, batch by batch."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._stacks = new_stacks()
        self._tracks: dict[int, int] = {}
        self._texts: dict[int, str] = {}
        self._modules: dict[int, str | None] = {}
        self._any = False

    def tracks(self, thread: Int64s) -> Int64s:
        """Small numbers of threads, which are given as identities."""
        identity, inverse = np.unique(thread, return_inverse=True)
        numbers = [self._tracks.setdefault(one, len(self._tracks)) for one in identity.tolist()]
        return np.array(numbers, np.int64)[inverse]

    def walk(self, track: Int64s, start: Int64s, duration: Int64s, function: Int32s) -> Int32s | None:
        """The path of each row, -1 for none; None while no function has come.

        `track` are numbers of threads, `function` the id of a Python function's name, -1 for an operator.
        What comes in one call may be in any order, but later calls must not go back in time.
        """
        self._any = self._any or bool((function >= 0).any())
        if not self._any:
            return None
        # a function stands before the operator that takes just as long
        order = np.lexsort((function < 0, -duration, start))
        paths = np.empty(len(start), np.int32)
        paths[order] = np.frombuffer(
            self._stacks.walk(track[order], start[order], (start + duration)[order], function[order]),
            np.int32,
        )
        return paths

    def texts(self, paths: Int32s) -> Any:
        """A name column: the functions of each path, innermost last, separated by `;`. None when there is
        none.
        """
        return self._column(paths, self._texts, self._add_function)

    def modules(self, paths: Int32s) -> Any:
        """A name column: the modules of each path, innermost last, separated by `.`. None when there is
        none.
        """
        return self._column(paths, self._modules, self._add_module)

    def _column(self, paths: Int32s, known: dict[int, Any], add: Any) -> Any:
        used, inverse = np.unique(paths, return_inverse=True)
        if not len(used) or used[-1] < 0:
            return None
        pairs = np.frombuffer(self._stacks.paths(), np.int32).reshape(-1, 2)
        texts = [self._text(int(path), pairs, known, add) if path >= 0 else None for path in used]
        if all(text is None for text in texts):
            return None
        return from_list(texts, pa.string()).dictionary_encode().take(from_numpy(inverse))

    def _text(self, path: int, pairs: Any, known: dict[int, Any], add: Any) -> str | None:
        missing: list[int] = []
        at = path
        while at >= 0 and at not in known:
            missing.append(at)
            at = int(pairs[at, 0])
        for one in reversed(missing):
            caller, function = int(pairs[one, 0]), self._strings.text(int(pairs[one, 1]))
            known[one] = add(known[caller] if caller >= 0 else None, function)
        text: str | None = known[path]
        return text

    @staticmethod
    def _add_function(above: str | None, function: str) -> str:
        function = function.replace(";", ",")
        return function if above is None else f"{above};{function}"

    @staticmethod
    def _add_module(above: str | None, function: str) -> str | None:
        if not function.startswith(MODULE):
            return above
        module = function.removeprefix(MODULE)
        return module if above is None else f"{above}.{module}"


class LateOperators:
    """Operators that wait for the functions around them, which stand later in the file.

    Their columns are held compressed; `full` says when they take too much.
    """

    def __init__(self, stacks: OperatorStacks, limit_bytes: int = HELD_BYTES) -> None:
        self._stacks = stacks
        self._limit = limit_bytes
        self._operators: list[tuple[Int32s, Int64s, Int64s]] = []  # track, start, duration
        self._functions: list[tuple[Int32s, Int64s, Int64s, Int32s]] = []  # ... and name
        self._held: list[pa.Buffer] = []
        self._bytes = 0
        codec = "lz4" if pa.Codec.is_available("lz4") else None
        self._options = pa.ipc.IpcWriteOptions(compression=codec)

    @property
    def full(self) -> bool:
        """Whether nothing more should wait."""
        return self._bytes > self._limit

    def add_functions(self, thread: Int64s, start: Int64s, duration: Int64s, name: Int32s) -> None:
        """Functions of one batch."""
        if len(start):
            part = self._stacks.tracks(thread).astype(np.int32), start, duration, name.astype(np.int32)
            self._functions.append(part)
            self._bytes += sum(column.nbytes for column in part)

    def add(self, columns: dict[str, Any], thread: Int64s, start: Int64s, duration: Int64s) -> None:
        """Operators of one batch: rows of the table op."""
        rows = len(start)
        arrays = {
            name: column if isinstance(column, (pa.Array, pa.ChunkedArray)) else from_numpy(column)
            for name, column in columns.items()
            if column is not None
        }
        table = pa.table(arrays)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=self._options) as out:
            out.write_table(table)
        self._held.append(sink.getvalue())
        part = self._stacks.tracks(thread).astype(np.int32), start, duration
        self._operators.append(part)
        self._bytes += self._held[-1].size + sum(column.nbytes for column in part)
        assert table.num_rows == rows

    def resolve(self) -> Iterator[tuple[dict[str, Any], Int32s | None]]:
        """The columns of each batch with the paths of its rows (None: no functions at all). Forgets all."""
        sizes = [len(start) for _, start, _ in self._operators]
        paths = self._paths() if self._functions and sizes else None
        held, self._held = self._held, []
        self._operators, self._functions, self._bytes = [], [], 0
        at = 0
        for size, data in zip(sizes, held, strict=True):
            table = pa.ipc.open_stream(data).read_all().combine_chunks()
            columns = {name: table.column(name).combine_chunks() for name in table.column_names}
            yield columns, None if paths is None else paths[at : at + size]
            at += size

    def _paths(self) -> Int32s:
        """The path of every operator. Merges operators and functions of a thread, some of them at a time."""
        track, start, duration, name = _sorted(self._functions)
        operators = _sorted([(*part, np.full(len(part[0]), -1, np.int32)) for part in self._operators])
        place = _order(*(np.concatenate(c) for c in list(zip(*self._operators, strict=True))))
        paths = np.full(len(place), -1, np.int32)
        for one in distinct(track):
            low, high = (int(i) for i in np.searchsorted(track, [one, one + 1]))
            done, last = (int(i) for i in np.searchsorted(operators[0], [one, one + 1]))
            for first in range(low, high, _MERGED_ROWS):
                end = min(first + _MERGED_ROWS, high)
                upto = last
                if end < high:
                    upto = done + int(np.searchsorted(operators[1][done:last], start[end]))
                merged = [
                    np.concatenate((mine[first:end], theirs[done:upto]))
                    for mine, theirs in zip((track, start, duration, name), operators, strict=True)
                ]
                found = self._stacks.walk(merged[0].astype(np.int64), merged[1], merged[2], merged[3])
                assert found is not None
                paths[place[done:upto]] = found[end - first :]
                done = upto
        return paths


def _order(track: Any, start: Int64s, duration: Int64s) -> Int64s:
    order: Int64s = np.lexsort((-duration, start, track))
    return order


def _sorted(parts: list[Any]) -> list[Any]:
    """Columns by track, start and -duration."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = _order(*columns[:3])
    return [column[order] for column in columns]
