"""What the generator knows of the program it is writing."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.fuzz.values import ArraySpec, float_value, int_value, shape
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import BOOL, DTYPES, F32, I32, DType

TILE_REGISTERS = 24
VECTOR_REGISTERS = 5
SCALAR_POOL = 8


@dataclass(frozen=True)
class KnownBuffer:
    """A buffer of the program."""

    index: int
    space: str
    dtype: DType
    shape: tuple[int, ...]
    slots: int


@dataclass(frozen=True)
class KnownArray:
    """A pointer parameter of the program."""

    index: int
    spec: ArraySpec
    loaded: bool
    stored: bool


@dataclass(frozen=True)
class Traits:
    """What a program may have. Without them its threads can run on several host threads at once."""

    l2: bool
    barriers: bool
    atomics: bool
    loads_what_it_stores: bool
    clock: bool

    @classmethod
    def choose(cls, rng: random.Random) -> Traits:
        """Often all, else some."""
        clock = rng.random() < 0.2
        if rng.random() < 0.4:
            return cls(True, True, True, True, clock)
        return cls(*(rng.random() < 0.35 for _ in range(4)), clock)


@dataclass
class State:
    """The assembler, random choices, and what exists so far. Programs end by construction: loops count.

    `ints` and `floats` are scalar registers with values that the generator does not know; `depth` counts
    loops and ifs around the next instruction, `uniform` says that all threads come here equally often.
    """

    rng: random.Random
    asm: Assembler
    threads: int
    traits: Traits
    buffers: list[KnownBuffer] = field(default_factory=list)
    arrays: list[KnownArray] = field(default_factory=list)
    scalars: list[tuple[str, DType, int | float]] = field(default_factory=list)
    ints: list[str] = field(default_factory=list)
    floats: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    depth: int = 0
    uniform: bool = True
    in_loop: int = 0
    names: int = 0
    next_tile: int = 0

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.rng.random() < probability

    def op(self, name: str, *operands: object) -> None:
        """One more instruction."""
        self.asm.op(name, *operands)  # type: ignore[arg-type]

    def name(self, prefix: str) -> str:
        """A name that is not used yet."""
        self.names += 1
        return f"{prefix}{self.names}"

    def tile(self) -> str:
        """A tile register; the same comes again after some others."""
        self.next_tile = (self.next_tile + 1) % TILE_REGISTERS
        return f"t{self.next_tile}"

    def vector(self) -> str:
        """A vector register."""
        return f"v{self.rng.randrange(VECTOR_REGISTERS)}"

    def number(self, value: int) -> str:
        """A register that holds this int: a constant, or a parameter or sum that has the same value."""
        known = [name for name, dtype, given in self.scalars if dtype is I32 and given == value]
        if known and self.chance(0.5):
            return self.rng.choice(known)
        if self.chance(0.1):
            part = self.rng.randint(-50, 50)
            out = f"n{self.rng.randrange(20)}"
            self.op("iadd", out, self.asm.constant(value - part), self.asm.constant(part))
            return out
        return self.asm.constant(value)

    def int(self) -> str:
        """A register with some int."""
        return self.rng.choice(self.ints) if self.chance(0.8) else self.asm.constant(int_value(self.rng))

    def float(self) -> str:
        """A register with some float."""
        return self.rng.choice(self.floats) if self.chance(0.8) else self.asm.constant(float_value(self.rng))

    def scalar(self, dtype: DType) -> str:
        """A register with some scalar for elements of a type."""
        return self.float() if dtype.is_float else self.int()

    def below(self, count: int) -> str:
        """A register with an int in [0, count), known or not."""
        if self.chance(0.6):
            return self.number(self.rng.randrange(count))
        out = f"n{self.rng.randrange(20)}"
        self.op("imod", out, self.int(), self.asm.constant(count))
        return out

    def dtype(self, kinds: str = "fiub") -> DType:
        """A type; f32 and i32 more often."""
        choices = [dtype for dtype in (*DTYPES, F32, F32, I32) if dtype.kind in kinds]
        return self.rng.choice(choices)

    def buffer(
        self, space: str, dtype: DType, extents: tuple[int, ...], slots: int | None = None
    ) -> KnownBuffer:
        """A new buffer."""
        count = slots or self.rng.choice((1, 1, 1, 2, 3))
        index = self.asm.buffer(f"b{len(self.buffers)}", space, dtype, extents, count)
        self.buffers.append(KnownBuffer(index, space, dtype, extents, count))
        return self.buffers[-1]

    def array(
        self, dtype: DType, extents: tuple[int, ...], *, loaded: bool, stored: bool, plain: bool = False
    ) -> KnownArray:
        """A new pointer parameter, with any layout unless `plain`."""
        rng = self.rng
        order = list(range(len(extents)))
        steps = [1] * len(extents)
        if not plain and self.chance(0.4):
            rng.shuffle(order)
            steps = [rng.choice((1, 1, 1, 2, 3, -1, -2)) for _ in extents]
        shares = rng.randrange(len(self.arrays)) if self.arrays and not plain and self.chance(0.05) else None
        seed = rng.randint(1, 1 << 32) if loaded else 0
        spec = ArraySpec(f"a{len(self.arrays)}", dtype, extents, tuple(order), tuple(steps), seed, shares)
        index = self.asm.pointer(spec.name, dtype, len(extents), loaded=loaded, stored=stored)
        self.arrays.append(KnownArray(index, spec, loaded, stored))
        return self.arrays[-1]

    def shape(self, rank: int | None = None, limit: int = 1200) -> tuple[int, ...]:
        """Some extents; 1 to 3 axes, seldom none; seldom one long one."""
        if rank in (None, 1) and limit >= 1000 and self.chance(0.04):
            return (self.rng.randint(1000, 5000),)
        if rank is None:
            rank = self.rng.choice((1, 1, 2, 2, 2, 3, 3, 0))
        return shape(self.rng, rank, limit)


def is_number(dtype: DType) -> bool:
    """Whether arithmetic on the type is arithmetic."""
    return dtype is not BOOL
