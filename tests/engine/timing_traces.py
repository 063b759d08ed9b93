"""Events of made-up threads, for tests of the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tops_kit import gcu
from tops_kit.engine import timing
from tops_kit.engine.result import EVENT, EVENT_KINDS
from tops_kit.engine.timing_parameters import HAS_STARTUP, IS_MATRIX, Parameters, parameters
from tops_kit.engine.timing_result import TimingResult
from tops_kit.isa.dtypes import DTYPES

S60 = parameters(gcu.load("s60"))
NO_KEY = 0xFFFF
NONE, L1, L2, L3 = range(4)
KEYS = 4

# the instruction of each kind of event
VECTOR, TILE, MATRIX, LOAD, STORE, WAIT, WAITALL, BARRIER, SYNC, ATOMIC, GRID_BARRIER, END = range(12)
FLAGS = np.zeros(12, np.uint8)
FLAGS[TILE] = HAS_STARTUP
FLAGS[MATRIX] = HAS_STARTUP | IS_MATRIX
_PLACE = {"": 0, "none": NONE, "l1": L1, "l2": L2, "l3": L3}


@dataclass
class Thread:
    """Puts the events of a thread together; every method adds one and gives the thread (`dma`: the event)."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    transfers: int = 0

    def add(
        self,
        kind: str,
        pc: int,
        *,
        scalar: int = 1,
        work: float = 0,
        size: int = 0,
        flops: float = 0,
        event: int = 0,
        after: int = 0,
        keys: Sequence[int] = (),
        dtype: str = "f32",
        route: tuple[int, int] = (NONE, NONE),
        channel: int = 0,
    ) -> Thread:
        key = [*keys, *[NO_KEY] * (4 - len(keys))]
        number = next(t.code for t in DTYPES if t.name == dtype)
        self.rows.append(
            (
                pc,
                scalar,
                work,
                size,
                flops,
                event,
                after,
                key,
                EVENT_KINDS.index(kind),
                number,
                *route,
                channel,
            )
        )
        return self

    def tile(self, groups: float, *keys: int, **more: Any) -> Thread:
        """A tile operation: the first key is written, the others are read."""
        return self.add("vector", TILE, work=groups, keys=keys, **more)

    def vector(self, groups: float = 1, *keys: int, **more: Any) -> Thread:
        """An operation on vector registers: no start-up."""
        return self.add("vector", VECTOR, work=groups, keys=keys, **more)

    def matrix(self, macs: float, *keys: int, **more: Any) -> Thread:
        return self.add("matrix", MATRIX, work=macs, keys=keys, **more)

    def dma(
        self,
        size: int,
        source: int = L3,
        to: int = L1,
        *,
        written: int = NO_KEY,
        read: int = NO_KEY,
        **more: Any,
    ) -> int:
        self.transfers += 1
        pc = LOAD if to == L1 else STORE
        self.add("dma", pc, size=size, event=self.transfers, keys=(written, read), route=(source, to), **more)
        return self.transfers

    def wait(self, event: int, **more: Any) -> Thread:
        return self.add("wait", WAIT, event=event, **more)

    def wait_all(self, **more: Any) -> Thread:
        return self.add("waitall", WAITALL, **more)

    def barrier(self, **more: Any) -> Thread:
        return self.add("barrier", BARRIER, **more)

    def grid_barrier(self, **more: Any) -> Thread:
        return self.add("gridbarrier", GRID_BARRIER, **more)

    def sync(self, key: int = NO_KEY, **more: Any) -> Thread:
        return self.add("sync", SYNC, keys=(key,), **more)

    def atomic(self, to: int = L3, **more: Any) -> Thread:
        return self.add("atomic", ATOMIC, work=1, size=4, route=(NONE, to), **more)

    def tile_atomic(self, size: int, to: int = L3, *keys: int, **more: Any) -> Thread:
        return self.add("atomic", ATOMIC, size=size, keys=keys, route=(L1, to), **more)

    def end(self, **more: Any) -> npt.NDArray[Any]:
        self.add("end", END, **more)
        return np.array(self.rows, EVENT)


def replay(
    traces: Sequence[npt.NDArray[Any]], block_threads: int = 1, p: Parameters = S60, **options: Any
) -> TimingResult:
    """Times of these threads; without launch costs in `p` unless it says so."""
    return timing.replay(p, FLAGS, KEYS, traces, block_threads, **options)


