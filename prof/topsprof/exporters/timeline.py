"""The slices of a session, laid out for formats that nest slices on tracks.

Formats with begin and end events (Perfetto, speedscope) want the slices of a track to nest. Where ours don't
(asyncio, queues whose operations overlap), the slices that would cross others go to further tracks of the
same thread or queue; none is cut or left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tops_kit.session.arrays import end_of
from tops_kit.session.lanes import lane_order
from tops_kit.session.schema import TABLES, Column, Kind, Table
from tops_kit.session.segment import SegmentData
from topsprof.exporters.codes import combine, encode

if TYPE_CHECKING:
    from tops_kit.session import Selection, Session
    from topsprof.exporters.base import Exported

Int64s = npt.NDArray[np.int64]

NONE = int(np.iinfo(np.int64).min)  # stands for null in a track's key
DEVICE_TABLES = frozenset({"kernel", "memcpy", "memset", "sync", "graph"})
# Waits and whole graphs last while kernels run on the same queue: they get tracks of their own.
APART = frozenset({"sync", "graph"})


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one table that are exported, in one piece, as slices (instants have duration 0)."""

    table: Table
    rows: pa.Table
    start_ns: Int64s
    duration_ns: Int64s

    def integers(self, column: str) -> Int64s:
        """A column of integers, NONE for null; all NONE when the table has no such column."""
        if column not in self.table.column_names:
            return np.full(len(self.start_ns), NONE, np.int64)
        values = self.rows[column].combine_chunks()
        return np.asarray(values.fill_null(NONE) if values.null_count else values).astype(
            np.int64, copy=False
        )

    def array(self, column: str) -> pa.Array:
        """A column as one array; rows of tables without a name are called as their table."""
        if column == "name" and column not in self.rows.column_names:
            zeros = pa.array(np.zeros(len(self.start_ns), np.int32))
            return pa.DictionaryArray.from_arrays(zeros, [self.table.name])
        if column == "args" and column not in self.rows.column_names:
            return pa.nulls(len(self.start_ns), pa.string())
        return whole(self.rows[column])


@dataclass(frozen=True, slots=True)
class TrackKey:
    """Whose slices stand on a track. Numbers are NONE where they don't apply. `overflow` > 0: further tracks
    of the same."""

    process_id: int
    thread_id: int
    task_id: int
    device_id: int
    context_id: int
    stream_id: int
    apart: str = ""
    overflow: int = 0

    @property
    def on_device(self) -> bool:
        return self.device_id != NONE or self.stream_id != NONE


@dataclass(frozen=True, slots=True)
class Timeline:
    """All slices, sorted by (start, depth): part and row in the part, begin, end, track (index into `tracks`)
    and depth."""

    parts: list[Part]
    part: npt.NDArray[np.int16]
    row: Int64s
    start_ns: Int64s
    end_ns: Int64s
    track: Int64s
    depth: npt.NDArray[np.int32]
    tracks: list[TrackKey]

    def __len__(self) -> int:
        return len(self.start_ns)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array; name columns with one dictionary."""
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.chunk(0) if combined.num_chunks else pa.array([], column.type)
    return combined


def load(
    session: Session,
    selection: Selection | None,
    kinds: tuple[Kind, ...] = (Kind.INTERVAL,),
    tables: tuple[str, ...] | None = None,
) -> list[Part]:
    """The rows of the session's tables of those kinds (or of `tables`), restricted by the selection."""
    parts = []
    for name, rows in session.tables().items():
        definition = TABLES[name]
        if not rows or definition.kind not in kinds or (tables is not None and name not in tables):
            continue
        data = session.table(name, definition.column_names, selection)
        if not data.num_rows:
            continue
        start = np.asarray(whole(data["start_ns"]))
        duration = (
            np.asarray(whole(data["duration_ns"]))
            if definition.kind is Kind.INTERVAL
            else np.zeros(len(start), np.int64)
        )
        parts.append(Part(definition, data, start, duration))
    return parts


def without_samples(parts: list[Part], exported: Exported) -> list[Part]:
    """The parts that formats of slices hold; samples are told as left out."""
    exported.leave_out(
        sum(len(part.start_ns) for part in parts if part.table.name == "sample"),
        "call stack samples: export them as speedscope or collapsed",
    )
    return [part for part in parts if part.table.name != "sample"]


def or_none(number: int) -> int | None:
    """A number of a track's key as the formats want it."""
    return None if number == NONE else number


def lay_out(parts: list[Part]) -> Timeline:
    """Put the slices of the parts on tracks on which they nest."""
    if not parts:
        none = np.empty(0, np.int64)
        return Timeline([], none.astype(np.int16), none, none, none, none, none.astype(np.int32), [])
    start = np.concatenate([part.start_ns for part in parts])
    duration = np.concatenate([part.duration_ns for part in parts])
    end = end_of(start, duration)
    base, keys = _base_tracks(parts)
    track, depth = _nested(base, start, end)
    number, distinct = encode(track)
    tracks = [
        replace(keys[int(code) >> OVERFLOW_BITS], overflow=int(code) & _OVERFLOW_MASK) for code in distinct
    ]
    order = np.lexsort((depth, start))
    part = np.concatenate([np.full(len(one.start_ns), i, np.int16) for i, one in enumerate(parts)])
    row = np.concatenate([np.arange(len(one.start_ns)) for one in parts])
    return Timeline(
        parts, part[order], row[order], start[order], end[order], number[order], depth[order], tracks
    )


