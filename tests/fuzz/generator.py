"""Random programs that end: counted loops, ifs, and every instruction on operands that mostly fit."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from math import prod

import numpy as np

from tests.fuzz import faulty, scalars, tiles
from tests.fuzz.state import SCALAR_POOL, VECTOR_REGISTERS, KnownBuffer, State, Traits
from tests.fuzz.values import ArraySpec, float_value, int_value
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import F32, I32, U8
from tops_kit.isa.program import Program
from tops_kit.isa.table import OPCODES

_GRIDS = (
    ((1, 1, 1), (1, 1, 1)), ((1, 1, 1), (1, 1, 1)), ((1, 1, 1), (3, 1, 1)), ((2, 1, 1), (2, 1, 1)),
    ((3, 1, 1), (1, 1, 1)), ((2, 1, 2), (1, 2, 1)), ((1, 1, 1), (2, 2, 1)),
)  # fmt: skip
MAX_DUMPED_BYTES = 1 << 16


@dataclass(frozen=True)
class Case:
    """A program and what it is launched with: `arguments` in the order of parameters, a spec for an array.

    `starts` are where its statements begin, `dump` is where it begins to store everything it has.
    """

    seed: int
    program: Program
    arguments: list[ArraySpec | int | float]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    starts: tuple[int, ...]
    dump: int

    def cut(self, statements: int) -> Case:
        """The case with its first statements only: the others are jumped over."""
        code = self.program.code.copy()
        if statements < len(self.starts):
            code[self.starts[statements]] = [OPCODES["jmp"], self.dump, 0, 0, 0, 0, 0, 0]
        return dataclasses.replace(self, program=dataclasses.replace(self.program, code=code))


def generate(seed: int) -> Case:
    """The program of a seed: the same each time."""
    rng = random.Random(seed)
    grid, block = rng.choice(_GRIDS) if rng.random() < 0.97 else ((4, 1, 1), (6, 1, 1))
    threads = prod(grid) * prod(block)
    state = State(rng, Assembler(f"fuzz{seed}"), threads, Traits.choose(rng))
    begin(state)
    _load(state)
    faults = rng.random() < 0.25
    count = rng.randint(3, 22)
    at = rng.randrange(count) if faults else -1
    starts = []
    for number in range(count):
        starts.append(len(state.asm))
        if number == at:
            faulty.fault(state)
        statement(state, barriers=state.traits.barriers)
    end = len(state.asm)
    dump(state)
    program = state.asm.finish()
    if rng.random() < 0.15:
        faulty.mutate(program, np.random.default_rng(seed))
    return Case(seed, program, launch_arguments(state, program), grid, block, tuple(starts), end)


def begin(state: State) -> None:
    """Scalar registers with all kinds of values."""
    rng = state.rng
    for number in range(rng.randint(0, 4)):
        dtype = rng.choice((I32, F32))
        value = int_value(rng) if dtype is I32 else float_value(rng)
        state.scalars.append((state.asm.scalar(f"p{number}", dtype), dtype, value))
    state.ints = [f"i{number}" for number in range(SCALAR_POOL)]
    state.floats = [f"f{number}" for number in range(SCALAR_POOL)]
    for name in state.ints:
        state.op("imov", name, state.asm.constant(int_value(rng)))
    for name in state.floats:
        state.op("fmov", name, state.asm.constant(float_value(rng)))
    state.op("special", "i0", "thread_id")


def _load(state: State) -> None:
    """A few buffers with data: what comes later prefers them."""
    for _ in range(state.rng.randint(1, 4)):
        dtype, extents = state.dtype(), state.shape(state.rng.choice((1, 2, 3)))
        buffer = state.buffer("L1", dtype, extents, 1)
        array = state.array(dtype, extents, loaded=True, stored=False)
        there, here = state.tile(), state.tile()
        state.op("tptr", there, array.index)
        state.op("tbuf", here, buffer.index, state.asm.constant(0), 0)
        state.op("dma", "e0", here, there, state.asm.constant(0), 0)
        state.events = ["e0"]
        state.op("wait", "e0")


def statement(state: State, *, barriers: bool) -> None:
    """One statement: an instruction with its operands, a loop, an if, a barrier."""
    kind = state.rng.random()
    if kind < 0.08 and state.depth < 2:
        _loop(state, barriers=barriers)
    elif kind < 0.16 and state.depth < 2:
        _if(state)
    elif kind < 0.2 and barriers:
        state.op("gridbarrier" if state.chance(0.1) else "barrier")
    elif kind < 0.22:
        state.op("brk")
    else:
        choices = scalars.ALL + tiles.ALL
        make = state.rng.choices([make for make, _ in choices], [weight for _, weight in choices])[0]
        make(state)


def _body(state: State, *, barriers: bool) -> None:
    events = list(state.events)
    state.depth += 1
    for _ in range(state.rng.randint(1, 4)):
        statement(state, barriers=barriers)
    state.depth -= 1
    state.events = events


def _loop(state: State, *, barriers: bool) -> None:
    """A loop that counts to a number, the same for all threads or one's own."""
    counter, limit, top, out = (state.name(x) for x in ("count", "limit", "top", "out"))
    if state.chance(0.7):
        state.op("imov", limit, state.number(state.rng.randint(0, 4)))
    else:
        state.op("imod", limit, state.int(), state.asm.constant(4))
        barriers = False
    state.op("imov", counter, state.asm.constant(0))
    state.asm.label(top)
    state.op("bge", counter, limit, out)
    _body(state, barriers=barriers)
    if state.chance(0.2):  # break
        state.op("brz", state.int(), out)
        barriers = False
    state.op("iadd", counter, counter, state.asm.constant(1))
    state.op("jmp", top)
    state.asm.label(out)


