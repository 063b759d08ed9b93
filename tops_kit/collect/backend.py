"""Chooses the C loops (`_drain`) or their numpy twin (`drain`). Both have this interface and the same
tests.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, cast

import numpy as np

from tops_kit import extension
from tops_kit.collect.arrays import Array, Buffer

_INTERFACE = 2  # of _drain.c, which says when to raise it


COLUMNS: Final[dict[str, type[np.generic[Any]]]] = {
    "begin": np.int64,
    "duration": np.int64,
    "name": np.uint32,
    "task": np.uint32,
    "attr": np.uint32,
    "tid": np.int64,
    "depth": np.int32,
    "kind": np.uint8,
    "flags": np.uint8,
    "more": np.int64,
}
"""What `Loops.split` fills, in this order."""


class Loops(Protocol):
    """What `_drain` and `drain` offer. Buffers are anything with the buffer protocol; columns are
    contiguous numpy arrays.
    """

    def read_tsc(self) -> int:
        """The time stamp counter; OSError where there is none that we can read."""
        ...

    def load_u64(self, buffer: Buffer, offset: int, /) -> int:
        """The integer at `offset`, loaded with acquire order."""
        ...

    def store_u64(self, buffer: Buffer, offset: int, value: int, /) -> None:
        """Store with release order."""
        ...

    def copy(
        self, rings: list[Buffer], table: Array, journal: Buffer, start: int, final: bool, /
    ) -> tuple[int, int]:
        """Copy new records of `rings[start:]` into the journal, then free their slots.

        `table` has a row per ring, see `rings.RingTable`. A record and its MORE slots stay together;
        `final` takes also the last one of a ring whose producer died in it. Returns (index of the first
        ring that has more than fits, slots copied); the index is len(rings) when all fitted.
        """
        ...

    def split(
        self, journal: Buffer, blocks: Array, ticks: Array, ns: Array, slope: Array, *columns: Array
    ) -> tuple[int, int, int, int, int, int, int, int]:
        """Split blocks into COLUMNS; begin and duration are ns, the duration of a counter the bits of its
        value. Rows of kinds KIND_TABLE_FIRST to KIND_TICKS_FIRST have session ns, which stay as they are;
        their tasks and attrs are in neither of the sets returned.

        `blocks` is int64[n, 3]: offset of the first slot, slots, thread at its begin. `more` is the offset
        of the record's MORE slots, or -1. Returns (rows, set of kinds, or of flags, or of tasks, or of
        attrs, changes of thread, greatest name, durations clipped to 0).
        """
        ...

    def payloads(self, journal: Buffer, more: Array, flags: Array, offsets: Array, valid: Array, /) -> bytes:
        """Payloads as JSON text: returns the bytes, fills `offsets` (int32[n + 1]) and `valid` (uint8[n])."""
        ...

    def entries(
        self, data: bytes, id_max: int, /
    ) -> tuple[int, bool, list[int], list[str], list[tuple[int, int, bytes]]]:
        """Parse entries of a names file, up to the first that makes no sense or has an id above `id_max`.

        Returns (bytes consumed, whether what follows is damaged, ids of NAME entries, their texts, the others
        as (kind, id, body)).
        """
        ...

    def errors(self, journal: Buffer, more: Array, /) -> list[str]:
        """Type name of the exception per record, '?' when unknown."""
        ...

    def end_threads(self, journal: Buffer, more: Array, out: Array, /) -> None:
        """Fills `out` (int64[n]) with the thread that ended each range, -1 when none is told."""
        ...


def load(pure: bool | None = None) -> tuple[Loops, str]:
    """The loops to use and their name, "C" or "twin". `pure` forces the twin; None: as the environment
    (TOPSKIT_PURE) says.
    """
    module, _ = extension.load("tops_kit.collect._drain", _INTERFACE, pure=pure)
    if module is not None:
        return cast(Loops, module), "C"
    from tops_kit.collect import drain

    return cast(Loops, drain), "twin"


def problem() -> str:
    """Why the loops are not those in C; "" when they are."""
    return extension.load("tops_kit.collect._drain", _INTERFACE)[1]