OVERFLOW_BITS = 24  # further tracks of one thread or queue
_OVERFLOW_MASK = (1 << OVERFLOW_BITS) - 1


def _base_tracks(parts: list[Part]) -> tuple[Int64s, list[TrackKey]]:
    """The thread, task or queue of each slice, and the keys of those numbers."""
    groups = []
    for part in parts:
        device = part.table.name in DEVICE_TABLES
        none = np.full(len(part.start_ns), NONE, np.int64)
        task = part.integers("task_id")
        columns = [
            part.integers("process_id"),
            *((none, none) if device else (part.integers("thread_id"), np.where(task == 0, NONE, task))),
            *((part.integers(name) if device else none) for name in ("device_id", "context_id", "stream_id")),
            np.full(
                len(part.start_ns), _APART.index(part.table.name) if part.table.name in APART else 0, np.int64
            ),
        ]
        groups.append(columns)
    columns = [np.concatenate(column) for column in zip(*groups, strict=True)]
    code, first = combine(*columns)
    keys = [
        TrackKey(p, th, ta, de, co, st, _APART[apart])
        for p, th, ta, de, co, st, apart in zip(*(column[first].tolist() for column in columns), strict=True)
    ]
    return code, keys


_APART = ("", *sorted(APART))
_SLICES = Table(
    "slices",
    Kind.INTERVAL,
    "slices of all tables",
    (Column("start_ns", "int64", ""), Column("duration_ns", "int64", ""), Column("track", "int64", "")),
    ("track",),
)


def _nested(base: Int64s, start: Int64s, end: Int64s) -> tuple[Int64s, npt.NDArray[np.int32]]:
    """(track << OVERFLOW_BITS | overflow, depth on that track) of each slice.

    Lanes of the session already separate what overlaps: a slice is a child when one of the lane above
    encloses it. One that none encloses, but that is no uppermost slice either, begins a further track, which
    its own children follow.
    """
    lanes = lane_order(
        _SLICES,
        SegmentData(
            len(start),
            {"start_ns": pa.array(start), "duration_ns": pa.array(end - start), "track": pa.array(base)},
        ),
    )
    order = lanes.order.astype(np.int64)
    level = lanes.depth.astype(np.int64)
    begin, stop = start[order], end[order]
    width = int(level.max()) + 2
    lane = lanes.track.astype(np.int64) * width + level
    rank, size = _ranks(begin, int(lane.max()) + 1)
    above = np.searchsorted(lane * size + rank, (lane - 1) * size + rank, "right") - 1
    held = (level > 0) & (above >= 0)
    above = np.maximum(above, 0)
    held &= (lane[above] == lane - 1) & (stop[above] >= stop)
    root = np.arange(len(order))
    depth = np.zeros(len(order), np.int64)
    # parents stand one level higher: they are settled before their children
    for all_here in by_level(level)[1:]:
        here = all_here[held[all_here]]
        root[here] = root[above[here]]
        depth[here] = depth[above[here]] + 1
    track = np.empty(len(order), np.int64)
    # One number above all others would need 16 million lanes on a thread.
    track[order] = base[order] << OVERFLOW_BITS | np.minimum(level[root], _OVERFLOW_MASK)
    out = np.empty(len(order), np.int32)
    out[order] = depth
    return track, out


def by_level(level: npt.NDArray[np.signedinteger[Any]]) -> list[Int64s]:
    """For each level from 0 on, the places where it stands, in order. One sort, however many levels."""
    order = np.argsort(level, kind="stable")
    return np.split(order, np.searchsorted(level[order], np.arange(1, int(level.max(initial=0)) + 1)))


def _ranks(values: Int64s, groups: int) -> tuple[Int64s, int]:
    """Small numbers in the order of the values, and how many there may be: for `groups` times as many int64
    has room."""
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span < (1 << 62) // groups:
        return values - low, span
    _, rank = np.unique(values, return_inverse=True)
    return rank, int(rank.max()) + 1


def overflows(track: Int64s, start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """For slices on tracks (any numbers) the further track of the same that each has to go to; 0: none, it
    nests."""
    if not len(track):
        return track
    return _nested(encode(track)[0], start_ns, end_ns)[0] & _OVERFLOW_MASK


def switches(start_ns: Int64s, end_ns: Int64s) -> tuple[Int64s, npt.NDArray[np.bool_], Int64s]:
    """Begin and end events of slices that are sorted by (start, depth), in an order in which they nest.

    Returns, for each event in time order, its slice, whether it is the begin, and its time. At one moment the
    slices that end come first, inner before outer; then those that begin; one without length begins and ends
    in one place.
    """
    n = len(start_ns)
    number = np.arange(n)
    flat = end_ns == start_ns
    slices = np.concatenate((number, number))
    time = np.concatenate((start_ns, end_ns))
    begins = np.concatenate((np.ones(n, bool), np.zeros(n, bool)))
    late = np.concatenate((np.ones(n, np.int8), flat.astype(np.int8)))
    place = np.concatenate((2 * number, np.where(flat, 2 * number + 1, -number)))
    order = np.lexsort((place, late, time))
    return slices[order], begins[order], time[order]


def tracks_by(timeline: Timeline) -> Any:
    """Slices grouped by track: (order, bounds), track i has the slices order[bounds[i]:bounds[i + 1]]."""
    order = np.argsort(timeline.track, kind="stable")
    bounds = np.searchsorted(timeline.track[order], np.arange(len(timeline.tracks) + 1))
    return order, bounds
