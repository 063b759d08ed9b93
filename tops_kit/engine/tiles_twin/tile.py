"""Views of memory in Python: what a tile register holds, as engine/machine.h has it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tops_kit.engine.tiles_twin.numbers import RAW, Array, widen
from tops_kit.isa.dtypes import F32, DType

SPACE_NONE, SPACE_L1, SPACE_L2, SPACE_L3 = range(4)


class TileFault(Exception):  # noqa: N818 - a fault of a kernel, not an error of ours
    """An operation that cannot be done: `number` is the FAULT_* number of isa/faults.py."""

    def __init__(self, number: int) -> None:
        super().__init__(f"fault {number}")
        self.number = number


@dataclass(eq=False)
class Memory:
    """Bytes that views lie in, and the address of the first: overlap of views is told by addresses."""

    data: npt.NDArray[np.uint8]
    address: int
    owner: object = None  # what keeps memory from outside alive

    @classmethod
    def zeros(cls, size_bytes: int) -> Memory:
        """New memory, all zero."""
        data = np.zeros(size_bytes, np.uint8)
        return cls(data, data.ctypes.data)

    @classmethod
    def at(cls, address: int, size_bytes: int, owner: object) -> Memory:
        """Memory that lies at an address already, used in place; `owner` is kept alive."""
        if size_bytes == 0:
            return cls(np.zeros(0, np.uint8), address, owner)
        raw = (ctypes.c_uint8 * size_bytes).from_address(address)
        return cls(np.ctypeslib.as_array(raw), address, owner)


@dataclass(eq=False)
class Tile:
    """A view: `offset` (bytes into `memory`) is where index 0 of every axis lies, even where that is outside.

    Strides are in bytes. Along each axis only indices in [lo, hi) exist; `inside` says that all do.
    `result` marks a compiler's tile: what is written gives it its extents, at most `capacity`.
    """

    memory: Memory
    offset: int
    dtype: DType
    n: list[int]
    stride: list[int]
    lo: list[int] = field(default_factory=list)
    hi: list[int] = field(default_factory=list)
    space: int = SPACE_L1
    object: int = 0
    slot: int = 0
    result: bool = False
    inside: bool = True
    capacity: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lo = self.lo or [0] * len(self.n)
        self.hi = self.hi or list(self.n)

    @classmethod
    def dense(
        cls, memory: Memory, offset: int, dtype: DType, shape: tuple[int, ...], space: int = SPACE_L1
    ) -> Tile:
        """The view of a whole dense array at `offset`."""
        stride, strides = dtype.size_bytes, []
        for extent in reversed(shape):
            strides.append(stride)
            stride *= extent
        return cls(memory, offset, dtype, list(shape), strides[::-1], space=space)

    @property
    def rank(self) -> int:
        """How many axes."""
        return len(self.n)

    @property
    def address(self) -> int:
        """The address of index 0."""
        return self.memory.address + self.offset

    def copy(self) -> Tile:
        """The same view in another register."""
        return Tile(
            self.memory, self.offset, self.dtype, list(self.n), list(self.stride), list(self.lo),
            list(self.hi), self.space, self.object, self.slot, self.result, self.inside, list(self.capacity),
        )  # fmt: skip

    def set_extents(self, extents: list[int]) -> None:
        """Give a result tile its extents; strides stay."""
        self.n = list(extents)
        self.lo = [0] * len(extents)
        self.hi = list(extents)

    def raw(self) -> Array:
        """The elements in place, as a strided array of their bits; only of views that are `inside`.

        f32 is uint32, f16 and bf16 are uint16, bool is uint8, the rest are themselves.
        """
        return self.part(self.offset, self.n)

    def part(self, offset: int, n: list[int]) -> Array:
        """As `raw`, from another offset and with other extents."""
        if 0 in n:
            return np.empty(n, RAW[self.dtype.name])
        return np.ndarray(n, RAW[self.dtype.name], self.memory.data.data, offset, self.stride)

    def values(self) -> Array:
        """A copy of the elements as scalars have them: float32 for floats, int32 for the rest."""
        return widen(self.raw(), self.dtype)


def plain(array: Array, dtype: DType = F32, *, space: int = SPACE_L1) -> Tile:
    """A tile over a numpy array whose elements have the size of `dtype`, in place; any strides."""
    if array.itemsize != dtype.size_bytes:
        raise ValueError(f"elements of {array.itemsize} bytes cannot be {dtype}")
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    below = sum(min(0, r) for r in reach)
    size = sum(abs(r) for r in reach) + array.itemsize if array.size else 0
    memory = Memory.at(array.ctypes.data + below, size, array)
    return Tile(memory, -below, dtype, list(array.shape), list(array.strides), space=space)