def bare(p: Parameters = S60, **changes: Any) -> Parameters:
    """A part whose launches take no time, and whatever else is to be different."""
    return replace(p, **{"launch": 0, "dispatch": 0, **changes})


def double_buffered(steps: int, size: int, groups: float) -> npt.NDArray[Any]:
    """A thread that loads a tile while it computes on the one before."""
    t = Thread()
    events = {0: t.dma(size, written=0)}
    for step in range(steps):
        if step + 1 < steps:
            events[step + 1] = t.dma(size, written=(step + 1) % 2)
        t.wait(events[step]).tile(groups, 2, step % 2)
        t.sync(2)  # the scalar unit looks at the result before the slot is loaded anew
    return t.end()


# generated threads


@st.composite
def _thread(draw: st.DrawFn, barriers: int, grid: bool, most: int) -> npt.NDArray[Any]:
    t = Thread()
    key = st.sampled_from([NO_KEY, *range(KEYS)])
    scalar = st.sampled_from([0, 1, 1, 3, 50])
    dtype = st.sampled_from([x.name for x in DTYPES])
    size = st.sampled_from([0, 1, 4096, 65536, 100_000])
    kinds = st.sampled_from(
        ["vector", "tile", "matrix", "dma", "dma", "dma", "wait", "wait all", "sync", "atomic", "tile atomic"]
    )
    for segment in range(barriers + 1):
        for kind in draw(st.lists(kinds, max_size=most)):
            more: dict[str, Any] = {"scalar": draw(scalar)}
            if kind in ("vector", "tile", "matrix"):
                work = draw(st.sampled_from([0, 1, 7, 1000, 12345.5]))
                keys = draw(st.lists(key, max_size=4))
                getattr(t, kind)(work, *keys, dtype=draw(dtype), size=128, flops=10, **more)
            elif kind == "dma":
                more |= {"source": draw(st.integers(NONE, L3)), "to": draw(st.integers(L1, L3))}
                more |= {"written": draw(key), "read": draw(key), "after": draw(st.integers(0, t.transfers))}
                t.dma(draw(size), channel=draw(st.sampled_from([0, 1, 2, 9, 255])), **more)
            elif kind == "wait":
                t.wait(draw(st.integers(0, t.transfers)), **more)
            elif kind == "wait all":
                t.wait_all(**more)
            elif kind == "sync":
                t.sync(draw(key), **more)
            elif kind == "atomic":
                t.atomic(draw(st.integers(L1, L3)), keys=(draw(key),), **more)
            else:
                t.tile_atomic(draw(size), draw(st.integers(L1, L3)), draw(key), draw(key), **more)
        if segment < barriers:
            t = t.grid_barrier() if grid else t.barrier()
    return t.end()


@st.composite
def parts(draw: st.DrawFn) -> Parameters:
    """Small parts, some of them with odd figures."""
    return replace(
        S60,
        clusters=draw(st.sampled_from([1, 2, 3])),
        sips_per_cluster=6,
        channels=draw(st.sampled_from([1, 2, 4])),
        channel_depth=draw(st.sampled_from([1, 2, 16])),
        queue_depth=draw(st.sampled_from([1, 2, 8])),
        port=draw(st.sampled_from([128.0, 100.0, 33.3])),
        l3=draw(st.sampled_from([480.0, 333.3])),
        latency=draw(st.sampled_from([(0, 0, 0, 0), (0, 40, 120, 600)])),
    )


@st.composite
def launches(draw: st.DrawFn, *, most: int = 12) -> tuple[Parameters, list[npt.NDArray[Any]], int]:
    """A part, threads, and how many make a block."""
    p = draw(parts())
    block_threads = draw(st.sampled_from([1, 2, 3, 6]))
    grid = draw(st.booleans()) and draw(st.booleans())
    blocks = draw(st.integers(1, min(5, p.clusters * (6 // block_threads)) if grid else 5))
    together = draw(st.integers(0, 2))
    traces = []
    for _ in range(blocks):
        barriers = together if grid else draw(st.integers(0, 2))
        traces += [draw(_thread(barriers, grid, most)) for _ in range(block_threads)]
    return p, traces, block_threads


@st.composite
def symmetric_launches(draw: st.DrawFn) -> tuple[list[npt.NDArray[Any]], int]:
    """Threads that all do the same; and how many make a block."""
    block_threads = draw(st.sampled_from([1, 2, 6, 12]))
    thread = draw(_thread(draw(st.integers(0, 2)), False, 20))
    return [thread] * (block_threads * draw(st.sampled_from([1, 2, 4]))), block_threads
