"""Exports collapsed stacks: the session's samples, or, where it has none, its slices by the time spent in
each itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tops_kit.session.schema import Kind
from topsprof.exporters import assemble as asm
from topsprof.exporters import timeline
from topsprof.exporters.base import Exported, ExportOptions, FileExporter, nothing
from topsprof.exporters.frames import DEEPEST, MORE, FrameTable, parents, stack_paths
from topsprof.exporters.output import stream
from topsprof.exporters.timeline import by_level
from topsprof.importers.json_columns import floats
from topsprof.importers.stacks import Frame, StackTree

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session

Int64s = npt.NDArray[np.int64]

_BEFORE_SEPARATOR = re.compile(r"(\\*)(;|$)")


class CollapsedExporter(FileExporter):
    """A line `frame;frame weight` for each distinct stack, for flamegraph.pl and everything that reads its
    input."""

    name = "collapsed"
    suffix = ".collapsed"
    help = "collapsed stacks: samples, or self times of slices in ns (.collapsed)"
    text = True

    def export(
        self, session: Session, selection: Selection | None, out: Path, options: ExportOptions
    ) -> Exported:
        exported = Exported()
        table = FrameTable()
        stacks, weights, _ = weighted_stacks(session, selection, table, exported)
        if not stacks:
            raise nothing(session, "sample or slice")
        words = [escaped(_text(frame)) for frame in table.frames]
        # A line needs something before its weight: a stack of nothing but one nameless frame gets a question
        # mark.
        paths = pa.array(
            [
                ";".join([*(words[one] for one in path[:-1]), _last(_text(table.frames[path[-1]]))]) or "?"
                for path in stacks
            ],
            pa.large_string(),
        )
        lines = asm.assemble(
            len(stacks), [asm.text(paths), asm.text(floats(weights), asm.BYTES, b" ", b"\n")]
        )
        with stream(out, options.compress) as file:
            file.write(lines.data.data)
        return exported


def weighted_stacks(
    session: Session, selection: Selection | None, table: FrameTable, exported: Exported
) -> tuple[list[list[int]], Int64s, str]:
    """Distinct stacks (frames of `table`, outermost first), what each weighs, and the unit: of samples, or,
    where there are none, of slices by their self times in ns.
    """
    samples = timeline.load(session, selection, (Kind.INSTANT,), ("sample",))
    if not samples:
        return *_sliced(session, selection, table, exported), "ns"
    counts = samples[0].array("unit").value_counts().to_pylist()
    unit = max(counts, key=lambda entry: entry["counts"])["values"] if counts else None
    return *_sampled(session, samples[0], table, exported), unit or "samples"


def _text(frame: Frame) -> str:
    if frame.file is None:
        return frame.name
    return f"{frame.name} ({frame.file}{'' if frame.line is None else f':{frame.line}'})"


def escaped(name: str) -> str:
    """A frame's text as it stands before a separator: its own `;` as `\\;`, backslashes before one doubled.

    >>> escaped("operator;"), escaped("C:\\\\dir"), escaped("a\\\\")
    ('operator\\\\;', 'C:\\\\dir', 'a\\\\\\\\')
    """
    name = " ".join(name.split("\n"))
    return _BEFORE_SEPARATOR.sub(lambda found: found[1] * 2 + ("\\;" if found[2] else ""), name)


def _last(name: str) -> str:
    """A frame's text at the end of a stack, where no separator follows."""
    text = escaped(name)
    doubled = len(text) - len(text.rstrip("\\"))
    return text[: len(text) - doubled // 2] if doubled else text


def _sampled(
    session: Session, part: timeline.Part, table: FrameTable, exported: Exported
) -> tuple[list[list[int]], Int64s]:
    """Distinct stacks of the samples, and the sum of their weights. One unit can be shown: the most
    frequent."""
    units = part.array("unit").indices.fill_null(-1)
    code, count = np.unique(np.asarray(units), return_counts=True)
    chosen = np.flatnonzero(np.asarray(units) == code[np.argmax(count)])
    exported.leave_out(len(part.start_ns) - len(chosen), "samples of another unit")
    paths = stack_paths(session, table)
    ids = part.integers("stack_id")[chosen]
    stacks, inverse, count = np.unique(ids, return_inverse=True, return_counts=True)
    weights = np.bincount(inverse, np.asarray(part.array("weight").fill_null(1.0))[chosen], len(stacks))
    found = [
        (paths[stack], weight)
        for stack, weight in zip(stacks.tolist(), weights.tolist(), strict=True)
        if paths.get(stack)
    ]
    none = int((ids == timeline.NONE).sum())
    exported.leave_out(
        none, "samples without a stack: no Python function ran, or its frames could not be read"
    )
    known = np.array([stack == timeline.NONE or bool(paths.get(stack)) for stack in stacks.tolist()], bool)
    lost = int(count[~known].sum())
    exported.leave_out(lost, "samples whose stack is not in the session")
    exported.rows = len(chosen) - none - lost
    return [path for path, _ in found], np.array([weight for _, weight in found])


def _sliced(
    session: Session, selection: Selection | None, table: FrameTable, exported: Exported
) -> tuple[list[list[int]], Int64s]:
    """Stacks of nested slices, and the ns that passed in each but not in those inside it."""
    line = timeline.lay_out(timeline.load(session, selection))
    if not len(line):
        return [], np.empty(0, np.int64)
    frame = table.of_timeline(line)
    order, parent = parents(line)
    frame, depth = frame[order], line.depth[order]
    own = (line.end_ns - line.start_ns)[order]
    inside = np.flatnonzero(parent >= 0)
    spent = np.zeros(len(order), np.int64)
    np.add.at(spent, parent[inside], own[inside])
    own = np.maximum(own - spent, 0)
    # Distinct paths, level by level: a path is its parent's and a frame.
    tree = StackTree(0)
    node = np.full(len(order), -1, np.int64)
    frame[depth >= DEEPEST] = table.number(MORE)
    for level, here in enumerate(by_level(depth)):
        above = node[parent[here]] if level else np.full(len(here), -1, np.int64)
        node[here] = tree.extend(above, frame[here]) if level <= DEEPEST else above
    exported.leave_out(
        int((depth >= DEEPEST).sum()),
        f"slices inside {DEEPEST} others: their time is that of a frame {MORE.name}",
    )
    count = np.bincount(node, minlength=len(tree))
    total = np.bincount(node, own.astype(np.float64), len(tree))
    exported.rows = len(line)
    kept = np.flatnonzero((count > 0) & (total > 0))
    if not len(kept):
        kept = np.flatnonzero(count > 0)
    return [tree.path(one) for one in kept.tolist()], total[kept]
