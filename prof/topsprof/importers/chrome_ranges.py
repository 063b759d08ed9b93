"""Begin and end events, and async ones, collected over batches and written as TX ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tops_kit.session.arrays import from_numpy
from topsprof.importers.base import Tally
from topsprof.importers.chrome_pairs import pair, track_numbers
from topsprof.importers.chrome_rows import text_scalar
from topsprof.importers.scan import Int64s, Strings

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

POOL_ROWS = 2_000_000
POOL_BYTES = 192 << 20
"""Of args. Concatenating and pairing needs a multiple of it for a while."""


class RangePool:
    """Pairs begins and ends once enough have come, so that order in the file matters little and memory
    stays bounded.

    Columns of the events: ts, track (identity of thread or id), process, thread, name, category, begins,
    args.
    """

    def __init__(
        self, writer: SessionWriter, tally: Tally, strings: Strings, *, style: str, pool_rows: int = POOL_ROWS
    ) -> None:
        self._writer = writer
        self._tally = tally
        self._strings = strings
        self._style = style
        self._pool_rows = pool_rows
        self._parts: list[dict[str, Any]] = []
        self._rows = 0
        self._bytes = 0
        self._pool_bytes = POOL_BYTES
        self.end_ns = -(1 << 62)  # of the last event seen: where open ranges end

    def add(self, events: dict[str, Any]) -> None:
        """Events of one batch, in file order."""
        n = len(events["ts"])
        if not n:
            return
        self.end_ns = max(self.end_ns, int(events["ts"].max()))
        self._parts.append(events)
        self._rows += n
        self._bytes += events["args"].nbytes
        if self._rows >= self._pool_rows or self._bytes >= self._pool_bytes:
            self._pair(final=False)

    def finish(self, end_ns: int) -> None:
        """Pair what is left; ranges that never end do so at `end_ns`, the end of the trace."""
        self.end_ns = max(self.end_ns, end_ns)
        if self._parts:
            self._pair(final=True)

    def _pair(self, *, final: bool) -> None:
        events = {
            name: pa.concat_arrays([part["args"] for part in self._parts])
            if name == "args"
            else np.concatenate([part[name] for part in self._parts])
            for name in self._parts[0]
        }
        self._parts.clear()
        ts = events["ts"]
        now = np.ones(len(ts), np.bool_)
        if not final:  # leave the last quarter, in time, for what may still come out of order
            now = ts <= np.partition(ts, len(ts) * 3 // 4)[len(ts) * 3 // 4]
        index = np.flatnonzero(now)
        found = pair(
            track_numbers(events["track"][index]), ts[index], events["begins"][index], events["name"][index]
        )
        begin, end = index[found.begin], index[found.end]
        self._write(events, begin, end)
        self._tally.repaired(
            "end_of_another_name", found.renamed, "it closed the innermost range of its thread or id"
        )
        self._tally.repaired(
            "begin_closed_by_outer_end", found.skipped, "the range ended with the one around it"
        )
        self._tally.dropped("end_without_begin", len(found.lone_end))
        open_begin = index[found.open_begin]
        if final:
            self._tally.repaired(
                "begin_without_end", len(open_begin), "the range lasts to the end of the trace"
            )
            self._write(events, open_begin, None)
            self._rows = 0
            return
        later = np.sort(np.concatenate((open_begin, np.flatnonzero(~now))))
        left = {
            name: column.take(from_numpy(later)) if name == "args" else column[later]
            for name, column in events.items()
        }
        self._rows = len(later)
        if self._rows > self._pool_rows * 3 // 4:
            self._pool_rows *= 2  # very many stay open: don't pair them again and again
        self._bytes = left["args"].nbytes
        if self._bytes > self._pool_bytes * 3 // 4:
            self._pool_bytes *= 2
        self._parts.append(left)

    def _durations(self, start: Int64s, stop: Int64s) -> Int64s:
        duration = stop - start
        beyond = (stop > start) & (duration < 0)
        if beyond.any():
            self._tally.clipped("end_beyond_int64", int(beyond.sum()), "longer than 292 years")
        lengths: Int64s = np.where(beyond, np.iinfo(np.int64).max, np.maximum(duration, 0))
        return lengths

    def _write(self, events: dict[str, Any], begin: Any, end: Any) -> None:
        if not len(begin):
            return
        start = events["ts"][begin]
        stop = np.full(len(begin), self.end_ns) if end is None else events["ts"][end]
        name = events["name"][begin]
        category = events["category"][begin]
        if end is not None:
            name = np.where(name < 0, events["name"][end], name)
            category = np.where(category < 0, events["category"][end], category)
        columns = {
            "start_ns": start,
            "duration_ns": self._durations(start, stop),
            "name": self._strings.names(name, ""),
            "process_id": events["process"][begin],
            "thread_id": events["thread"][begin],
            "domain": self._strings.names(category, ""),
            "style": self._style,
            "task_id": 0,
            "args": _united(
                events["args"].take(from_numpy(begin)),
                None if end is None else events["args"].take(from_numpy(end)),
            ),
        }
        if end is None:
            columns["unfinished"] = True
        elif self._style == "StartEnd":
            other = events["thread"][end] != events["thread"][begin]
            if other.any():
                columns["end_thread_id"] = from_numpy(events["thread"][end], ~other)
        self._writer.append("tx", columns)
        self._tally.written(len(begin))


def _united(first: pa.StringArray, second: pa.StringArray | None) -> pa.StringArray:
    """The members of two JSON objects a row in one; null counts as none."""
    if second is None or second.null_count == len(second):
        return first
    if first.null_count == len(first):
        return second
    both = pc.and_(pc.is_valid(first), pc.is_valid(second))
    joined = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(first, 0, -1), pc.utf8_slice_codeunits(second, 1), text_scalar(",")
    )
    return pc.if_else(both, joined, pc.coalesce(first, second))
