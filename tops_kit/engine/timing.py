"""When each thread of a launch does what: the cost model over the events of a timed run.

The model. Times are whole cycles from when the device begins with a launch.

- Blocks go round robin to the clusters; a cluster holds as many as its SIPs allow, and begins the next when
  one ends. The device takes `launch_cycles` first, each block of a cluster `block_dispatch_cycles`.
- A SIP's scalar unit issues in order. The vector and the matrix unit each work in order of issue and hold
  `queue_depth` operations; the scalar unit waits while their queue is full. An operation begins when its
  unit is free and the other unit is done with the buffer slots it reads and writes; it takes the unit's
  start-up (tiles) and its work by the unit's rate, rounded up.
- A transfer begins when it was issued, the one before it on its channel and the one it is chained after are
  complete, and the vector and matrix units are done with its slots. It waits for its memory (the farther
  one's latency), and then flows. A channel holds `dte_queue_depth` transfers. Numbers of channels are taken
  modulo the greatest power of two that the part has: those that meet on more channels meet on fewer, too.
- What flows uses the SIP's port (if it touches its L1), the cluster's L2, the cluster's link to L3, and L3;
  what is read from and written to the same memory counts twice there. A SIP's transfers flow in the order of
  their issue: a later one gets what earlier ones leave. SIPs share max-min fairly: the first transfers of
  all, then the second ones what those leave, and so on. Were a SIP's transfers to share, too, a store that
  begins earlier would take from the loads that the next round waits for: faster units would cost time.
- `wait` waits for a transfer, a barrier first for the thread's vector and matrix units and then for all
  threads, the end for everything. Units and transfers do not wait for transfers that nobody awaited, as on a
  real part.
- An atomic of the scalar unit holds it for the memory's `atomic_cycles`; a tile of atomics flows like a
  transfer, its memory read and written, and the scalar unit waits for it.

So one transfer takes latency + bytes / bandwidth, a pipeline max(compute, transfers) + ramp. What is claimed
are such closed forms, and that no rate exceeds its peak; not accuracy against silicon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit import extension
from tops_kit.engine import timing_parameters as figures
from tops_kit.engine import timing_twin
from tops_kit.engine.timing_parameters import Parameters
from tops_kit.engine.timing_result import TimingResult
from tops_kit.gcu import Specification
from tops_kit.isa.program import Program

COST_MODEL_VERSION = 2  # grows when the same events give other times; timing.h has the same

_INTERFACE = 1  # of timing_module.c

Events = npt.NDArray[Any]  # of type EVENT (result.py)


def replay(
    parameters: Parameters,
    flags: npt.NDArray[np.uint8],
    keys: int,
    traces: Sequence[Events],
    block_threads: int,
    *,
    intervals: bool = False,
    chunk: int = 0,
    pure: bool | None = None,
) -> TimingResult:
    """Times for the events of each thread, in order of threads; `flags` and `keys` as of the program.

    `intervals` asks for what each unit did when; `chunk` feeds so many events of each thread at a time, which
    changes nothing. `pure` takes the twin in Python (None: where there is no C). Raises ValueError for events
    that no run gives, or a block that no cluster holds.
    """
    blocks, rest = divmod(len(traces), block_threads) if block_threads else (0, 1)
    if not blocks or rest:
        raise ValueError(f"{len(traces)} threads are no blocks of {block_threads}")
    module = extension.load("tops_kit.engine._timing", _INTERFACE, pure=pure)[0]
    if module is None:
        return timing_twin.replay(parameters, flags, keys, traces, block_threads, intervals=intervals)
    parts = module.replay(
        parameters.packed(), flags, keys, blocks, block_threads, intervals, chunk,
        [np.ascontiguousarray(events) for events in traces],
    )  # fmt: skip
    return TimingResult.of_bytes(parts, parameters.sips)


def times(
    program: Program,
    spec: Specification,
    events: Sequence[Events],
    *,
    block_threads: int,
    intervals: bool = False,
    pure: bool | None = None,
) -> TimingResult:
    """Times of a launch on any part, from the events of a timed run; what if: on `spec.scaled(...)`."""
    return replay(
        figures.parameters(spec), figures.flags(program), figures.keys(program), events, block_threads,
        intervals=intervals, pure=pure,
    )  # fmt: skip
