"""Random tile, matrix and vector instructions on operands that fit."""

from __future__ import annotations

from tests.fuzz import places
from tests.fuzz.state import State
from tops_kit.isa.dtypes import BOOL, I32, DType, accumulator
from tops_kit.isa.table import BINARY, COMPARE, REDUCE, UNARY_FUNCTIONS

_DIVIDING = ("div", "floordiv", "mod")
_BITS = ("and", "or", "xor", "shl", "shr")


def destination(state: State, dtype: DType, extents: tuple[int, ...]) -> str:
    """A view of these extents in L1 to write to, or a compiler's tile that takes them."""
    if state.chance(0.35):
        return places.result(state, dtype, extents)
    if state.chance(0.1) and len(extents) < 3:
        extents = (1, *extents)  # what has fewer axes is taken with leading ones
    return places.view(state, "L1", dtype, extents)


def source(state: State, dtype: DType, extents: tuple[int, ...], *, broadcast: bool = True) -> str:
    """A view in L1 that has these extents, or broadcasts to them."""
    if broadcast and state.chance(0.3):
        extents = tuple(1 if state.chance(0.4) else n for n in extents)
        extents = extents[state.rng.randint(0, len(extents)) :] if state.chance(0.4) else extents
    return places.view(state, "L1", dtype, extents)


def nonzero(state: State, dtype: DType, extents: tuple[int, ...]) -> str:
    """A view without zeros, for integers to be divided by; its extents are these."""
    out = places.view(state, "L1", dtype, extents)
    if not dtype.is_float:
        state.op("tor_s", out, out, state.asm.constant(1))
    return out


def elementwise(state: State) -> None:
    """One binary operation or comparison in one of its three forms."""
    name = state.rng.choice(BINARY + COMPARE)
    dtype = state.dtype("iub" if name in _BITS else "fiub")
    extents = state.shape()
    divides = name in _DIVIDING and not dtype.is_float
    form = state.rng.choice(("", "", "_s", "_rs"))
    if form == "":
        a = source(state, dtype, extents)
        b = nonzero(state, dtype, extents) if divides else places.view(state, "L1", dtype, extents)
        given = [a, b]
        if not divides and state.chance(0.5):
            given.reverse()
    elif form == "_s":
        scalar = state.scalar(dtype)
        if divides:
            state.op("ior", "odd", scalar, state.asm.constant(1))
            scalar = "odd"
        given = [places.view(state, "L1", dtype, extents), scalar]
    else:
        b = nonzero(state, dtype, extents) if divides else places.view(state, "L1", dtype, extents)
        given = [state.scalar(dtype), b]
    in_place = name not in COMPARE and state.chance(0.2)
    tiles = [g for g in given if g.startswith("t")]
    d = tiles[-1] if in_place else destination(state, BOOL if name in COMPARE else dtype, extents)
    state.op(f"t{name}{form}", d, *given)


def unary(state: State) -> None:
    """A function, a complement, or a conversion."""
    name = state.rng.choice((*UNARY_FUNCTIONS, "not", "copy", "copy", "copy"))
    kinds = {"neg": "fiub", "abs": "fiub", "not": "iub", "copy": "fiub"}.get(name, "f")
    dtype = state.dtype(kinds)
    extents = state.shape()
    a = places.view(state, "L1", dtype, extents)
    if name == "copy":
        d = destination(state, state.dtype(), extents)
    else:
        d = a if state.chance(0.2) else destination(state, dtype, extents)
    state.op(f"t{name}", d, a)


def several(state: State) -> None:
    """fma or select."""
    extents = state.shape()
    dtype = state.dtype("fiu")
    a, b = source(state, dtype, extents), source(state, dtype, extents)
    if state.chance(0.5):
        c = places.view(state, "L1", dtype, extents)
        state.op("tfma", destination(state, dtype, extents), a, b, c)
    else:
        c = places.view(state, "L1", BOOL, extents)
        state.op("tselect", destination(state, dtype, extents), c, a, b)


def fills(state: State) -> None:
    """fill or iota, of a view or of a compiler's tile that gets its extents before."""
    dtype = state.dtype()
    extents = state.shape(state.rng.choice((1, 2, 3)))
    d = destination(state, dtype, extents)
    if state.chance(0.3):
        numbers = [state.number(n) for n in (*extents, 0, 0, 0)[:3]]
        d = places.result(state, dtype, extents)
        state.op("textent", d, len(extents), *numbers)
    if state.chance(0.5):
        state.op("tfill", d, state.scalar(dtype))
    else:
        state.op("tiota", d, state.scalar(dtype), state.scalar(dtype), state.rng.randrange(len(extents)))


