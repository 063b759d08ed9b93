"""Layout of a journal file, and of the ring table that the loops share with `_drain.c`.

A journal part is a preallocated, mapped file into which records are copied out of the rings before their
slots are freed. Whatever kills the collector, a published record is in a ring, in a journal part or in a
segment:

    header page  magic, version, generation (offset 16), used bytes (24), size (32)
    blocks       block header (64 bytes), then its slots; `used` is stored (release) when a block is complete

Every block says which positions of which ring it holds, so recovery skips in the rings what a journal has.
A segment's meta says up to which generation of the journal its table holds the records (`meta: {"journal":
G}`), so recovery skips in the journal what a segment has.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from tops_kit.collect.arrays import Array, Buffer

MAGIC = b"TOPSJNL1"
VERSION = 1
HEADER_FORMAT = "<8sIIQQQ"  # magic, version, -, generation, used, size
GENERATION_OFFSET, USED_OFFSET = 16, 24
BLOCKS_OFFSET = 4096

BLOCK_MAGIC = 0x4B424A54
BLOCK_FORMAT = "<IIQQQQII16x"  # magic, kind, process, ring, first position, slots, tid, clock
BLOCK_BYTES = 64
BLOCK_RECORDS = 0
BLOCK_OPEN = 1  # ranges that were open when their process ended, made into records by the collector

# Columns of a row of the ring table (int64).
(RING_RECORDS, RING_CAPACITY, RING_TAIL, RING_TID, RING_PROCESS, RING_SERIAL, RING_BAD, RING_CLOCK) = range(8)
RING_COLUMNS = 8

# The consumer's own fields in the header of a ring file, in the padding after `tail`.
RING_TAIL_TID = 264  # u32: thread that the record at `tail` belongs to
RING_OPEN_TAKEN = 268  # u32: 1 when the ranges left open are in the journal or in a segment


@dataclass(frozen=True, slots=True)
class Block:
    """One block: `slots` records of 32 bytes at `offset`, positions [first, first + slots) of a ring."""

    kind: int
    process: int
    ring: int
    first: int
    slots: int
    tid: int
    clock: int
    offset: int


def pack_block(journal: Buffer, offset: int, kind: int, row: Array, *, first: int, slots: int) -> None:
    """Write the header of a block for the ring of `row` (a row of the ring table)."""
    process, ring, tid, clock = (
        int(row[column]) for column in (RING_PROCESS, RING_SERIAL, RING_TID, RING_CLOCK)
    )
    struct.pack_into(
        BLOCK_FORMAT,
        journal,
        offset,
        BLOCK_MAGIC,
        kind,
        process & (2**64 - 1),
        ring & (2**64 - 1),
        first,
        slots,
        tid & (2**32 - 1),
        clock,
    )


def blocks(journal: Buffer) -> list[Block]:
    """All complete blocks of a journal part. Stops at the first one that makes no sense."""
    view = memoryview(journal).cast("B")
    used = int(np.frombuffer(view, "<u8", 1, USED_OFFSET)[0])
    end = min(BLOCKS_OFFSET + used, view.nbytes)
    at, found = BLOCKS_OFFSET, []
    while at + BLOCK_BYTES <= end:
        magic, kind, process, ring, first, slots, tid, clock = struct.unpack_from(BLOCK_FORMAT, view, at)
        at += BLOCK_BYTES
        if magic != BLOCK_MAGIC or slots * 32 > end - at:
            break
        found.append(Block(kind, process, ring, first, slots, tid, clock, at))
        at += slots * 32
    return found


def header(journal: Buffer) -> dict[str, Any] | None:
    """generation, used and size of a journal part; None when it isn't one."""
    view = memoryview(journal).cast("B")
    if view.nbytes < BLOCKS_OFFSET:
        return None
    magic, version, _, generation, used, size = struct.unpack_from(HEADER_FORMAT, view, 0)
    if magic != MAGIC or version != VERSION:
        return None
    return {"generation": generation, "used": used, "size": size}
