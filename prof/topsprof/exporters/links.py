"""Links of a session at the slices that they leave and arrive at, as formats want them that draw arrows
between slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from topsprof.exporters import assemble as asm
from topsprof.exporters.codes import combine
from topsprof.exporters.protobuf import tag
from topsprof.exporters.timeline import DEVICE_TABLES, NONE, Part, Timeline, whole
from topsprof.reports.data import Data

if TYPE_CHECKING:
    from tops_kit.session import Session
    from topsprof.exporters.base import Exported

Int64s = npt.NDArray[np.int64]

_WORK = DEVICE_TABLES - {"sync"}  # what calls cause
_FLOW, _FLOW_ENDS = 47, 48  # fields of TrackEvent


@dataclass(frozen=True, slots=True)
class Arrow:
    """Flow fields of slices: slice i carries `data[starts[i]:ends[i]]`. No arrays: there are no links."""

    data: npt.NDArray[np.uint8] | None = None
    starts: Int64s | None = None
    ends: Int64s | None = None

    def pieces(self, slices: Int64s) -> list[asm.Piece]:
        """What begins of those slices carry."""
        if self.data is None or self.starts is None or self.ends is None:
            return []
        return [asm.Piece(asm.BYTES, data=self.data, starts=self.starts[slices], ends=self.ends[slices])]


def attach(session: Session, line: Timeline, exported: Exported) -> Arrow:
    """Put the session's links at the slices of the timeline. Links of which an end lies in no slice are
    counted as left out."""
    source, target, _ = ends(session, line)
    found = (source >= 0) & (target >= 0)
    exported.leave_out(int((~found).sum()), "links that leave or arrive where no slice is")
    source, target = source[found], target[found]
    if not len(source):
        return Arrow()
    number = np.arange(1, len(source) + 1)
    slices = np.concatenate((source, target))
    arrives = np.arange(len(slices)) >= len(source)
    order = np.argsort(slices, kind="stable")
    flow = np.concatenate((number, number))[order]
    arrives, slices = arrives[order], slices[order]
    rows = asm.assemble(
        len(slices),
        [
            asm.constant(tag(_FLOW, 1), ~arrives),
            asm.constant(tag(_FLOW_ENDS, 1), arrives),
            asm.number(asm.FIXED, flow),
        ],
    )
    bounds = np.searchsorted(slices, np.arange(len(line) + 1))
    offsets = np.append(rows.starts, len(rows.data))
    return Arrow(rows.data, offsets[bounds[:-1]], offsets[bounds[1:]])


def ends(session: Session, line: Timeline, origin_ns: int = 0) -> tuple[Int64s, Int64s, Any]:
    """For each link the slices that it leaves and arrives at (-1: none): one that begins there, else the
    innermost around. The timeline's times are those of the session less `origin_ns`."""
    rows = session.table("link")
    if session.info["kind"] == "recording":
        rows = pa.concat_tables([rows, caused(line, origin_ns).cast(rows.schema)])
        kinds = []
        if any(part.table.name == "graph" for part in line.parts) and session.segments("graph_node"):
            kinds.append("'graph'")
        if session.segments("gcu_event") and session.segments("sync"):
            kinds.append("'event'")
        if kinds:
            # an event is reached where what came before it ends: an arrow leaves from within that
            edges = Data(session).arrow(
                "SELECT * REPLACE (source_ns - (kind = 'event')::BIGINT AS source_ns) FROM cause "
                f"WHERE kind IN ({', '.join(kinds)})"
            )
            rows = pa.concat_tables([rows, edges.cast(rows.schema)])
    if not rows.num_rows or not len(line):
        none = np.full(rows.num_rows, -1, np.int64)
        return none, none, rows
    finder = _Finder(line)
    found = []
    for side in ("source", "target"):
        process, thread, time = (
            np.asarray(whole(rows[f"{side}_{name}"]).fill_null(NONE))
            for name in ("process_id", "thread_id", "ns")
        )
        found.append(finder.find(process, thread, np.where(time == NONE, NONE, time - origin_ns)))
    return found[0], found[1], rows


