"""Call stacks into the tree of table stack: each distinct path once, however many samples have it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

# `main (app.py:12)`, `malloc (/lib/libc.so.6)`: what samplers append to a function's name
_PLACE = re.compile(r"(.+?) \(([^()]*?[./\\<][^()]*?)(?::(\d+))?\)")


class Frame(NamedTuple):
    """One function of a stack."""

    name: str
    file: str | None = None
    line: int | None = None

    @classmethod
    def parse(cls, text: str) -> Frame:
        """The frame that a text like `main (app.py:12)` or just `main` stands for."""
        found = _PLACE.fullmatch(text)
        if found is None:
            return cls(text)
        return cls(found[1], found[2], None if found[3] is None or len(found[3]) > 18 else int(found[3]))


@dataclass
class StackTree:
    """Paths of frames, numbered from `first` on. `frames` lists the frames that paths refer to by number."""

    first: int = 1

    @classmethod
    def of_process(cls, process_id: int) -> StackTree:
        """A tree whose numbers no file of the same job has: it begins at the process's share."""
        return cls((process_id << 32) + 1)

    def __post_init__(self) -> None:
        self._nodes: dict[tuple[int, int], int] = {}
        self._written = 0
        self._reversed: list[tuple[int, int]] = []

    def add(self, offsets: Int64s, frames: Int64s) -> Int64s:
        """Take in stacks, outermost frame first: stack i is frames[offsets[i]:offsets[i + 1]].

        Returns the number of each; -1 for an empty one. Works level by level: only distinct paths are looked
        at one by one.
        """
        sizes = np.diff(offsets)
        node = np.full(len(sizes), -1, np.int64)
        order = np.argsort(-sizes, kind="stable")
        deep = np.searchsorted(
            -sizes[order], -np.arange(int(sizes.max(initial=0)))
        )  # stacks of that many frames
        for level, count in enumerate(deep.tolist()):
            here = np.sort(order[:count])
            node[here] = self.extend(node[here], frames[offsets[here] + level])
        return node

    def extend(self, parent: Int64s, frame: Int64s) -> Int64s:
        """The paths of parents (-1: none) with one frame more each."""
        if not len(frame):
            return np.empty(0, np.int64)
        base = int(frame.max()) + 1
        above = np.where(parent < 0, 0, parent - self.first + 1)
        pairs, inverse = np.unique(above * base + frame, return_inverse=True)
        known = [
            self._node(pair // base + self.first - 1 if pair >= base else -1, pair % base)
            for pair in pairs.tolist()
        ]
        return np.array(known, np.int64)[inverse]

    def path(self, node: int) -> list[int]:
        """The frames of a path, outermost first."""
        if len(self._reversed) != len(self._nodes):
            self._reversed = list(self._nodes)
        out: list[int] = []
        while node >= 0:
            node, frame = self._reversed[node - self.first]
            out.append(frame)
        return out[::-1]

    def __len__(self) -> int:
        return len(self._nodes)

    def _node(self, parent: int, frame: int) -> int:
        return self._nodes.setdefault((parent, frame), self.first + len(self._nodes))

    def take_rows(self, frames: Sequence[Frame]) -> dict[str, Any] | None:
        """Columns of table stack for the paths that no earlier call returned; None when there are none."""
        new = list(self._nodes.items())[self._written :]
        self._written = len(self._nodes)
        if not new:
            return None
        used = [frames[frame] for (_, frame), _ in new]
        return {
            "stack_id": [number for _, number in new],
            "parent_id": _int64s([None if parent < 0 else parent for (parent, _), _ in new]),
            "name": [frame.name for frame in used],
            "file": [frame.file for frame in used],
            "line": _int64s([frame.line for frame in used]),
        }


def _int64s(values: list[int | None]) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.int64())
