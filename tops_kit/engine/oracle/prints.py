"""Print records of a thread, laid out as engine/print.h says."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

from tops_kit.engine.oracle.outcome import Fault
from tops_kit.engine.oracle.scalars import from_typed
from tops_kit.engine.oracle.trap import BOUNDS, SPACE, Trap, tiles_trap
from tops_kit.engine.tiles_twin import Tile, TileFault
from tops_kit.engine.tiles_twin.tile import SPACE_L1, SPACE_L2

HEADER = struct.Struct("<6I")  # size, format, thread, block, epoch, grid epoch
TILE = 3
LIMIT_BYTES = 1 << 20  # of one thread


@dataclass
class Line:
    """The print that a thread is putting together."""

    arguments: bytearray = field(default_factory=bytearray)
    too_long: bool = False

    def scalar(self, kind: int, bits: int) -> None:
        """Append a scalar."""
        self._append(struct.pack("<2I", kind, bits))

    def _append(self, words: bytes) -> None:
        """Append to the line, which ends at `print`: a program may never come to one."""
        if HEADER.size + len(self.arguments) + len(words) > LIMIT_BYTES:
            self.too_long = True
        if not self.too_long:
            self.arguments += words

    def tile(self, a: Tile) -> None:
        """Append the values of a tile. Trap: not in L1 or L2, or it reaches outside."""
        if a.space not in (SPACE_L1, SPACE_L2):
            raise Trap(SPACE, a)
        if not a.inside:
            raise tiles_trap(TileFault(BOUNDS), [a])
        if math.prod(a.n) > LIMIT_BYTES // 4:
            self.too_long = True
            return
        bits = [from_typed(value, a.dtype) for value in a.values().ravel()]
        self._append(struct.pack(f"<{3 + a.rank + len(bits)}I", TILE, a.dtype.code, a.rank, *a.n, *bits))

    def take(self) -> tuple[bytes, bool]:
        """The arguments and whether they were too long; the next line begins."""
        taken = bytes(self.arguments), self.too_long
        self.arguments.clear()
        self.too_long = False
        return taken


def in_order(records: bytes, until: Fault | None) -> bytes:
    """The records in the order of lines: by grid epoch, block, epoch, thread; up to the fault."""
    placed = []
    at = 0
    while at < len(records):
        size, _, thread, block, epoch, grid_epoch = HEADER.unpack_from(records, at)
        placed.append(((grid_epoch, block, epoch, thread), records[at : at + size]))
        at += size
    placed.sort(key=lambda record: record[0])
    if until is not None:
        last = (until.grid_epoch, until.block, until.epoch, until.thread)
        placed = [record for record in placed if record[0] <= last]
    return b"".join(record for _, record in placed)
