"""Random data for fuzzed programs: array arguments with any layout, values with all the special ones."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from math import prod

import numpy as np

from tops_kit.isa.dtypes import BF16, BOOL, F32, DType

SPECIAL_F32 = (
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000,
    0x7F800001, 0x7FA12345, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x4F000000,
    0xCF000000, 0x4EFFFFFF, 0x42B17218, 0xC2CFF1B5, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x33000000,
    0x33000001, 0x3F000000, 0x40490FDB,
)  # fmt: skip


@dataclass(frozen=True)
class ArraySpec:
    """An array argument: its shape, how it lies in memory, and where its data comes from.

    `order` are the axes from the slowest to the fastest, `steps` is by how many elements each axis moves,
    negative for axes that run backwards. `seed` is that of the data, 0 for the same byte everywhere. `shares`
    names an earlier array whose memory this one lies in (by bytes).
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    order: tuple[int, ...]
    steps: tuple[int, ...]
    seed: int
    shares: int | None = None


@dataclass(frozen=True)
class ArrayArgument:
    """What a launch takes for a pointer: an address and a layout. `memory`: all bytes, also those between."""

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    name: str
    memory: np.ndarray
    owner: object
    writable: bool = True


def allocate(specs: list[ArraySpec]) -> list[ArrayArgument]:
    """New memory with the data of the specs; the same each time."""
    arguments: list[ArrayArgument] = []
    for spec in specs:
        strides, size, start = _layout(spec)
        if spec.shares is not None and arguments[spec.shares].memory.size >= size:
            memory = arguments[spec.shares].memory
        else:
            memory = np.frombuffer(bytearray(_data(spec.dtype, size, spec.seed)), np.uint8)
        address = memory.ctypes.data + start
        arguments.append(ArrayArgument(address, spec.dtype, spec.shape, strides, spec.name, memory, memory))
    return arguments


def _layout(spec: ArraySpec) -> tuple[tuple[int, ...], int, int]:
    """Strides, size in bytes, and the offset of index 0."""
    strides = [0] * len(spec.shape)
    stride = spec.dtype.size_bytes
    start = 0
    for axis in reversed(spec.order):
        step = spec.steps[axis]
        strides[axis] = stride * step
        if step < 0:
            start += (max(spec.shape[axis], 1) - 1) * stride * -step
        stride *= max(spec.shape[axis], 1) * abs(step)
    return tuple(strides), stride, start


@functools.lru_cache(maxsize=256)
def _data(dtype: DType, size: int, seed: int) -> bytes:
    memory = np.full(size, 0xA5, np.uint8)
    if seed:
        fill(memory, dtype, np.random.default_rng(seed))
    return memory.tobytes()


def fill(memory: np.ndarray, dtype: DType, rng: np.random.Generator) -> None:
    """Random elements in bytes, in place."""
    count = memory.size // dtype.size_bytes
    if dtype.is_float:
        bits = _floats(count, rng)
        if dtype is F32:
            raw = bits
        elif dtype is BF16:
            raw = (bits >> 16).astype(np.uint16)
        else:
            with np.errstate(all="ignore"):
                raw = bits.view(np.float32).astype(np.float16).view(np.uint16)
        memory[: raw.nbytes] = raw.view(np.uint8)
    elif dtype is BOOL:
        values = rng.integers(0, 2, count).astype(np.uint8)
        odd = rng.random(count) < 0.05  # any byte but 0 is true
        memory[:count] = np.where(odd, rng.integers(0, 256, count), values)
    else:
        wide = rng.integers(0, 256, memory.size).astype(np.uint8)
        values = rng.integers(-9, 10, count).astype(dtype.numpy if dtype.size_bytes > 1 else np.int8)
        some = wide[: values.nbytes].view(values.dtype)
        memory[: values.nbytes] = np.where(rng.random(count) < 0.7, values, some).view(np.uint8)


def _floats(count: int, rng: np.random.Generator) -> np.ndarray:
    plain = rng.normal(0, 2, count).astype(np.float32).view(np.uint32)
    whole = np.round(rng.normal(0, 3, count)).astype(np.float32).view(np.uint32)
    wild = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    special = rng.choice(np.array(SPECIAL_F32, np.uint32), count)
    if rng.random() < 0.5:  # often no NaN at all: they hide everything else
        return np.where(rng.random(count) < 0.5, plain, whole)
    return np.choose(rng.choice(4, count, p=(0.6, 0.2, 0.1, 0.1)), [plain, whole, wild, special])


def extent(rng: random.Random) -> int:
    """An extent: mostly small, often around the lanes of a vector."""
    return rng.choice((0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 32, 33, 40, 65, 100))


def shape(rng: random.Random, rank: int, limit: int = 1200) -> tuple[int, ...]:
    """Extents of at most `limit` elements."""
    extents = [extent(rng) for _ in range(rank)]
    while prod([max(n, 1) for n in extents]) > limit:
        extents[extents.index(max(extents))] //= 2
    return tuple(extents)


def float_value(rng: random.Random) -> float:
    """A scalar: plain, whole, or special."""
    kind = rng.random()
    if kind < 0.5:
        return float(np.float32(rng.gauss(0, 3)))
    if kind < 0.8:
        return float(rng.randint(-4, 8))
    return rng.choice(
        (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1e-40, 3e38, 65520.0, 0.1)
    )


def int_value(rng: random.Random) -> int:
    """A scalar: mostly small, sometimes at the ends of 32 bits."""
    if rng.random() < 0.75:
        return rng.randint(-8, 40)
    return rng.choice((-(1 << 31), (1 << 31) - 1, -1, 0, 255, 256, 127, 128, -129, 32768, 65535, 1 << 30))
