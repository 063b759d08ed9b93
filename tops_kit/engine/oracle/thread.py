"""One thread on the oracle: registers, memories, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tops_kit.engine.oracle.prints import HEADER, LIMIT_BYTES, Line
from tops_kit.engine.oracle.transfers import Pending
from tops_kit.engine.tiles_twin import Memory, Tile

if TYPE_CHECKING:
    from tops_kit.engine.oracle.trace import Trace

READY, AT_BARRIER, AT_GRID_BARRIER, ENDED, FAULTED = range(5)


@dataclass
class Prints:
    """Finished print records of a launch."""

    records: bytearray = field(default_factory=bytearray)
    dropped: int = 0


@dataclass(eq=False)
class Thread:
    """`r`: scalar registers as unsigned 32 bits; `t`: views; `v`: arrays of 128 bytes; `state`: READY, ..."""

    id: int
    block: int
    special: tuple[int, ...]
    r: list[int]
    t: list[Tile]
    v: list[npt.NDArray[np.uint8]]
    l1: Memory
    l2: Memory
    arrays: list[Tile]
    prints: Prints
    pending: Pending | None  # not None: transfers move when they complete
    pc: int = 0
    state: int = READY
    epoch: int = 0
    grid_epoch: int = 0
    events: int = 0
    line: Line = field(default_factory=Line)
    printed_bytes: int = 0
    trace: Trace | None = None  # timed

    def finish_line(self, format_: int) -> None:
        """Write out the print that was put together, unless it is beyond the limit of a thread."""
        arguments, too_long = self.line.take()
        size = HEADER.size + len(arguments)
        if too_long or self.printed_bytes + size > LIMIT_BYTES:
            self.prints.dropped += 1
            return
        header = HEADER.pack(size, format_, self.id, self.block, self.epoch, self.grid_epoch)
        self.prints.records += header + arguments
        self.printed_bytes += size
