"""Blocks on clusters, barriers, and time: timing.c and timing_blocks.c in Python."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.timing_parameters import Parameters
from tops_kit.engine.timing_result import TimingResult
from tops_kit.engine.timing_twin import state
from tops_kit.engine.timing_twin.state import Sip, Slot, Tally
from tops_kit.engine.timing_twin.thread import Threads


class Model:
    """A launch: the SIPs of a part, and the threads that run on them."""

    def __init__(
        self,
        p: Parameters,
        flags: npt.NDArray[np.uint8],
        keys: int,
        traces: Sequence[npt.NDArray[Any]],
        block_threads: int,
        *,
        record: bool,
    ) -> None:
        self.p, self.traces = p, traces
        self.blocks, self.block_threads = len(traces) // block_threads, block_threads
        self.tally = Tally(p, len(flags), record)
        self.threads = Threads(p, flags.tolist(), keys, self.tally)
        self.threads.arrived, self.threads.ended = self._arrived, self._ended
        self.transfers = self.threads.transfers
        self.sips = [Sip(k) for k in range(p.sips)]
        for s in self.sips:
            s.last = [None] * (p.channels + 1)
            s.held = [0] * (p.channels + 1)
        self.slots = [
            self._slot(cluster, k)
            for k in range(p.sips_per_cluster // block_threads)
            for cluster in range(p.clusters)
        ]
        self.dispatcher = [0] * p.clusters  # from when on each cluster can begin another block
        self.next_block = list(range(p.clusters))
        self.blocks_ended = self.grid_arrived = self.grid_release = 0
        for slot in self.slots:
            self._dispatch(slot, p.launch)

    def _slot(self, cluster: int, k: int) -> Slot:
        first = cluster * self.p.sips_per_cluster + k * self.block_threads
        slot = Slot(cluster, self.sips[first : first + self.block_threads])
        for s in slot.sips:
            s.slot = slot
        return slot

    def run(self) -> TimingResult:
        """All events, to the end."""
        self.threads.run()
        while (when := self.transfers.next_time()) is not None:
            self._step(when)
        if self.blocks_ended < self.blocks:
            raise ValueError("events: some thread never ends")
        for s in self.sips:
            self.tally.of_sip(s, "tail", self.tally.cycles - s.idle_since)
        return self.tally.result(self.transfers.shares.solves)

    def clock(self) -> int:
        """Of the first thread, once it has used up its events: cycles since its start."""
        self.threads.run()
        s = self.sips[0]
        while s.state != "starved":
            when = self.transfers.next_time()
            assert when is not None
            self._step(when)
        return s.t - self.p.launch - self.p.dispatch

    def _step(self, when: int) -> None:
        transfers = self.transfers
        transfers.advance(when)
        self.threads.run()
        while transfers.heap and transfers.heap[0][0] <= when:
            what = heapq.heappop(transfers.heap)[-1]
            if isinstance(what, Slot):
                self._dispatch(what, when)
            else:
                transfers.begin(what)
            self.threads.run()
        transfers.share()

    def _dispatch(self, slot: Slot, free: int) -> None:
        """The cluster's next block, if there is one."""
        cluster = slot.cluster
        slot.block = -1
        if self.next_block[cluster] >= self.blocks:
            return
        slot.block = self.next_block[cluster]
        self.next_block[cluster] += self.p.clusters
        self.dispatcher[cluster] = begin = max(free, self.dispatcher[cluster]) + self.p.dispatch
        slot.arrived = slot.ended = slot.release = slot.end = 0
        for k, s in enumerate(slot.sips):
            thread = slot.block * self.block_threads + k
            self.threads.begin(s, thread, self.traces[thread].tolist(), begin)

    def _ended(self, s: Sip) -> None:
        slot = s.slot
        assert slot is not None
        slot.end = max(slot.end, s.t)
        self.tally.cycles = max(self.tally.cycles, slot.end)
        slot.ended += 1
        if slot.ended == self.block_threads:
            self.blocks_ended += 1
            self.transfers.appoint(slot.end, slot.sips[0].number, 0, slot)

    def _arrived(self, s: Sip) -> None:
        """At a barrier of its block, or of the grid."""
        slot = s.slot
        assert slot is not None
        if s.state == "barrier":
            slot.release = max(slot.release, s.t)
            slot.arrived += 1
            if slot.arrived == self.block_threads:
                when = slot.release + self.p.barrier
                slot.arrived = slot.release = 0
                self._leave([slot], "barrier", when)
            return
        self.grid_release = max(self.grid_release, s.t)
        self.grid_arrived += 1
        if self.grid_arrived == self.blocks * self.block_threads:
            when = self.grid_release + self.p.grid_barrier
            self.grid_arrived = self.grid_release = 0
            self._leave(self.slots, "grid barrier", when)

    def _leave(self, slots: list[Slot], waiting: str, when: int) -> None:
        for slot in slots:
            for s in slot.sips:
                if s.state == waiting:
                    self.threads.wake(s, when, state.BARRIER, s.wait_pc)
