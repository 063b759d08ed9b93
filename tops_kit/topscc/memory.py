"""Sizes of buffers, and what is said when they don't fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tops_kit.isa.dtypes import DType
from tops_kit.topscc.diagnostics import KernelError, Where
from tops_kit.topscc.target import Target
from tops_kit.topscc.tree import Buffer

ALIGNMENT = 128  # bytes: every slot starts on a vector


def slot_bytes(dtype: DType, shape: Sequence[int]) -> int:
    """Bytes of a slot, up to the next vector."""
    size = math.prod(shape) * dtype.size_bytes
    return -(-size // ALIGNMENT) * ALIGNMENT


class MemoryOverflowError(KernelError):
    """Buffers and tiles that need more L1 or L2 than the part has."""


@dataclass(frozen=True, slots=True)
class Need:
    """Memory that a buffer, or a tile of the compiler, takes."""

    name: str
    space: str
    dtype: DType
    shape: tuple[int, ...]
    slots: int
    where: Where

    @property
    def size_bytes(self) -> int:
        """Bytes of all slots."""
        return self.slots * slot_bytes(self.dtype, self.shape)


def check_buffers(buffers: Iterable[Buffer], target: Target) -> None:
    """Raise MemoryOverflowError when the kernel's own buffers need more than the part has."""
    check([Need(b.name, b.space, b.dtype, b.shape, b.slots, b.where) for b in buffers], target)


def check(needs: Sequence[Need], target: Target) -> None:
    """Raise MemoryOverflowError with the buffers and their sizes, largest first, when a memory overflows."""
    for space, available in (("L1", target.l1_bytes), ("L2", target.l2_bytes)):
        wanted = [need for need in needs if need.space == space]
        total = sum(need.size_bytes for need in wanted)
        if total <= available:
            continue
        wanted.sort(key=lambda need: -need.size_bytes)
        rows = [
            f"{need.name}: {need.dtype} {need.shape}{f' x {need.slots} slots' if need.slots > 1 else ''}, "
            f"{_size(need.size_bytes)}"
            for need in wanted[:8]
        ]
        rest = len(wanted) - len(rows)
        listing = "; ".join(rows) + (f"; and {rest} more" if rest else "")
        owner = "a thread" if space == "L1" else "a block"
        raise MemoryOverflowError(
            f"{space} overflows: {_size(total)} of the {_size(available)} that {owner} of {target.name} has "
            f"({listing})",
            wanted[0].where,
            "smaller tiles, fewer slots, or fewer values alive at the same time",
        )


def _size(size_bytes: int) -> str:
    if size_bytes >= 10 << 20:
        return f"{size_bytes / (1 << 20):.1f} MB"
    return f"{size_bytes / 1024:.4g} KB" if size_bytes >= 1024 else f"{size_bytes} B"
