"""Frames of slices and of sampled stacks, for formats that show call stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from topsprof.exporters.codes import combine
from topsprof.exporters.timeline import NONE, Part, Timeline, by_level
from topsprof.importers.stacks import Frame

if TYPE_CHECKING:
    from tops_kit.session import Session

Int64s = npt.NDArray[np.int64]

DEEPEST: Final = 1024
"""Frames of a stack that are written where each stack is spelt out: endless recursion would fill the disk."""
MORE: Final = Frame("\u2026")


class FrameTable:
    """Distinct frames by number."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._numbers: dict[Frame, int] = {}

    def number(self, frame: Frame) -> int:
        known = self._numbers.get(frame)
        if known is None:
            known = self._numbers[frame] = len(self.frames)
            self.frames.append(frame)
        return known

    def of(self, part: Part) -> Int64s:
        """The frame of each row of a table: its name, and where the table has them, file and line."""
        names, name = _coded(part.array("name"))
        columns = [name]
        files: list[str | None] = [None]
        if "file" in part.table.column_names:
            files, file = _coded(part.array("file"))
            columns += [file, part.integers("line")]
        code, first = combine(*columns)
        numbers = np.empty(len(first), np.int64)
        for i, row in enumerate(first.tolist()):
            place = (files[columns[1][row]], int(columns[2][row])) if len(columns) > 1 else (None, NONE)
            numbers[i] = self.number(
                Frame(names[name[row]] or "", place[0], None if place[1] == NONE else place[1])
            )
        return numbers[code]

    def of_timeline(self, line: Timeline) -> Int64s:
        """The frame of each slice."""
        out = np.empty(len(line), np.int64)
        for k, part in enumerate(line.parts):
            here = np.flatnonzero(line.part == k)
            out[here] = self.of(part)[line.row[here]]
        return out


def _coded(array: pa.DictionaryArray) -> tuple[list[str | None], Int64s]:
    words: list[str | None] = [*array.dictionary.to_pylist(), None]
    return words, np.asarray(array.indices.fill_null(len(words) - 1)).astype(np.int64)


def stack_paths(session: Session, table: FrameTable) -> dict[int, list[int]]:
    """By stack id the frames of the stack, outermost first, with MORE in place of what is beyond DEEPEST.

    Each distinct stack is looked at once.
    """
    more = table.number(MORE)
    rows = session.table("stack").to_pylist()
    nodes = {
        row["stack_id"]: (row["parent_id"], table.number(Frame(row["name"] or "", row["file"], row["line"])))
        for row in rows
    }
    paths: dict[int, list[int]] = {}
    for stack_id in nodes:
        chain: dict[int, None] = {}
        at: int | None = stack_id
        while at is not None and at in nodes and at not in paths and at not in chain:
            chain[at] = None
            at = nodes[at][0]
        for one in reversed(chain):
            parent = nodes[one][0]
            above = paths.get(parent, []) if parent is not None else []
            if len(above) < DEEPEST:
                paths[one] = [*above, nodes[one][1]]
            else:  # all that is deeper shares one path
                paths[one] = above if len(above) > DEEPEST else [*above, more]
    return paths


def parents(line: Timeline) -> tuple[Int64s, Int64s]:
    """(order, parent): slices by (track, start, depth), and for each the place in that order of the one
    around it, else -1."""
    order = np.lexsort((line.depth, line.start_ns, line.track))
    depth = line.depth[order]
    parent = np.full(len(order), -1, np.int64)
    above, *deeper = by_level(depth)
    for here in deeper:
        parent[here] = above[np.searchsorted(above, here) - 1]
        above = here
    return order, parent
