"""From Perfetto's slices to rows of the session's tables.

Slices of a trace that `topsprof export` wrote go back to the table and the columns they came from; those of
any other trace become TX ranges with their category as domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.schema import Column, Kind, Table
from topsprof import interchange
from topsprof.importers.perfetto_annotations import DOUBLE, INTEGER, JSON, TEXT, UNSIGNED, Annotations
from topsprof.importers.perfetto_events import Events
from topsprof.importers.perfetto_names import NONE, Pool
from topsprof.importers.perfetto_tracks import Tracks, signed

if TYPE_CHECKING:
    from topsprof.importers.base import ImportOptions

Int64s = npt.NDArray[np.int64]


class Places:
    """Tracks of many events as columns of process and thread."""

    def __init__(self, tracks: Tracks, options: ImportOptions) -> None:
        self._tracks = tracks
        self._options = options
        self.used_names: dict[
            tuple[int, int], str
        ] = {}  # tracks that are no thread's, by the thread number they got

    def of(
        self, uuids: npt.NDArray[np.uint64], naming: bool = False
    ) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
        """(process_id, thread_id, whether the track is a thread's own). `naming`: a track that is no thread's
        is going to stand in for one, and its name is to be kept as the thread's."""
        distinct, inverse = np.unique(uuids, return_inverse=True)
        found = [self._tracks.place(uuid) for uuid in distinct.tolist()]
        for place in found:
            if not place.thread and place.tid and naming:
                self.used_names[place.pid, place.tid] = place.name
        process = np.array([self._options.process_id(place.pid) for place in found] or [0], np.int64)
        thread = np.array([place.tid for place in found] or [0], np.int64)
        own = np.array([place.thread for place in found] or [False])
        return process[inverse], thread[inverse], own[inverse]

    def owners(self, uuids: npt.NDArray[np.uint64]) -> tuple[pa.Array, pa.Array]:
        """(process_id, thread_id) of the process and thread that the tracks belong to; null where there is
        none."""
        distinct, inverse = np.unique(uuids, return_inverse=True)
        found = [self._tracks.place(uuid) for uuid in distinct.tolist()]
        process = pa.array(
            [self._options.process_id(place.pid) if place.known else None for place in found], pa.int64()
        )
        return process.take(pa.array(inverse)), pa.array([place.owner for place in found], pa.int64()).take(
            pa.array(inverse)
        )


def slices(
    events: Events,
    duration_ns: Int64s,
    finished: npt.NDArray[np.bool_],
    notes: Annotations,
    pool: Pool,
    *,
    places: Places,
) -> list[tuple[str, dict[str, Any]]]:
    """(table, columns) of slices and instants; `notes.event` are rows of `events`."""
    out = []
    categories, category = np.unique(events.category, return_inverse=True)
    tables = ["" if code == NONE else _table_name(pool, code) for code in categories.tolist()]
    for name in sorted(set(tables)):
        rows = np.flatnonzero(np.array([table == name for table in tables])[category])
        place = np.full(len(events), -1, np.int64)
        place[rows] = np.arange(len(rows))
        mine = notes.take(np.flatnonzero(place[notes.event] >= 0))
        mine = mine.moved(place[mine.event])
        part = events.take(rows)
        table = interchange.table_of(interchange.category(name)) if name else None
        columns = (
            _foreign(part, mine, pool, places, duration_ns[rows])
            if table is None
            else _ours(table, part, mine, pool, places, duration_ns=duration_ns[rows])
        )
        if (table is None or name == "tx") and not finished[rows].all():
            columns["unfinished"] = np.where(finished[rows], np.False_, np.True_)
        out.append((name or "tx", columns))
    return out


def _table_name(pool: Pool, code: int) -> str:
    table = interchange.table_of(pool.values[code])
    return "" if table is None else table.name


def _foreign(
    events: Events, notes: Annotations, pool: Pool, places: Places, duration_ns: Int64s
) -> dict[str, Any]:
    process, thread, own = places.of(events.track, naming=True)
    styles = np.where(events.type == 3, 2, np.where(own, 0, 1)).astype(np.int32)
    category = pool.array(events.category)
    return {
        "start_ns": events.time_ns,
        "duration_ns": duration_ns,
        "name": pool.array(events.name),
        "process_id": process,
        "thread_id": thread,
        "domain": category,
        "category": category,
        "style": pa.DictionaryArray.from_arrays(pa.array(styles), pa.array(["PushPop", "StartEnd", "Mark"])),
        "args": notes.objects(len(events), pool),
    }


def _ours(
    table: Table, events: Events, notes: Annotations, pool: Pool, places: Places, *, duration_ns: Int64s
) -> dict[str, Any]:
    columns: dict[str, Any] = {"start_ns": events.time_ns, "name": pool.array(events.name)}
    if Kind.INTERVAL is table.kind:
        columns["duration_ns"] = duration_ns
    process, thread = places.owners(events.track)
    known = {column.name for column in table.columns}
    if "process_id" in known:
        columns["process_id"] = process
    if "thread_id" in table.track:  # of a queue's rows it is an annotation: who waited
        columns["thread_id"] = thread
    columns |= arguments(table, notes, len(events), pool, columns.keys())
    return columns


def arguments(table: Table, notes: Annotations, count: int, pool: Pool, taken: Any = ()) -> dict[str, Any]:
    """Annotations named like columns as those columns, and `args` of the rest."""
    out: dict[str, Any] = {}
    used = np.zeros(len(notes), bool)
    for column in interchange.argument_columns(table):
        if column.name not in taken and pool.knows(column.name):
            here = notes.name == pool.code(column.name)
            if here.any():
                used |= here
                out[column.name] = _column(column, notes.take(np.flatnonzero(here)), count)
    args = (notes.name == pool.code("args")) & (notes.kind == JSON)
    rest = notes.take(np.flatnonzero(~used & ~args))
    if args.any():
        whole = notes.take(np.flatnonzero(args))
        text = _scattered(whole.text, whole.event, count)
        if len(rest):
            text = pc.coalesce(text, rest.objects(count, pool))
        out["args"] = text
    elif len(rest):
        out["args"] = rest.objects(count, pool)
    return out


def _column(column: Column, notes: Annotations, count: int) -> pa.Array:
    if column.type in ("name", "text"):
        text = pc.if_else(pa.array(np.isin(notes.kind, (TEXT, JSON))), notes.text, notes.values())
        array = _scattered(text, notes.event, count).cast(pa.string())
        return array.dictionary_encode() if column.type == "name" else array
    double = notes.bits.view(np.float64)
    if column.type == "float64":
        values: npt.NDArray[Any] = np.where(notes.kind == DOUBLE, double, notes.bits.astype(np.float64))
    else:
        is_number = np.isin(notes.kind, (INTEGER, UNSIGNED, 4))
        values = np.where(is_number, notes.bits, 0)
        if column.type == "bool":
            values = values != 0
    return _scattered(pa.array(values), notes.event, count)


def _scattered(values: pa.Array, rows: Int64s, count: int) -> pa.Array:
    index = np.full(count, -1, np.int64)
    index[rows] = np.arange(len(rows))
    return values.take(pa.array(index, mask=index < 0))


def counter_columns(
    time_ns: Int64s,
    track: npt.NDArray[np.uint64],
    value: npt.NDArray[np.float64],
    tracks: Tracks,
    pool: Pool,
    *,
    places: Places,
) -> dict[str, Any]:
    """Columns of table counter."""
    distinct, inverse = np.unique(track, return_inverse=True)
    known = [tracks.tracks.get(uuid) for uuid in distinct.tolist()]
    name = np.array(
        [
            pool.code(one.name if one is not None else f"counter {signed(uuid)}")
            for uuid, one in zip(distinct.tolist(), known, strict=True)
        ]
        or [0],
        np.int32,
    )
    unit = np.array(
        [pool.code(one.unit) if one is not None and one.unit else NONE for one in known] or [0], np.int32
    )
    scale = np.array([one.multiplier if one is not None else 1 for one in known] or [1], np.float64)
    process, thread = places.owners(track)
    return {
        "start_ns": time_ns,
        "name": pool.array(name[inverse]),
        "process_id": process,
        "thread_id": thread,
        "value": value * scale[inverse],
        "unit": pool.array(unit[inverse]),
    }
