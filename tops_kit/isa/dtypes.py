"""Element types of the GCU: codes, sizes, and what arithmetic on them gives."""

from __future__ import annotations

from dataclasses import dataclass

VECTOR_BYTES = 128  # one vector register: 32 fp32, 64 fp16, 128 int8


@dataclass(frozen=True)
class DType:
    """An element type. `code` is its number in programs and in C; `size_bytes` its size in memory.

    `kind` is "f" (floating), "i" (signed), "u" (unsigned) or "b" (bool, one byte of 0 or 1).
    `numpy` names the array type that holds it; bf16 has none in numpy and is held as its 16 bits ("uint16").
    """

    name: str
    code: int
    size_bytes: int
    kind: str
    numpy: str

    # of the code alone: the compiler compares and looks up types all the time
    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DType) and self.code == other.code)

    def __hash__(self) -> int:
        return self.code

    @property
    def is_float(self) -> bool:
        """Whether values are floating point."""
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        """Whether values are integers (bool is not)."""
        return self.kind in "iu"

    def __str__(self) -> str:
        return self.name


F32 = DType("f32", 0, 4, "f", "float32")
I32 = DType("i32", 1, 4, "i", "int32")
F16 = DType("f16", 2, 2, "f", "float16")
BF16 = DType("bf16", 3, 2, "f", "uint16")
I8 = DType("i8", 4, 1, "i", "int8")
I16 = DType("i16", 5, 2, "i", "int16")
U8 = DType("u8", 6, 1, "u", "uint8")
BOOL = DType("bool", 7, 1, "b", "bool")

DTYPES = (F32, I32, F16, BF16, I8, I16, U8, BOOL)
BY_NAME = {dtype.name: dtype for dtype in DTYPES}


def accumulator(dtype: DType) -> DType:
    """The type in which sums and matrix products of `dtype` are kept: f32 for floats, i32 for the rest."""
    return F32 if dtype.is_float else I32


def scalar(dtype: DType) -> DType:
    """The type of a scalar register that holds a `dtype`: f32 for floats, i32 for the rest."""
    return F32 if dtype.is_float else I32
