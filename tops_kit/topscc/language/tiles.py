"""Operations on whole tiles, and explicit 128-byte vectors."""

from __future__ import annotations

from tops_kit.topscc.language.words import Scalar, Shape, Static, Target, Tile, Vector, View, word


@word
def zeros(dtype: Static, shape: Shape) -> Tile:
    """A tile of zeros: `tops.zeros(tops.f32, (BM, BN))`. Extents are constexprs, or scalars with a bound."""


@word
def full(dtype: Static, shape: Shape, value: Scalar) -> Tile:
    """A tile of one value: `tops.full(tops.f32, (BQ, 1), float("-inf"))`."""


@word
def iota(dtype: Static, shape: Shape, axis: Static = -1, *, start: Scalar = 0, step: Scalar = 1) -> Tile:
    """start + step * index along an axis.

    rows = tops.iota(tops.i32, (BQ, 1), axis=0, start=i)
    """


@word
def arange(start: Scalar, stop: Scalar = None, /) -> Tile:
    """An i32 tile of one axis: start, start + 1, ..., stop - 1 (from 0 with one argument)."""


@word
def sum(x: Tile, axis: Static = None) -> Tile:  # the language's own name, as numpy has it
    """Sum along an axis, which stays with extent 1 (None: all axes). f16 and bf16 give f32, small ints i32.

    Of a vector (no axis): a scalar. All reductions are so; `t[0, 0]` takes the one element that is left.
    """


@word
def max(x: Tile, axis: Static = None) -> Tile:  # the language's own name, as numpy has it
    """Greatest along an axis, which stays with extent 1; NaN if any is. (`maximum` is by elements.)"""


@word
def min(x: Tile, axis: Static = None) -> Tile:  # the language's own name, as numpy has it
    """Least along an axis, which stays with extent 1; NaN if any is. (`minimum` is by elements.)"""


@word
def argmax(x: Tile, axis: Static = None) -> Tile:
    """Index of the greatest along an axis (the first of equals), i32; the axis stays with extent 1."""


@word
def argmin(x: Tile, axis: Static = None) -> Tile:
    """Index of the least along an axis (the first of equals), i32; the axis stays with extent 1."""


@word
def any(x: Tile, axis: Static = None) -> Tile:  # the language's own name, as numpy has it
    """Whether any element along an axis is not 0, bool; the axis stays with extent 1."""


@word
def all(x: Tile, axis: Static = None) -> Tile:  # the language's own name, as numpy has it
    """Whether all elements along an axis are not 0, bool; the axis stays with extent 1."""


@word
def rowsum(x: Tile) -> Tile:
    """`sum` along the last axis: (n, m) gives (n, 1)."""


@word
def rowmax(x: Tile) -> Tile:
    """`max` along the last axis: (n, m) gives (n, 1)."""


@word
def rowmin(x: Tile) -> Tile:
    """`min` along the last axis: (n, m) gives (n, 1)."""


@word
def cumsum(x: Tile, axis: Static = -1) -> Tile:
    """Running sum along an axis."""


@word
def gather(x: Tile, index: Tile, axis: Static = -1) -> Tile:
    """result[i] = x[index[i]] along an axis; an index outside is a fault. `index` is an i32 tile."""


@word
def scatter(target: Target, index: Tile, values: Tile, axis: Static = -1) -> None:
    """target[index[i]] = values[i] along an axis, in order, in place: a variable with a tile, or L1."""


@word
def scatter_add(target: Target, index: Tile, values: Tile, axis: Static = -1) -> None:
    """target[index[i]] += values[i] along an axis, in order, in place."""


@word
def reshape(x: View, shape: Shape) -> View:
    """Other extents over the same elements, one of them may be -1; x is dense. A view: nothing moves."""


@word
def transpose(x: View, axes: Static = None) -> View:
    """The last two axes exchanged, as `x.T`, or all in the order `axes`. A view: nothing moves."""


@word
def dot(a: Tile, b: Tile, acc: Target = None) -> Tile:
    """a @ b: (m, k) and (k, n) give (m, n); f32, f16 and bf16 give f32, ints give i32. `a.T`, `b.T` are free.

    With three axes, the first counts matrices. `acc = tops.dot(a, b, acc)` and `acc += a @ b` add to acc in
    place, as `mma`.
    """


@word
def mma(acc: Target, a: Tile, b: Tile) -> None:
    """acc += a @ b, in place: a variable with a tile of f32 (ints: i32), or a view of L1.

    acc = tops.zeros(tops.f32, (BM, BN))
    tops.mma(acc, a[k], b[k])
    """


@word
def vload(view: Tile, index: Scalar) -> Vector:
    """128 bytes of a dense view of L1 as a vector, from element `index`, counted over all axes."""


@word
def vstore(view: Tile, index: Scalar, vector: Vector) -> None:
    """A vector to a dense view of L1, from element `index`."""


@word
def vsplat(value: Scalar, dtype: Static) -> Vector:
    """A vector with one value in all lanes: 32 of f32 and i32, 64 of f16, bf16, i16, 128 of i8, u8."""


@word
def viota(dtype: Static) -> Vector:
    """The vector 0, 1, 2, ..."""


@word
def lanes(dtype: Static) -> Static:
    """How many elements of a type a vector has; known when compiling."""
