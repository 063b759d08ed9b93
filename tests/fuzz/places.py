"""Views with wanted extents: a chain of view instructions over a buffer or an array that can give them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tests.fuzz.state import KnownArray, KnownBuffer, State
from tops_kit.isa.dtypes import DType


@dataclass
class _Axis:
    """How one axis of the whole becomes one of the view, or (wanted None) disappears."""

    have: int
    wanted: int | None
    start: int = 0
    step: int = 1


def view(state: State, space: str, dtype: DType, extents: tuple[int, ...], *, fresh: float = 0.3) -> str:
    """A tile register with a view of these extents in L1 or L2 (or L1 where the program has no L2)."""
    space = space if state.traits.l2 else "L1"
    if state.chance(0.15) and len(extents) <= 3 and prod(extents):
        flat = _reshaped(state, space, dtype, extents)
        if flat:
            return flat
    if 1 in extents and state.chance(0.2):  # an axis of 1 element comes from nowhere
        at = extents.index(1)
        fewer = view(state, space, dtype, (*extents[:at], *extents[at + 1 :]))
        return _then(state, fewer, "tshape", len(extents), *_three(state, extents))
    candidates = [b for b in state.buffers if (b.space, b.dtype) == (space, dtype)]
    state.rng.shuffle(candidates)
    for buffer in [] if state.chance(fresh) else candidates:
        axes = _match(state, buffer.shape, extents)
        if axes:
            return _cut(state, _slot(state, buffer), *axes)
    whole, axes, order = _enclosing(state, extents, 3)
    return _cut(state, _slot(state, state.buffer(space, dtype, whole)), axes, order)


def result(state: State, dtype: DType, extents: tuple[int, ...]) -> str:
    """A tile register with a compiler's tile that has room for these extents."""
    fitting = [
        b
        for b in state.buffers
        if (b.space, b.dtype, len(b.shape)) == ("L1", dtype, len(extents))
        and all(have >= n for have, n in zip(b.shape, extents, strict=True))
    ]
    if fitting and state.chance(0.6):
        buffer = state.rng.choice(fitting)
    else:
        buffer = state.buffer("L1", dtype, tuple(n + state.rng.choice((0, 0, 0, 1, 5)) for n in extents))
    return _slot(state, buffer, result=1)


def array_view(
    state: State, dtype: DType, extents: tuple[int, ...], *, loaded: bool = False, stored: bool = False
) -> str:
    """A tile register with a view of these extents in L3, of an array that may be loaded or stored."""
    candidates = [
        a for a in state.arrays if a.spec.dtype is dtype and a.loaded >= loaded and a.stored >= stored
    ]
    state.rng.shuffle(candidates)
    for array in [] if state.chance(0.25) else candidates:
        axes = _match(state, array.spec.shape, extents)
        if axes:
            return _cut(state, _whole(state, array), *axes)
    whole, axes_, order = _enclosing(state, extents, 5)
    both = state.traits.loads_what_it_stores and state.chance(0.2)
    array = state.array(dtype, whole, loaded=loaded or both, stored=stored or both)
    return _cut(state, _whole(state, array), axes_, order)


def outside(
    state: State, dtype: DType, extents: tuple[int, ...], *, loaded: bool = False, stored: bool = False
) -> str:
    """A view in L3, L2 or L1 that may reach outside of its memory along some axes."""
    if not extents:
        return array_view(state, dtype, extents, loaded=loaded, stored=stored)
    inner = tuple(max(1, n + state.rng.randint(-3, 2)) if n else 0 for n in extents)
    if state.chance(0.7):
        register = array_view(state, dtype, inner, loaded=loaded, stored=stored)
    else:
        register = view(state, state.rng.choice(("L1", "L2")), dtype, inner)
    out = register
    for axis, n in enumerate(extents):
        start = state.rng.randint(-3, 3)
        after = state.tile()
        state.op("tover", after, out, axis, state.number(start), state.number(start + n))
        out = after
        if state.chance(0.1):
            later = state.tile()
            state.op("tslice", later, out, axis, state.number(0), state.number(n))
            out = later
    return out


def element(state: State, space: str, dtype: DType) -> str:
    """A view without axes, of one element."""
    extents = state.shape(limit=60)
    extents = tuple(max(n, 1) for n in extents)
    if space == "L3":
        out = array_view(state, dtype, extents, loaded=True, stored=True)
    else:
        out = view(state, space, dtype, extents)
    for n in extents:
        after = state.tile()
        state.op("tindex", after, out, 0, state.below(n))
        out = after
    return out


