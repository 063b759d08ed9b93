"""Ring files: opening them with checks, the table that the loops work on, the ranges left open in them."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from topstx.recorder import layout

from tops_kit.collect import journal_format as jf
from tops_kit.collect.arrays import Array, Int64

_OFFSET = layout.RING_OFFSET
FOLDER = "rings"

OPEN = np.dtype(
    {
        "names": ["begin", "name", "attr", "tid", "task", "depth", "kind", "flags", "payload"],
        "formats": ["<u8", "<u4", "<u4", "<u4", "<u4", "<u2", "u1", "u1", "V16"],
        "offsets": [
            layout.OPEN_OFFSET[f]
            for f in ("begin_tick", "name", "attr", "tid", "task", "depth", "kind", "flags", "payload")
        ],
        "itemsize": layout.OPEN_BYTES,
    }
)


class RingError(Exception):
    """A ring file that can't be used; the message says why."""


class RingLaterError(RingError):
    """A ring file that can't be opened now, for want of files or memory: rings that end make room."""


class RingNotReadyError(Exception):
    """A ring file that its process has not finished making."""


@dataclass(slots=True, eq=False)
class Ring:
    """One mapped ring file, checked against its size."""

    path: Path
    memory: mmap.mmap
    process: int
    serial: int
    predecessor: int
    clock: int
    pid: int
    shared: bool
    records: int
    capacity: int
    open_offset: int
    open_capacity: int

    def field(self, name: str) -> int:
        """A header field that changes: head, tail, dropped, blocked_ns, unbalanced, last_tick (64 bits),
        state, tid (32 bits).
        """
        format_ = "<I" if name in {"state", "tid"} else "<Q"
        return int(struct.unpack_from(format_, self.memory, _OFFSET[name])[0])

    @property
    def open_taken(self) -> bool:
        """Whether the ranges left open have been recorded as unfinished."""
        return bool(struct.unpack_from("<I", self.memory, jf.RING_OPEN_TAKEN)[0])

    def mark_open_taken(self) -> None:
        struct.pack_into("<I", self.memory, jf.RING_OPEN_TAKEN, 1)

    def open_ranges(self) -> Array:
        """A copy of the occupied slots of the open table, structured as OPEN."""
        slots = np.frombuffer(self.memory, OPEN, self.open_capacity, self.open_offset)
        before = slots["begin"].copy()
        taken = slots[before != 0]
        # A slot is cleared first at its range's end and filled last at its begin: what is the same before
        # and after is whole.
        same = slots["begin"][before != 0] == before[before != 0]
        copied: Array = taken[same]
        ended = self._last_record()
        if ended is not None:  # a kill came between a record and the clearing of its slot
            copied = copied[(copied["begin"] != ended[0]) | (copied["name"] != ended[1])]
        return copied[np.argsort(copied["begin"], kind="stable")]

    def _last_record(self) -> tuple[int, int] | None:
        """Begin and name of the last record that was published, whether consumed or not; None before any."""
        head = self.field("head")
        for back in range(1, min(head, self.capacity) + 1):
            place = self.records + ((head - back) & (self.capacity - 1)) * layout.RECORD_BYTES
            begin, _, name, _, _, _, kind, _ = struct.unpack_from(layout.RECORD_FORMAT, self.memory, place)
            if kind != layout.KIND_MORE:
                return begin, name
        return None


def open_ring(path: Path) -> Ring:
    """Map and check one ring file.

    RingNotReadyError while it is being built, RingLaterError when there is no room for it now, RingError
    when it can't be one, FileNotFoundError when it is gone.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(error) from error
    try:
        size = os.fstat(descriptor).st_size
        if size < layout.PAGE:
            raise RingNotReadyError(path.name)
        memory = mmap.mmap(descriptor, size)
    except OSError as error:
        raise _unusable(error) from error
    except ValueError as error:
        raise RingError(f"cannot be mapped: {error}") from error
    finally:
        os.close(descriptor)
    values = dict(zip(layout.RING_FIELDS, struct.unpack_from(layout.RING_FORMAT, memory, 0), strict=True))
    problem = _problem(values, size)
    if problem is None and path.name != layout.ring_file_name(
        values["process_serial"], values["ring_serial"]
    ):
        problem = "its header names another ring"
    if values["magic"] == b"\0" * 8 or values["state"] == layout.RING_BUILDING:
        raise RingNotReadyError(path.name)
    if problem is not None:
        raise RingError(problem)
    return Ring(
        path=path,
        memory=memory,
        process=values["process_serial"],
        serial=values["ring_serial"],
        predecessor=values["predecessor"],
        clock=values["clock"],
        pid=values["pid"],
        shared=bool(values["shared"]),
        records=values["record_offset"],
        capacity=values["record_capacity"],
        open_offset=values["open_offset"],
        open_capacity=values["open_capacity"],
    )


def _unusable(error: OSError) -> RingError:
    later = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    return (RingLaterError if later else RingError)(error.strerror or str(error))


def _problem(values: dict[str, Any], size: int) -> str | None:
    """Why a header can't be trusted, None when it can."""
    if values["magic"] != layout.RING_MAGIC:
        return "no ring file"
    if values["layout_version"] != layout.LAYOUT_VERSION:
        return f"layout version {values['layout_version']}, this version reads {layout.LAYOUT_VERSION}"
    capacity, records = values["record_capacity"], values["record_offset"]
    if capacity <= 0 or capacity & (capacity - 1) or records % 8 or records < layout.RING_HEADER_BYTES:
        return "its header makes no sense"
    if records + capacity * layout.RECORD_BYTES > size:
        return "it is shorter than its header says"
    if (
        values["open_offset"] % 8
        or values["open_offset"] + values["open_capacity"] * layout.OPEN_BYTES > size
    ):
        return "its header makes no sense"
    if values["clock"] not in (layout.CLOCK_MONOTONIC, layout.CLOCK_TSC):
        return "it has an unknown clock"
    if values["head"] - values["tail"] > capacity or values["head"] < values["tail"]:
        return "its counters make no sense"
    return None


