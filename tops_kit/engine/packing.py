"""Programs and arguments as the C module takes them: packed tables, laid out as launch_module.c says."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tops_kit.isa.dtypes import DType
from tops_kit.isa.program import Buffer, Parameter, Program

_MAX_EXTENT = (1 << 31) - 1
_MAX_AXES = 5
_SPACES = {"L1": 1, "L2": 2}

_BUFFER = struct.Struct("=qqiiii3i")
_POINTER = struct.Struct("=5i")
_INT = struct.Struct("=ii")
_UNSIGNED = struct.Struct("=iI")
_FLOAT = struct.Struct("=if")
_ARRAY = struct.Struct("=Q5q5iiii")


@dataclass(frozen=True, slots=True)
class GlobalArray:
    """An array argument: memory of the host that the kernel uses in place as L3.

    `address` is that of element 0 in bytes; `owner` keeps the memory alive. Elements and strides are
    aligned to the size of an element.
    """

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    name: str
    writable: bool
    owner: object

    @staticmethod
    def of(array: np.ndarray[Any, Any], dtype: DType, name: str = "") -> GlobalArray:
        """A numpy array as an argument; `dtype` says what its elements are (bf16 has no type in numpy)."""
        flags = array.flags
        return GlobalArray(array.ctypes.data, dtype, array.shape, array.strides, name, flags.writeable, array)


Argument = GlobalArray | int | float


def pack_program(module: ModuleType, program: Program) -> Any:
    """The program prepared by the C module. ValueError: a number in it is out of range."""
    pointers = (_POINTER.pack(p.dtype.code, p.ndim, p.loaded, p.stored, p.atomic) for p in program.pointers)
    return module.prepare(
        np.ascontiguousarray(program.code, np.uint16),
        program.scalars,
        program.tiles,
        program.vectors,
        b"".join(_register(c.register, c.value) for c in program.constants),
        b"".join(_buffer(b) for b in program.buffers),
        b"".join(pointers),
        len(program.strings),
    )


def _buffer(b: Buffer) -> bytes:
    shape = (*b.shape, 0, 0, 0)[:3]
    return _BUFFER.pack(
        b.offset_bytes, b.slot_bytes, b.slots, b.dtype.code, _SPACES[b.space], len(b.shape), *shape
    )


def _register(number: int, value: int | float) -> bytes:
    return _FLOAT.pack(number, value) if isinstance(value, float) else _INT.pack(number, value)


def pack_arguments(parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> tuple[bytes, bytes]:
    """Arrays by pointer index, and scalar registers. ValueError, in one line: not the kernel's arguments."""
    if len(parameters) != len(arguments):
        raise ValueError(f"the kernel takes {len(parameters)} arguments and got {len(arguments)}")
    arrays: list[tuple[int, bytes]] = []
    scalars = b""
    for parameter, argument in zip(parameters, arguments, strict=True):
        if parameter.kind == "pointer":
            if not isinstance(argument, GlobalArray):
                raise ValueError(f"argument {parameter.name} is an array, not {argument!r}")
            arrays.append((parameter.index, _array(parameter, argument)))
        elif isinstance(argument, GlobalArray):
            raise ValueError(f"argument {parameter.name} is a number, not an array")
        else:
            scalars += _scalar(parameter, argument)
    arrays.sort()
    return b"".join(packed for _, packed in arrays), scalars


def _scalar(parameter: Parameter, value: int | float) -> bytes:
    if parameter.dtype.is_float:
        try:
            return _FLOAT.pack(parameter.index, value)
        except OverflowError:  # beyond f32
            return _FLOAT.pack(parameter.index, math.copysign(math.inf, value))
    if not isinstance(value, int | np.integer) or not -(1 << 31) <= value < 1 << 32:
        raise ValueError(f"argument {parameter.name} is an integer of 32 bits, not {value!r}")
    return _UNSIGNED.pack(parameter.index, int(value) & 0xFFFFFFFF)


def _array(parameter: Parameter, array: GlobalArray) -> bytes:
    name, size = parameter.name, array.dtype.size_bytes
    if array.dtype is not parameter.dtype or len(array.shape) != parameter.ndim:
        raise ValueError(
            f"argument {name} is {parameter.dtype} with {parameter.ndim} axes, "
            f"not {array.dtype} with {len(array.shape)}"
        )
    if array.address % size or any(stride % size for stride in array.strides_bytes):
        raise ValueError(f"argument {name} is not aligned to its elements of {size} bytes: copy it")
    if max(array.shape, default=0) > _MAX_EXTENT:
        raise ValueError(f"argument {name} has an extent beyond 31 bits: {array.shape}")
    if (parameter.stored or parameter.atomic) and not array.writable:
        raise ValueError(f"argument {name} is stored to by the kernel, and is read-only")
    rest = (0,) * (_MAX_AXES - len(array.shape))
    extents, strides = (*array.shape, *rest), (*array.strides_bytes, *rest)
    return _ARRAY.pack(array.address, *strides, *extents, len(array.shape), array.dtype.code, array.writable)