def _slot(state: State, buffer: KnownBuffer, result: int = 0) -> str:
    register = state.tile()
    state.op("tbuf", register, buffer.index, state.below(buffer.slots), result)
    return register


def _whole(state: State, array: KnownArray) -> str:
    register = state.tile()
    state.op("tptr", register, array.index)
    return register


def _reshaped(state: State, space: str, dtype: DType, extents: tuple[int, ...]) -> str | None:
    """A dense buffer's slot with other extents and as many elements."""
    count = prod(extents)
    whole = [b for b in state.buffers if (b.space, b.dtype) == (space, dtype) and prod(b.shape) == count]
    buffer = state.rng.choice(whole) if whole else state.buffer(space, dtype, (count,))
    register = _slot(state, buffer)
    return _then(state, register, "tshape", len(extents), *_three(state, extents))


def _three(state: State, extents: tuple[int, ...]) -> list[str]:
    """Registers for the extents of an instruction that takes three."""
    return [state.number(n) for n in (*extents, 0, 0, 0)[:3]]


def _match(
    state: State, have: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[list[_Axis], list[int]] | None:
    """How the axes of a whole can give the wanted ones: for each of the whole, and the order; or None."""
    if len(have) < len(wanted) or (any(n == 0 for n in have) and not any(n == 0 for n in wanted)):
        return None
    places: list[int | None] = [*range(len(wanted)), *[None] * (len(have) - len(wanted))]
    for _ in range(4):
        state.rng.shuffle(places)
        extents = [None if place is None else wanted[place] for place in places]
        if all(n >= (1 if want is None else want) for n, want in zip(have, extents, strict=True)):
            axes = [_placed(state, n, want) for n, want in zip(have, extents, strict=True)]
            return axes, [place for place in places if place is not None]
    return None


def _placed(state: State, have: int, wanted: int | None) -> _Axis:
    if wanted is None:
        return _Axis(have, None, state.rng.randrange(have))
    step = 1
    if wanted > 1 and state.chance(0.3):
        step = state.rng.randint(1, max(1, (have - 1) // (wanted - 1)))
    span = (wanted - 1) * step + 1 if wanted else 0
    return _Axis(have, wanted, state.rng.randint(0, have - span), step)


def _enclosing(
    state: State, extents: tuple[int, ...], most: int
) -> tuple[tuple[int, ...], list[_Axis], list[int]]:
    """A new whole around wanted extents, mostly just them."""
    rng = state.rng
    order = list(range(len(extents)))
    if state.chance(0.3):
        rng.shuffle(order)
    axes = []
    for place in order:
        step = rng.choice((1, 1, 1, 1, 2, 3))
        n = extents[place]
        span = (n - 1) * step + 1 if n else 0
        start, behind = (rng.randint(0, 3), rng.randint(0, 3)) if state.chance(0.3) else (0, 0)
        axes.append(_Axis(start + span + behind, n, start, step))
    if len(axes) < most and state.chance(0.2):
        have = rng.randint(1, 4)
        axes.insert(rng.randint(0, len(axes)), _Axis(have, None, rng.randrange(have)))
    return tuple(axis.have for axis in axes), axes, order


def _cut(state: State, register: str, axes: list[_Axis], order: list[int]) -> str:
    """The instructions that make a whole into what is wanted."""
    out = register
    for number in reversed(range(len(axes))):
        axis = axes[number]
        if axis.wanted is None:
            out = _then(state, out, "tindex", number, state.number(axis.start))
            continue
        span = (axis.wanted - 1) * axis.step + 1 if axis.wanted else 0
        if span != axis.have or state.chance(0.1):
            out = _then(
                state, out, "tslice", number, state.number(axis.start), state.number(axis.start + span)
            )
        if axis.step != 1 and axis.wanted:
            out = _then(state, out, "tstep", number, state.number(axis.step))
    if order != sorted(order) or (order and state.chance(0.05)):
        out = _then(state, out, "tperm", tuple(order.index(place) for place in range(len(order))))
    if state.chance(0.05):
        out = _then(state, out, "tcopyview")
    return out


def _then(state: State, register: str, name: str, *operands: object) -> str:
    """One more view instruction, into another register or the same."""
    out = register if state.chance(0.5) else state.tile()
    state.op(name, out, register, *operands)
    return out
