"""Flows of a Perfetto trace as links: each event of a flow leads to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from topsprof.importers.perfetto_events import Flows

Int64s = npt.NDArray[np.int64]


class FlowLinks:
    """Collects the events of flows (some 40 B each) until the trace ends: a flow may go through all of it."""

    def __init__(self) -> None:
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []

    def add(self, flows: Flows, time_ns: Int64s, process: Int64s, thread: Int64s) -> None:
        self._parts.append((flows.flow, time_ns, process, thread, flows.ends))

    def links(self) -> dict[str, Any] | None:
        """Columns of table link; None when there is no flow."""
        if not self._parts:
            return None
        flow, time_ns, process, thread, ends = (
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        )
        order = np.lexsort((ends, time_ns, flow))  # at one moment it leaves before it arrives
        flow, time_ns, process, thread, ends = (
            flow[order],
            time_ns[order],
            process[order],
            thread[order],
            ends[order],
        )
        # After an end the same number is another flow.
        same = flow[:-1] == flow[1:]
        forward = same & ~ends[:-1]
        # Where clocks disagree an end may come before what leads to it: an end that nothing leads to belongs
        # to the event after it that leads nowhere.
        led, leads = np.append(False, forward), np.append(forward, False)
        backward = same & ends[:-1] & ~ends[1:] & ~led[:-1] & ~leads[1:]
        source = np.concatenate((np.flatnonzero(forward), np.flatnonzero(backward) + 1))
        target = np.concatenate((np.flatnonzero(forward) + 1, np.flatnonzero(backward)))
        if not len(source):
            return None
        return {
            "kind": "flow",
            "link_id": flow[source].view(np.int64),
            "source_process_id": process[source],
            "source_thread_id": thread[source],
            "source_ns": time_ns[source],
            "target_process_id": process[target],
            "target_thread_id": thread[target],
            "target_ns": time_ns[target],
        }
