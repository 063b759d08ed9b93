"""Operations by elements: on tiles, vectors and scalars alike."""

from __future__ import annotations

from tops_kit.topscc.language.words import Operand, Static, word


@word
def exp(x: Operand, /) -> Operand:
    """e to the power of x. Floats; like all of these, of a tile (or view of L1), a vector or a scalar."""


@word
def log(x: Operand, /) -> Operand:
    """Natural logarithm."""


@word
def sqrt(x: Operand, /) -> Operand:
    """Square root."""


@word
def rsqrt(x: Operand, /) -> Operand:
    """1 / sqrt(x)."""


@word
def recip(x: Operand, /) -> Operand:
    """1 / x."""


@word
def tanh(x: Operand, /) -> Operand:
    """Hyperbolic tangent."""


@word
def erf(x: Operand, /) -> Operand:
    """Error function."""


@word
def sigmoid(x: Operand, /) -> Operand:
    """1 / (1 + exp(-x))."""


@word
def sin(x: Operand, /) -> Operand:
    """Sine of an angle in radians."""


@word
def cos(x: Operand, /) -> Operand:
    """Cosine of an angle in radians."""


@word
def floor(x: Operand, /) -> Operand:
    """The greatest whole number not above x, as a float."""


@word
def ceil(x: Operand, /) -> Operand:
    """The least whole number not below x, as a float."""


@word
def abs(x: Operand, /) -> Operand:  # the language's own name, as numpy has it
    """Absolute value, of floats and ints."""


@word
def minimum(a: Operand, b: Operand, /) -> Operand:
    """The lesser by elements; NaN where either is."""


@word
def maximum(a: Operand, b: Operand, /) -> Operand:
    """The greater by elements; NaN where either is. (`max` reduces along an axis.)"""


@word
def where(condition: Operand, a: Operand, b: Operand, /) -> Operand:
    """a where the condition holds, else b, by elements; both are evaluated.

    s = tops.where(rows >= cols, s, float("-inf"))
    """


@word
def fma(a: Operand, b: Operand, c: Operand, /) -> Operand:
    """a * b + c, rounded once. Floats."""


@word
def cast(x: Operand, dtype: Static, /) -> Operand:
    """Converted to another element type; also `x.to(dtype)`. Of scalars also `tops.f32(x)`, `tops.i32(x)`.

    Floats to ints go towards 0 and saturate; NaN becomes 0.
    """


@word
def cdiv(a: Operand, b: Operand, /) -> Operand:
    """a / b rounded up, for ints: how many blocks of b cover a. Known when compiling if both are."""