def caused(line: Timeline, origin_ns: int = 0) -> pa.Table:
    """Links (kind ac2g) from each call to what a device did for it, of slices that are in the timeline: a
    recording says that by correlation ids."""
    calls = [part for part in line.parts if part.table.name == "api"]
    work = [part for part in line.parts if part.table.name in _WORK]

    def column(parts: list[Part], name: str) -> Int64s:
        found = [part.start_ns if name == "start_ns" else part.integers(name) for part in parts]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    count = len(column(calls, "start_ns"))
    process, correlation, start = (
        np.concatenate((column(calls, name), column(work, name)))
        for name in ("process_id", "correlation_id", "start_ns")
    )
    number, _ = combine(process, correlation)
    call_of = np.full(int(number.max(initial=-1)) + 1, -1, np.int64)
    latest_first = np.argsort(-start[:count], kind="stable")
    call_of[number[:count][latest_first]] = latest_first  # of a runtime and a driver call the outer one
    source = call_of[number[count:]]
    target = np.flatnonzero((source >= 0) & (correlation[count:] > 0))
    source = source[target]
    return pa.table(
        {
            "kind": pa.array(["ac2g"]).dictionary_encode().take(pa.array(np.zeros(len(target), np.int64))),
            "link_id": correlation[count:][target],
            "source_process_id": process[source],
            "source_thread_id": column(calls, "thread_id")[source],
            "source_ns": start[source] + origin_ns,
            "target_process_id": process[count:][target],
            "target_thread_id": column(work, "stream_id")[target],
            "target_ns": start[count:][target] + origin_ns,
        }
    )


class _Finder:
    """Slices by (process, thread or stream, time)."""

    def __init__(self, line: Timeline) -> None:
        process = np.array([key.process_id for key in line.tracks], np.int64)
        place = np.array([key.stream_id if key.on_device else key.thread_id for key in line.tracks], np.int64)
        self._places, code = np.unique(np.stack((process, place)), axis=1, return_inverse=True)
        mine = code.reshape(-1)[line.track]
        self._order = np.argsort(mine, kind="stable")  # within a place still by start, outer before inner
        self._bounds = np.searchsorted(mine[self._order], np.arange(self._places.shape[1] + 1))
        self._line = line

    def find(self, process: Int64s, place: Int64s, time: Int64s) -> Int64s:
        """The slice of each, -1 for none."""
        out = np.full(len(time), -1, np.int64)
        for k in range(self._places.shape[1]):
            here = np.flatnonzero((process == self._places[0, k]) & (place == self._places[1, k]))
            if len(here):
                out[here] = self._within(k, time[here])
        return out

    def _within(self, k: int, time: Int64s) -> Int64s:
        slices = self._order[self._bounds[k] : self._bounds[k + 1]]
        start, end = self._line.start_ns[slices], self._line.end_ns[slices]
        at = last_reaching(end, np.searchsorted(start, time, "right") - 1, time)
        return np.where(at >= 0, slices[np.maximum(at, 0)], -1)


def last_reaching(values: Int64s, upto: Int64s, least: Int64s) -> Int64s:
    """For each of `upto` (-1: nowhere) the last place up to there whose value is at least `least`; -1: none.

    A tree of maxima finds it in a few steps, however far back it is.
    """
    levels = [values]
    while len(levels[-1]) > 1:
        if len(levels[-1]) % 2:
            levels[-1] = np.append(levels[-1], NONE)
        levels.append(np.maximum(levels[-1][::2], levels[-1][1::2]))
    tree = np.concatenate(levels)
    first = np.cumsum([0, *map(len, levels[:-1])])
    place, level = upto.copy(), np.zeros(len(upto), np.int64)
    search = np.flatnonzero(place >= 0)
    while len(search):  # to the left, in ever larger steps
        search = search[tree[first[level[search]] + place[search]] < least[search]]
        right = place[search] % 2 == 1
        place[search] = np.where(right, place[search] - 1, place[search] // 2 - 1)
        level[search] += ~right
        search = search[place[search] >= 0]
    search = np.flatnonzero((place >= 0) & (level > 0))
    while len(search):  # and down to the last one there
        level[search] -= 1
        place[search] = 2 * place[search] + 1
        place[search] -= tree[first[level[search]] + place[search]] < least[search]
        search = search[level[search] > 0]
    return place
