"""What a launch on the oracle gives: the same facts as the C engine's, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True)
class Fault:
    """What ended a launch, with numbers by kind as fault.c of the C machine gives them.

    `kind` is a number of isa/faults.py; `epoch` and `grid_epoch` count the barriers that the thread had
    passed. `object` is the buffer or pointer concerned (-1: none), in memory `space` (0 none, 1 L1, 2 L2, 3
    L3). `values` depend on the kind; `shapes` are extents that do not fit, None where unknown.
    """

    kind: int
    pc: int
    thread: int
    block: int
    epoch: int = 0
    grid_epoch: int = 0
    object: int = -1
    space: int = 0
    values: tuple[int, int, int, int] = (0, 0, 0, 0)
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None] = (None, None)


@dataclass(frozen=True)
class Outcome:
    """A launch that ended. `counts`: how often each instruction ran, all threads together.

    `prints` are print records one behind another, as engine/print.h lays them out, in the order of their
    lines, up to the fault; `dropped` is how many prints the limit of a thread cut off. `events`, where asked
    for, are those of each thread, of type EVENT (engine/result.py).
    """

    fault: Fault | None
    counts: list[int]
    prints: bytes
    dropped: int = 0
    events: list[npt.NDArray[Any]] | None = None