def _if(state: State) -> None:
    """An if, perhaps with an else, on what differs between threads."""
    other, out = state.name("else"), state.name("end")
    name = state.rng.choice(("brz", "brnz", "blt", "bge"))
    operands = [state.int()] if name in ("brz", "brnz") else [state.int(), state.int()]
    state.op(name, *operands, other)
    _body(state, barriers=False)
    if state.chance(0.5):
        state.op("jmp", out)
        state.asm.label(other)
        _body(state, barriers=False)
        state.asm.label(out)
    else:
        state.asm.label(other)


def dump(state: State) -> None:
    """Everything that a thread has, into arrays: registers, vectors, L1 and L2."""
    zero = state.asm.constant(0)
    state.op("special", "thread", "thread_id")
    for name, dtype, pool in (("ints", I32, state.ints), ("floats", F32, state.floats)):
        buffer = state.buffer("L1", dtype, (len(pool),), 1)
        state.op("tbuf", name, buffer.index, zero, 0)
        for number, register in enumerate(pool):
            state.op("sts", name, state.asm.constant(number), zero, zero, register)
    vectors = state.buffer("L1", U8, (128 * VECTOR_REGISTERS,), 1)
    state.op("tbuf", "vectors", vectors.index, zero, 0)
    for number in range(VECTOR_REGISTERS):
        state.op("vst", "vectors", state.asm.constant(128 * number), f"v{number}")
    if state.traits.barriers:
        state.op("barrier")
    for buffer in list(state.buffers):
        size = buffer.slots * prod(buffer.shape) * buffer.dtype.size_bytes
        if 0 < size <= MAX_DUMPED_BYTES:
            _dump_buffer(state, buffer)
    state.op("end")


def _dump_buffer(state: State, buffer: KnownBuffer) -> None:
    array = state.array(
        buffer.dtype, (state.threads, buffer.slots, *buffer.shape), loaded=False, stored=True, plain=True
    )
    for slot in range(buffer.slots):
        state.op("tptr", "there", array.index)
        state.op("tindex", "there", "there", 0, "thread")
        state.op("tindex", "there", "there", 0, state.asm.constant(slot))
        state.op("tbuf", "here", buffer.index, state.asm.constant(slot), 0)
        state.op("dma", "last", "there", "here", state.asm.constant(0), 3)


def launch_arguments(state: State, program: Program) -> list[ArraySpec | int | float]:
    specs = {known.spec.name: known.spec for known in state.arrays}
    values = {name: value for name, _, value in state.scalars}
    return [specs[p.name] if p.kind == "pointer" else values[p.name] for p in program.parameters]