class RingTable:
    """All open rings, and beside them the int64 table (a row per ring) that the loops work on."""

    def __init__(self) -> None:
        self.rings: list[Ring] = []
        self.memories: list[Any] = []
        self.table: Int64 = np.zeros((16, jf.RING_COLUMNS), np.int64)
        self.by_name: dict[str, Ring] = {}
        self._index: dict[Ring, int] = {}

    def __len__(self) -> int:
        return len(self.rings)

    def add(self, ring: Ring, tail: int | None = None, tid: int | None = None) -> None:
        """Take up a ring, from its own tail on unless a journal has records further on (`tail`, with their
        last thread).
        """
        if len(self.rings) == len(self.table):
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        row = self.table[len(self.rings)]
        row[:] = 0
        row[jf.RING_RECORDS], row[jf.RING_CAPACITY] = ring.records, ring.capacity
        row[jf.RING_TAIL] = ring.field("tail") if tail is None else max(tail, ring.field("tail"))
        if tid is None:
            # A ring that was consumed before says whose record is at its tail; a fresh one begins with its
            # first thread.
            tid = (
                ring.field("tid")
                if ring.field("tail") == 0
                else struct.unpack_from("<I", ring.memory, jf.RING_TAIL_TID)[0]
            )
        row[jf.RING_TID] = tid
        row[jf.RING_PROCESS] = np.uint64(ring.process).astype(np.int64)
        row[jf.RING_SERIAL], row[jf.RING_CLOCK] = ring.serial, ring.clock
        self._index[ring] = len(self.rings)
        self.rings.append(ring)
        self.memories.append(ring.memory)
        self.by_name[ring.path.name] = ring

    def row(self, ring: Ring) -> Int64:
        """The table row of a ring; a view."""
        row: Int64 = self.table[self._index[ring]]
        return row

    def remove(self, rings: set[Ring]) -> None:
        """Let go of rings (their files are the caller's)."""
        keep = [index for index, ring in enumerate(self.rings) if ring not in rings]
        self.table[: len(keep)] = self.table[keep]
        self.rings = [self.rings[index] for index in keep]
        self.memories = [ring.memory for ring in self.rings]
        self._index = {ring: index for index, ring in enumerate(self.rings)}
        for ring in rings:
            self.by_name.pop(ring.path.name, None)

    def drained(self, ring: Ring) -> bool:
        """Whether everything that the ring's producer published has been copied."""
        row = self.row(ring)
        return bool(row[jf.RING_BAD]) or ring.field("head") == int(row[jf.RING_TAIL])

    def predecessors(self) -> set[tuple[int, int]]:
        """(process, ring) of rings whose open ranges a successor has taken over."""
        return {
            (ring.process, ring.predecessor)
            for ring in self.rings
            if ring.predecessor and ring.field("state") != layout.RING_BUILDING
        }

    def take_bad(self) -> list[Ring]:
        """Rings whose counters turned out to be damaged; each is returned once and stays skipped."""
        rows = np.flatnonzero(self.table[: len(self.rings), jf.RING_BAD] == 1)
        self.table[rows, jf.RING_BAD] = 2
        return [self.rings[index] for index in rows]


def unfinished_records(ranges: Array, tick: int) -> bytes:
    """Slots (records with the flag UNFINISHED, ending at `tick`; THREAD records where the thread changes) for
    open ranges and calls.
    """
    parts: list[bytes] = []
    tid = None
    for item in ranges:
        if int(item["tid"]) != tid:
            tid = int(item["tid"])
            parts.append(
                struct.pack(
                    layout.RECORD_FORMAT,
                    int(item["begin"]),
                    int(item["begin"]),
                    0,
                    tid,
                    0,
                    0,
                    layout.KIND_THREAD,
                    0,
                )
            )
        payload = bytes(item["payload"])
        flags = (int(item["flags"]) & ~(layout.FLAG_MORE | layout.FLAG_ERROR)) | layout.FLAG_UNFINISHED
        tag, length = payload[0], min(payload[1], 14)
        if tag:
            flags |= layout.FLAG_MORE
            if tag == layout.MORE_JSON and length == 14:
                flags |= layout.FLAG_TRUNCATED  # only its first 14 bytes were kept: that is no JSON any more
        begin = int(item["begin"])
        kind = layout.KIND_CALL if item["kind"] == layout.KIND_CALL else layout.KIND_RANGE
        parts.append(
            struct.pack(
                layout.RECORD_FORMAT,
                begin,
                max(tick, begin),
                item["name"],
                item["task"],
                item["attr"],
                item["depth"],
                kind,
                flags,
            )
        )
        if tag:
            data = struct.pack("<BH", tag, length) + payload[2 : 2 + length]
            parts.append(struct.pack(layout.MORE_FORMAT, data, layout.KIND_MORE, len(data)))
    return b"".join(parts)
