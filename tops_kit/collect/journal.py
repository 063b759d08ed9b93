"""The parts of the journal: one takes records from the rings while others are written. See journal_format."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from tops_kit.collect import journal_format as jf
from tops_kit.collect.arrays import Array
from tops_kit.collect.backend import Loops
from tops_kit.errors import SessionError

NAMES = ("journal-0", "journal-1", "journal-2", "journal-3")
# Tried in this order, for small file systems.
SIZES = (24 << 20, 6 << 20, 1 << 20)


class Part:
    """One mapped part."""

    def __init__(self, path: Path, memory: mmap.mmap, loops: Loops) -> None:
        self.path = path
        self.memory = memory
        self._loops = loops

    @property
    def generation(self) -> int:
        return self._loops.load_u64(self.memory, jf.GENERATION_OFFSET)

    @property
    def used(self) -> int:
        """Bytes of complete blocks."""
        return self._loops.load_u64(self.memory, jf.USED_OFFSET)

    @property
    def room(self) -> int:
        """Bytes left for blocks."""
        return len(self.memory) - jf.BLOCKS_OFFSET - self.used

    def restart(self, generation: int) -> None:
        """Empty the part. What it held is in segments."""
        self._loops.store_u64(self.memory, jf.USED_OFFSET, 0)
        self._loops.store_u64(self.memory, jf.GENERATION_OFFSET, generation)

    def blocks(self) -> list[jf.Block]:
        """All complete blocks."""
        return jf.blocks(self.memory)

    def append_open(self, row: Array, slots: bytes) -> bool:
        """Add a block of ranges that never ended, made from the ring of `row`; False when it doesn't fit."""
        if jf.BLOCK_BYTES + len(slots) > self.room:
            return False
        used = self.used
        offset = jf.BLOCKS_OFFSET + used
        jf.pack_block(self.memory, offset, jf.BLOCK_OPEN, row, first=0, slots=len(slots) // 32)
        self.memory[offset + jf.BLOCK_BYTES : offset + jf.BLOCK_BYTES + len(slots)] = slots
        self._loops.store_u64(self.memory, jf.USED_OFFSET, used + jf.BLOCK_BYTES + len(slots))
        return True


def create_parts(folder: Path, loops: Loops, present: Sequence[Part] = ()) -> list[Part]:
    """All parts: those that are `present`, and new ones as large as the file system allows.

    SessionError when not even the smallest fit.
    """
    there = {part.path.name for part in present}
    missing = [name for name in NAMES if name not in there]
    generation = max((part.generation for part in present), default=0)
    problem: OSError | None = None
    for size in SIZES:
        for name in missing:
            (folder / name).unlink(missing_ok=True)
        try:
            made = [_create(folder / name, size, generation + n, loops) for n, name in enumerate(missing, 1)]
        except OSError as error:
            problem = error
            continue
        return [*present, *made]
    reason = (problem.strerror if problem else None) or str(problem)
    raise SessionError(f"cannot record in {folder}: {reason}; free some space or choose another folder")


def _create(path: Path, size: int, generation: int, loops: Loops) -> Part:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        # Allocated before it is mapped: a full disk is an error here and no SIGBUS later.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.write(descriptor, bytes(size))  # systems that only recover
        memory = mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
    struct.pack_into(jf.HEADER_FORMAT, memory, 0, jf.MAGIC, jf.VERSION, 0, generation, 0, size)
    return Part(path, memory, loops)


def open_parts(folder: Path, loops: Loops) -> list[Part]:
    """The parts that a collector left, oldest generation first. What is no journal part is ignored."""
    parts = []
    for name in NAMES:
        with contextlib.suppress(FileNotFoundError, ValueError), (folder / name).open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
            if jf.header(memory) is not None:
                parts.append(Part(folder / name, memory, loops))
    return sorted(parts, key=lambda part: part.generation)


def remove_parts(folder: Path) -> None:
    """Delete the journal's files."""
    for name in NAMES:
        (folder / name).unlink(missing_ok=True)
