"""Python call stacks of operators: which traced Python functions each operator lies in.

Kineto writes operators and Python functions of a thread in the order of their starts, so one pass with a
stack for each thread does, over all batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from topsprof.importers.scan import Int32s, Int64s, Strings, new_stacks


class OperatorStacks:
    """Finds the stack of each operator of a file, batch by batch."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._stacks = new_stacks()
        self._tracks: dict[int, int] = {}
        self._texts: dict[int, str] = {}
        self._any = False

    def walk(self, thread: Int64s, start: Int64s, duration: Int64s, function: Int64s) -> Int32s | None:
        """The path of each row, -1 for none; None while no function has come.

        `thread` is an identity, `function` the id of a Python function's name, -1 for an operator.
        """
        self._any = self._any or bool((function >= 0).any())
        if not self._any:
            return None
        identity, inverse = np.unique(thread, return_inverse=True)
        numbers = np.array(
            [self._tracks.setdefault(one, len(self._tracks)) for one in identity.tolist()], np.int64
        )
        track = numbers[inverse]
        order = np.lexsort((np.arange(len(start)), -duration, start))
        paths = np.empty(len(start), np.int32)
        paths[order] = np.frombuffer(
            self._stacks.walk(
                track[order],
                start[order],
                (start + duration)[order],
                function.astype(np.int32)[order],
            ),
            np.int32,
        )
        return paths

    def texts(self, paths: Int32s) -> Any:
        """A name column: the functions of each path, innermost last, separated by `;`. None when there is
        none.
        """
        used, inverse = np.unique(paths, return_inverse=True)
        if not len(used) or used[-1] < 0:
            return None
        pairs = np.frombuffer(self._stacks.paths(), np.int32).reshape(-1, 2)
        texts = [self._text(int(path), pairs) if path >= 0 else None for path in used]
        return pa.array(texts, pa.string()).dictionary_encode().take(pa.array(inverse))

    def _text(self, path: int, pairs: Any) -> str:
        missing: list[int] = []
        at = path
        while at >= 0 and at not in self._texts:
            missing.append(at)
            at = int(pairs[at, 0])
        for one in reversed(missing):
            caller, function = int(pairs[one, 0]), self._strings.text(int(pairs[one, 1])).replace(";", ",")
            self._texts[one] = f"{self._texts[caller]};{function}" if caller >= 0 else function
        return self._texts[path]
