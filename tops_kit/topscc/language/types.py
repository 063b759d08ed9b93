"""Types in the signature of a kernel: pointers, scalars, constexpr."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tops_kit.errors import UserError
from tops_kit.isa.dtypes import BF16, BOOL, F16, F32, I8, I16, I32, U8, DType

f32, f16, bf16 = F32, F16, BF16
i32, i16, i8, u8 = I32, I16, I8, U8
bool_ = BOOL

WIDE = {
    "f64": "f32", "float64": "f32", "double": "f32", "i64": "i32", "int64": "i32", "long": "i32",
    "u64": "i32", "uint64": "i32", "complex64": "f32", "complex128": "f32",
}  # fmt: skip
"""64-bit types, which the GCU does not have, and what to write instead."""

_SPELLINGS = {
    "float32": F32, "float16": F16, "bfloat16": BF16, "int32": I32, "int16": I16, "int8": I8, "uint8": U8,
    "bool": BOOL, "bool_": BOOL, "float": F32, "half": F16, "int": I32,
    **{dtype.name: dtype for dtype in (F32, F16, BF16, I32, I16, I8, U8)},
}  # fmt: skip
MAX_AXES = 5


@dataclass(frozen=True, slots=True)
class PointerType:
    """The type of an array parameter. None: as the array that the kernel is launched with."""

    dtype: DType | None = None
    ndim: int | None = None

    def __str__(self) -> str:
        parts = [str(part) for part in (self.dtype, self.ndim) if part is not None]
        return f"ptr({', '.join(parts)})"


def ptr(dtype: Any = None, ndim: int | None = None) -> PointerType:
    """The type of an array in device memory (L3), which a kernel gets as a parameter.

    `dtype` is one of f32, f16, bf16, i32, i16, i8, u8, bool_; `ndim` the number of axes, 1 to 5. What is left
    out is taken from the array at the launch, and the kernel is compiled once for each combination.

        def scale(x: tops.ptr(tops.f32, 2), y: tops.ptr(), factor: tops.f32): ...
    """
    if ndim is not None and (
        isinstance(ndim, bool) or not isinstance(ndim, int) or not 1 <= ndim <= MAX_AXES
    ):
        raise UserError(f"ptr: ndim {ndim!r} is not possible: arrays have 1 to {MAX_AXES} axes")
    if dtype is None:
        return PointerType(None, ndim)
    found = dtype_of(dtype)
    if found is None:
        raise UserError("ptr: " + ": ".join(dtype_complaint(dtype)))
    return PointerType(found, ndim)


class constexpr:  # noqa: N801 - a type as people write it in signatures
    """The type of a parameter (or variable) that is known when compiling: sizes, flags, types, tuples.

    A kernel is compiled once for each combination of their values. Values can be numbers, bools, strings,
    None, element types, and tuples of these. Only such values can be extents of buffers and tiles.

        def softmax(x: tops.ptr(tops.f32), COLS: tops.constexpr, CAUSAL: tops.constexpr = False): ...
    """

    def __init__(self) -> None:
        raise UserError("constexpr is a type: write `COLS: tops.constexpr` in the signature")


def function(f: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function for kernels to call (plain functions work as well): it is inlined at each call.

    It may return values, take tuples, buffers and functions, and change tiles that it is given in place.

        @tops.function
        def gelu(x):
            return 0.5 * x * (1.0 + tops.erf(x * 0.70710678))
    """
    return f


def dtype_of(value: object) -> DType | None:
    """The element type that a person means: a type of ours, numpy's, torch's, or its name. None: none."""
    if isinstance(value, DType):
        return value
    name = _name(value)
    return _SPELLINGS.get(name) if name else None


def dtype_complaint(value: object) -> tuple[str, str]:
    """Why something is no element type, and what to write."""
    name = _name(value)
    if name in WIDE:
        return f"the GCU has no 64-bit types such as {name}", f"use tops.{WIDE[name]}"
    try:
        text = repr(value)
    except Exception:  # whatever the representation of a program's class raises
        text = f"a {type(value).__name__}"
    return f"{text} is no element type", "use one of tops.f32 f16 bf16 i32 i16 i8 u8 bool_"


def _name(value: object) -> str:
    """The name of a type: of a class such as numpy.float32, of a numpy or torch dtype, or a text itself."""
    if isinstance(value, str):
        return value
    if isinstance(value, type):
        return value.__name__
    # numpy's dtypes have a name, torch's only a text such as "torch.float32"
    try:
        return str(getattr(value, "name", None) or value).rpartition(".")[2]
    except Exception:  # whatever the text of a program's class raises
        return ""