def reduction(state: State) -> None:
    """A reduction or a running sum."""
    name = state.rng.choice((*REDUCE, "cumsum", "sum", "max"))
    dtype = state.dtype()
    extents = state.shape(state.rng.choice((1, 2, 2, 3)))
    axis = state.rng.randrange(len(extents))
    if name in ("max", "min", "argmax", "argmin"):
        extents = tuple(n or (place == axis) for place, n in enumerate(extents))
    a = places.view(state, "L1", dtype, extents)
    if name == "cumsum":
        to = state.rng.choice((dtype, accumulator(dtype)))
        state.op("tcumsum", destination(state, to, extents), a, axis)
        return
    to = {"sum": accumulator(dtype), "argmax": I32, "argmin": I32, "any": BOOL, "all": BOOL}.get(name, dtype)
    kept = tuple(1 if place == axis else n for place, n in enumerate(extents))
    state.op(f"tr{name}", destination(state, to, kept), a, axis)


def indices(state: State, extents: tuple[int, ...], below: int) -> str:
    """A view of integers in [0, below)."""
    dtype = state.rng.choice((I32, I32, state.dtype("iu")))
    out = places.view(state, "L1", dtype, extents)
    if below:
        state.op("tmod_s", out, out, state.asm.constant(min(below, 127)))
    return out


def gathering(state: State) -> None:
    """gather, scatter, scatter_add."""
    dtype = state.dtype()
    rank = state.rng.choice((1, 2, 3))
    extents = list(state.shape(rank, 500))
    axis = state.rng.randrange(rank)
    have, picks = max(extents[axis], 1), state.rng.randint(0, 20)
    along = (*extents[:axis], picks, *extents[axis + 1 :])
    whole = (*extents[:axis], have, *extents[axis + 1 :])
    index_extents = tuple(1 if place != axis and state.chance(0.3) else n for place, n in enumerate(along))
    b = indices(state, index_extents, have)
    if state.chance(0.5):
        a = places.view(state, "L1", dtype, whole)
        state.op("tgather", destination(state, dtype, along), a, b, axis)
    else:
        name = state.rng.choice(("tscatter", "tscatter_add"))
        a = places.view(state, "L1", dtype, along)
        state.op(name, places.view(state, "L1", dtype, whole), b, a, axis)


def matrices(state: State) -> None:
    """mma or matmul; views may be transposed, and there may be a batch axis."""
    dtype = state.dtype("fiu")
    m, n = (state.rng.choice((0, 1, 2, 5, 6, 7, 12, 16, 17, 33, 50)) for _ in range(2))
    k = state.rng.choice((0, 1, 2, 3, 8, 17, 70))
    batch = (state.rng.randint(1, 3),) if state.chance(0.2) else ()
    a = places.view(state, "L1", dtype, (*batch, m, k))
    b = places.view(state, "L1", dtype, (*batch, k, n))
    to = accumulator(dtype)
    if state.chance(0.5):
        state.op("mma", places.view(state, "L1", to, (*batch, m, n)), a, b)
    else:
        state.op("matmul", destination(state, to, (*batch, m, n)), a, b)


def vectors(state: State) -> None:
    """Some instructions on vector registers, with loads and stores around them."""
    rng = state.rng
    dtype = state.dtype()
    lanes = 128 // dtype.size_bytes
    flat = places.view(state, "L1", dtype, (lanes + rng.choice((0, 1, 7)),), fresh=0.2)
    dense = state.tile()
    state.op("tbuf", dense, state.buffer("L1", dtype, (lanes + 9,), 1).index, state.number(0), 0)
    state.op("vld", state.vector(), dense, state.below(9))
    kind = rng.random()
    if kind < 0.2:
        state.op("vsplat", state.vector(), state.scalar(dtype), dtype)
    elif kind < 0.25:
        state.op("viota", state.vector(), dtype)
    elif kind < 0.3:
        state.op("vmov", state.vector(), state.vector())
    _vector_operation(state, dtype)
    state.op("vst", dense, state.below(10), state.vector())
    if state.chance(0.2):
        state.op("tmax" if dtype is not BOOL else "tand", flat, flat, flat)


def _vector_operation(state: State, dtype: DType) -> None:
    rng = state.rng
    v = state.vector
    names = [*COMPARE, *BINARY, "fma", "select", "neg", "abs", "sum", "max", "min"]
    if dtype.is_float:
        names = [x for x in names if x not in _BITS] + list(UNARY_FUNCTIONS)
    name = rng.choice(names)
    if name in ("sum", "max", "min") and state.chance(0.5):
        state.op(f"vr{name}", rng.choice(state.floats if dtype.is_float else state.ints), v(), dtype)
    elif name == "sum":
        state.op("vadd", v(), v(), v(), dtype)
    elif name == "fma":
        state.op("vfma", v(), v(), v(), v(), dtype)
    elif name == "select":
        state.op("vselect", v(), v(), v(), v(), dtype)
    elif name in UNARY_FUNCTIONS:
        state.op(f"v{name}", v(), v(), dtype)
    elif name in _DIVIDING and not dtype.is_float:
        b = v()
        state.op("vsplat", "v9", state.asm.constant(1), dtype)
        state.op("vor", "v9", b, "v9", dtype)
        state.op(f"v{name}", v(), v(), "v9", dtype)
    else:
        state.op(f"v{name}", v(), v(), v(), dtype)


ALL = (
    (elementwise, 9), (unary, 5), (several, 3), (fills, 3), (reduction, 5), (gathering, 3), (matrices, 2),
    (vectors, 3),
)  # fmt: skip
