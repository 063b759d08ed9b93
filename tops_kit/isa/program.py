"""A compiled kernel: instructions, where each came from, and what it needs of a launch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tops_kit.isa.dtypes import DType

PIPELINE_CHANNELS = 4  # of a buffer's slots in a pipeline; with more slots its loads share one


@dataclass(frozen=True)
class Location:
    """A place in a source. `parent` is the location of the call this was inlined at (an index), or -1.

    Lines count from 1, columns from 0 (characters), as Python's ast does; `file` is an index into
    `Program.files`.
    """

    file: int
    line: int
    column: int
    end_line: int
    end_column: int
    parent: int = -1


@dataclass(frozen=True)
class SourceFile:
    """A source file as it was when the kernel was compiled; `text` begins at line `first_line`."""

    path: str
    text: str
    first_line: int = 1


@dataclass(frozen=True)
class Buffer:
    """Memory of a thread (L1) or a block (L2): `slots` slots of `shape`, each starting on 128 bytes.

    `offset_bytes` is where slot 0 lies in its memory; slot k lies `k * slot_bytes` further. `location` is an
    index. `temporary` marks what the compiler allocated.
    """

    name: str
    space: str  # "L1" or "L2"
    dtype: DType
    shape: tuple[int, ...]
    slots: int
    offset_bytes: int
    slot_bytes: int
    location: int
    temporary: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel.

    Pointers: `index` is the place among the pointers; scalars: `index` is the register that gets the value.
    """

    name: str
    kind: str  # "pointer" or "scalar"
    dtype: DType
    index: int
    ndim: int = 0
    loaded: bool = False
    stored: bool = False
    atomic: bool = False


@dataclass(frozen=True)
class Variable:
    """A variable of the source: where its value lives between `first_pc` and `last_pc` (inclusive)."""

    name: str
    kind: str  # "scalar", "tile", "vector", "event", "buffer"
    dtype: DType
    register: int  # scalar, tile or vector register; for buffers the buffer's index
    shape: tuple[int, ...]
    first_pc: int
    last_pc: int
    location: int  # where it was first assigned


@dataclass(frozen=True)
class Constant:
    """A scalar register's value at the start: an int (two's complement, 32 bits) or a float."""

    register: int
    value: int | float


@dataclass(frozen=True, eq=False)
class Program:
    """A kernel for the machine. `code` is (instructions, 8) uint16: opcode and seven operands."""

    name: str
    arch: str
    code: npt.NDArray[np.uint16]
    location_of: npt.NDArray[np.int32]  # per instruction, an index into `locations`, -1 for none
    locations: tuple[Location, ...]
    files: tuple[SourceFile, ...]
    scalars: int  # how many registers of each kind
    tiles: int
    vectors: int
    constants: tuple[Constant, ...]
    buffers: tuple[Buffer, ...]
    parameters: tuple[Parameter, ...]
    variables: tuple[Variable, ...] = ()
    strings: tuple[str, ...] = ()
    constexprs: dict[str, int | float | bool | str] = field(default_factory=dict)

    @property
    def l1_bytes(self) -> int:
        """L1 that a thread needs."""
        return _extent(self.buffers, "L1")

    @property
    def l2_bytes(self) -> int:
        """L2 that a block needs."""
        return _extent(self.buffers, "L2")

    @property
    def pointers(self) -> tuple[Parameter, ...]:
        """The pointer parameters in order of their index."""
        return tuple(sorted((p for p in self.parameters if p.kind == "pointer"), key=lambda p: p.index))


def _extent(buffers: tuple[Buffer, ...], space: str) -> int:
    return max((b.offset_bytes + b.slots * b.slot_bytes for b in buffers if b.space == space), default=0)
