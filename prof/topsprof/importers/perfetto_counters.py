"""Counter values of a Perfetto trace as rows of table counter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tops_kit.session.schema import TABLES
from topsprof.importers import perfetto_rows
from topsprof.importers.perfetto_events import Stretch
from topsprof.importers.perfetto_names import Pool
from topsprof.importers.perfetto_tracks import Tracks


class CounterRows:
    """Makes rows of counters, stretch by stretch; remembers where incremental counters stand."""

    def __init__(self, tracks: Tracks, places: perfetto_rows.Places, pool: Pool) -> None:
        self._tracks = tracks
        self._places = places
        self._pool = pool
        self._standing: dict[
            tuple[int, int], float
        ] = {}  # (track, generation of the sequence's state) -> value

    def columns(self, stretch: Stretch) -> Iterator[dict[str, Any]]:
        """Columns of table counter; nothing when the stretch has no counter."""
        counters = stretch.counters
        if not len(counters.track):
            return
        value = counters.value.copy()
        for uuid in np.unique(counters.track).tolist():
            track = self._tracks.tracks.get(uuid)
            if track is not None and track.incremental:
                self._accumulate(uuid, np.flatnonzero(counters.track == uuid), counters.generation, value)
        columns = perfetto_rows.counter_columns(
            counters.time_ns, counters.track, value, self._tracks, self._pool, places=self._places
        )
        noted = stretch.annotations.event >= len(stretch.events)
        if noted.any():
            notes = stretch.annotations.take(np.flatnonzero(noted))
            order = np.argsort(counters.event, kind="stable")
            place = np.searchsorted(counters.event[order], notes.event)
            columns |= perfetto_rows.arguments(
                TABLES["counter"], notes.moved(order[place]), len(value), self._pool, ("process_id",)
            )
            if "args" in columns:
                columns["args"] = columns["args"].cast(pa.string())
        yield columns

    def _accumulate(
        self,
        uuid: int,
        rows: npt.NDArray[np.int64],
        generation: npt.NDArray[np.int64],
        value: npt.NDArray[np.float64],
    ) -> None:
        """Turn differences into values; a cleared state begins at zero again."""
        for part in np.split(rows, np.flatnonzero(np.diff(generation[rows])) + 1):
            key = uuid, int(generation[part[0]])
            value[part] = np.cumsum(value[part]) + self._standing.get(key, 0.0)
            self._standing[key] = float(value[part[-1]])
