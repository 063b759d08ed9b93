"""The types of values in a kernel: scalars, tiles, views of memory, vectors, events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tops_kit.isa.dtypes import DType

MAX_TILE_AXES = 3
MAX_VIEW_AXES = 5


@dataclass(frozen=True, slots=True)
class AtMost:
    """An extent known only when the kernel runs. `bound` is the most it can be, None when nothing is known.

    Extents with the same `key` (not None) are equal in every run.
    """

    bound: int | None = None
    key: object = field(default=None, repr=False)

    def __str__(self) -> str:
        return "?" if self.bound is None else f"<={self.bound}"


Extent: TypeAlias = int | AtMost
Shape: TypeAlias = tuple[Extent, ...]


def bound_of(extent: Extent) -> int | None:
    """The most an extent can be; None when nothing is known."""
    return extent if isinstance(extent, int) else extent.bound


def same_extent(a: Extent, b: Extent) -> bool:
    """Whether two extents are certainly equal."""
    if isinstance(a, AtMost) and isinstance(b, AtMost):
        return a.key is not None and a.key == b.key
    return isinstance(a, int) and isinstance(b, int) and a == b


def shape_text(shape: Shape) -> str:
    """A shape as people write it: (4, <=64, ?)."""
    inside = ", ".join(str(extent) for extent in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """A number in a scalar register: i32, f32 or bool."""

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True, slots=True)
class TileKind:
    """A value of 1 to 3 axes that the compiler keeps in L1. Every extent has a bound."""

    dtype: DType
    shape: Shape

    @property
    def rank(self) -> int:
        """How many axes."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"tile {self.dtype} {shape_text(self.shape)}"


@dataclass(frozen=True, slots=True)
class ViewKind:
    """A part of memory: of an array ("L3"), or of one slot of a buffer ("L1", "L2"), of up to 5 axes.

    `outside`: it may reach outside of its array; only `load` with `pad` and `store` with `clip` take such a
    view.
    """

    dtype: DType
    shape: Shape
    space: str
    outside: bool = False

    @property
    def rank(self) -> int:
        """How many axes."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"view {self.dtype} {shape_text(self.shape)} in {self.space}"


@dataclass(frozen=True, slots=True)
class VectorKind:
    """A 128-byte vector register."""

    dtype: DType

    def __str__(self) -> str:
        return f"vector {self.dtype}"


@dataclass(frozen=True, slots=True)
class EventKind:
    """The completion of a transfer."""

    def __str__(self) -> str:
        return "event"


Kind: TypeAlias = ScalarKind | TileKind | ViewKind | VectorKind | EventKind
