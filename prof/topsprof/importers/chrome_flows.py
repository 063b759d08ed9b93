"""Flow events s, t and f into links from one place of the timeline to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from topsprof.importers.base import Tally
from topsprof.importers.scan import Bools, Bytes8, Int32s, Int64s, Strings

if TYPE_CHECKING:
    from tops_kit.session import SessionWriter

LONE_ENDS = frozenset(("ac2g", "async_cpu_to_gpu"))
"""Categories in which an end without a start is no fault: Kineto writes one for every call of the runtime,
also for those that start nothing on a device.
"""
START, STEP, END = ord("s"), ord("t"), ord("f")
_START_ROWS = 8_000_000


@dataclass
class FlowEvents:
    """Flow events as columns, in file order. `identity` mixes category, name and id: equal for the events
    of one flow.
    """

    identity: Int64s
    link_id: Int64s
    ts: Int64s
    pid: Int64s
    tid: Int64s
    phase: Bytes8
    category: Int32s
    follows: (
        Bools  # binds to the next slice on its thread rather than to the one around it (an f without bp: "e")
    )

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, at: npt.NDArray[np.generic]) -> FlowEvents:
        """Some of the events."""
        return FlowEvents(*(getattr(self, field.name)[at] for field in fields(self)))


def identity_of(*columns: npt.NDArray[np.generic]) -> Int64s:
    """One number for each combination of values: 64 bits mixed, so equal numbers mean equal values for all
    purposes.
    """
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = (mixed ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return mixed.view(np.int64)


def link(events: FlowEvents) -> tuple[Int64s, Int64s, Int64s]:
    """(sources, targets, alone): indices of linked events, and those that nothing links to.

    Within one flow, by time: each s or t leads to the t or f after it; a new s begins the flow anew. Where
    clocks disagree an f may stand before its s: an f that nothing leads to and the s after it that leads
    nowhere belong together.
    """
    # at one instant s comes before t and t before f
    rank = np.where(events.phase == START, 0, np.where(events.phase == STEP, 1, 2))
    order = np.lexsort((rank, events.ts, events.identity))
    phase, identity = events.phase[order], events.identity[order]
    n = len(order)
    if n < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.arange(n)
    same = identity[1:] == identity[:-1]
    forward = same & (phase[:-1] != END) & (phase[1:] != START)
    linked_to = np.concatenate(([False], forward))
    leads = np.concatenate((forward, [False]))
    backward = same & (phase[:-1] == END) & (phase[1:] == START) & ~linked_to[:-1] & ~leads[1:]
    alone = ~linked_to & ~leads
    alone[:-1] &= ~backward
    alone[1:] &= ~backward
    source = np.concatenate((order[:-1][forward], order[1:][backward]))
    target = np.concatenate((order[1:][forward], order[:-1][backward]))
    return source, target, order[alone]


class FlowPool:
    """Collects flow events and writes them as links."""

    def __init__(
        self, writer: SessionWriter, tally: Tally, strings: Strings, *, kineto: bool = False
    ) -> None:
        self._writer = writer
        self._tally = tally
        self._strings = strings
        self._kineto = kineto
        self._parts: list[FlowEvents] = []
        self._starts: list[
            tuple[Int64s, Int64s, Int64s]
        ] = []  # process, thread, start of slices, for `follows`
        self._start_rows = 0

    def add(self, events: FlowEvents) -> None:
        """Events of one batch."""
        if len(events):
            self._parts.append(events)

    def add_starts(self, process: Int64s, thread: Int64s, start: Int64s) -> None:
        """Where slices begin. Beyond _START_ROWS of them, flows that bind to the next slice keep their own
        time.
        """
        if self._start_rows < _START_ROWS:
            self._starts.append((process, thread, start))
            self._start_rows += len(start)

    def finish(self, keys_of: Callable[[Int64s], Int64s]) -> None:
        """Link everything. `keys_of` gives the session's process_id of pids."""
        if not self._parts:
            return
        events = FlowEvents(
            *(
                np.concatenate([getattr(part, field.name) for part in self._parts])
                for field in fields(FlowEvents)
            )
        )
        self._parts.clear()
        source, target, alone = link(events)
        late = int((events.ts[source] > events.ts[target]).sum())
        self._tally.moved(
            "flow_ends_before_it_starts", late, "clocks of the two ends disagree; the links are kept"
        )
        alone = self._unexpected(events, alone)
        starts = int((events.phase[alone] == START).sum())
        self._tally.unsupported("flow_start_alone", starts, "nothing to link; the slices are kept")
        self._tally.unsupported("flow_end_alone", len(alone) - starts, "nothing to link; the slices are kept")
        if not len(source):
            return
        target_ns = self._bound(events, target)
        kind = events.category[source]
        self._writer.append(
            "link",
            {
                "kind": self._strings.names(kind, "flow"),
                "link_id": events.link_id[source],
                "source_process_id": keys_of(events.pid[source]),
                "source_thread_id": events.tid[source],
                "source_ns": events.ts[source],
                "target_process_id": keys_of(events.pid[target]),
                "target_thread_id": events.tid[target],
                "target_ns": target_ns,
            },
        )
        self._tally.written(len(source))

    def _unexpected(self, events: FlowEvents, alone: Int64s) -> Int64s:
        """Of the events that nothing links to those that should have been linked."""
        if not self._kineto:
            return alone
        category = events.category[alone]
        usual = [one for one in np.unique(category).tolist() if self._strings.text(one) in LONE_ENDS]
        found: Int64s = alone[(events.phase[alone] != END) | ~np.isin(category, usual)]
        return found

    def _bound(self, events: FlowEvents, target: Int64s) -> Int64s:
        """When each link arrives: at the event, or at the begin of the next slice of the thread where it
        binds to that.
        """
        ts: Int64s = events.ts[target].copy()
        follows = np.flatnonzero(events.follows[target])
        if not len(follows) or not self._starts:
            return ts
        process, thread, start = (np.concatenate(columns) for columns in zip(*self._starts, strict=True))
        track = identity_of(process, thread)
        order = np.lexsort((start, track))
        track, start = track[order], start[order]
        wanted = identity_of(events.pid[target[follows]], events.tid[target[follows]])
        for one in np.unique(wanted):
            low, high = np.searchsorted(track, one, "left"), np.searchsorted(track, one, "right")
            mine = follows[wanted == one]
            at = low + np.searchsorted(start[low:high], ts[mine])
            found = at < high
            ts[mine[found]] = start[at[found]]
        return ts
