"""What the cost model is told of a part and of a program, in the form that C and its twin take."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from tops_kit.gcu import Specification
from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.program import Program
from tops_kit.isa.table import INSTRUCTIONS

HAS_STARTUP = 1  # flags of an instruction: its unit has to start up (tiles; not vector registers)
IS_MATRIX = 2

_FLAGS = np.array(
    [
        (HAS_STARTUP if x.group in ("tile", "matrix") else 0) | (IS_MATRIX if x.unit == "M" else 0)
        for x in INSTRUCTIONS
    ],
    np.uint8,
)

# cycles that the scalar unit issues each instruction for (by opcode), in units of the part's `scalar_issue`
SCALAR_CYCLES = np.array(
    [int(x.cost) if x.unit == "S" and x.cost.isdigit() else 1 for x in INSTRUCTIONS], np.int64
)


@dataclass(frozen=True)
class Parameters:
    """The figures of a part that times follow from: timing_parameters in timing.h, in the same order.

    Cycles, or what happens in one; `latency` and `atomic` by memory (none, L1, L2, L3); rates by type.
    """

    clusters: int
    sips_per_cluster: int
    scalar_issue: int
    queue_depth: int
    vector_startup: int
    matrix_startup: int
    channels: int
    channel_depth: int
    latency: tuple[int, ...]
    atomic: tuple[int, ...]
    barrier: int
    grid_barrier: int
    launch: int
    dispatch: int
    vector_rate: tuple[float, ...]
    matrix_rate: tuple[float, ...]
    port: float
    l2: float
    link: float
    l3: float

    @property
    def sips(self) -> int:
        """SIPs of the whole part."""
        return self.clusters * self.sips_per_cluster

    def packed(self) -> bytes:
        """As C takes them."""
        numbers: list[float] = []
        for each in fields(self):
            value = getattr(self, each.name)
            numbers += value if isinstance(value, tuple) else (value,)
        form = "".join("d" if isinstance(number, float) else "q" for number in numbers)
        return struct.pack("=" + form, *numbers)


def parameters(spec: Specification) -> Parameters:
    """Of a part."""
    return Parameters(
        clusters=spec.clusters,
        sips_per_cluster=spec.sips_per_cluster,
        scalar_issue=spec.scalar_issue_cycles,
        queue_depth=spec.queue_depth,
        vector_startup=spec.vector_startup_cycles,
        matrix_startup=spec.matrix_startup_cycles,
        channels=spec.dte_channels,
        channel_depth=spec.dte_queue_depth,
        latency=(0, *(spec.dte_latency_cycles[memory] for memory in ("l1", "l2", "l3"))),
        atomic=(0, *(spec.atomic_cycles[memory] for memory in ("l1", "l2", "l3"))),
        barrier=spec.barrier_cycles,
        grid_barrier=spec.grid_barrier_cycles,
        launch=spec.launch_cycles,
        dispatch=spec.block_dispatch_cycles,
        vector_rate=tuple(float(spec.vector_rate(dtype.name)) for dtype in DTYPES),
        matrix_rate=tuple(float(spec.matrix_rate(dtype.name)) for dtype in DTYPES),
        port=float(spec.port_bytes_per_cycle),
        l2=float(spec.l2_bytes_per_cycle),
        link=float(spec.cluster_l3_bytes_per_cycle),
        l3=spec.l3_bytes_per_cycle,
    )


def flags(program: Program) -> npt.NDArray[np.uint8]:
    """HAS_STARTUP and IS_MATRIX of each instruction, and of the `end` that stands behind the last."""
    return np.append(_FLAGS[program.code[:, 0]], np.uint8(0))


def keys(program: Program) -> int:
    """How many slots of buffers there are, L1 and L2: what operations can wait for."""
    return sum(buffer.slots for buffer in program.buffers)
