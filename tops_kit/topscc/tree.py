"""The structured tree of a kernel: typed, frozen, independent of the language it was written in."""

from __future__ import annotations

from dataclasses import dataclass

from tops_kit.isa.dtypes import DType
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """The result of one node. Values are compared by identity."""

    number: int
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable of the source. Its kind (and for tiles its bounds) is that of its first value; it never changes."""

    number: int
    name: str
    kind: Kind
    where: Where


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """L1 memory of a thread or L2 memory of a block: `slots` times `shape`."""

    number: int
    name: str
    space: str
    dtype: DType
    shape: tuple[int, ...]
    slots: int
    where: Where
