"""Random scalar instructions, single elements, atomics, prints, transfers."""

from __future__ import annotations

from tests.fuzz import places
from tests.fuzz.state import State
from tops_kit.isa.dtypes import DType
from tops_kit.isa.table import INSTRUCTIONS, SPECIAL

_SCALAR = [x for x in INSTRUCTIONS if x.group == "scalar"]
_ATOMIC = ("add", "min", "max", "and", "or", "xor", "exchange", "cas")


def arithmetic(state: State) -> None:
    """Some scalar instructions."""
    for _ in range(state.rng.randint(1, 4)):
        x = state.rng.choice(_SCALAR)
        if x.name == "select":
            pool, pick = (state.ints, state.int) if state.chance(0.5) else (state.floats, state.float)
            state.op("select", state.rng.choice(pool), state.int(), pick(), pick())
            continue
        sources = [state.float() if x.type[0] == "f" else state.int() for _ in x.operands[1:]]
        if x.name in ("idiv", "imod"):
            state.op("ior", "odd", sources[1], state.asm.constant(1))
            sources[1] = "odd"
        state.op(x.name, state.rng.choice(state.floats if x.type[-1] == "f" else state.ints), *sources)


def special(state: State) -> None:
    """A number of the launch, or an extent."""
    d = state.rng.choice(state.ints)
    if state.traits.clock and state.chance(0.3):
        state.op("clock", d)
    elif state.chance(0.6) or not state.buffers:
        state.op("special", d, state.rng.choice(SPECIAL))
    else:
        buffer = state.rng.choice(state.buffers)
        register = state.tile()
        state.op("tbuf", register, buffer.index, state.below(buffer.slots), state.rng.randint(0, 1))
        if buffer.shape:
            state.op("tdim", d, register, state.rng.randrange(len(buffer.shape)))


def element(state: State) -> None:
    """Read or write one element."""
    space = state.rng.choice(("L1", "L1", "L2"))
    dtype = state.dtype()
    extents = tuple(max(n, 1) for n in state.shape(limit=100))
    a = places.view(state, space, dtype, extents, fresh=0.15)
    indices = [state.below(n) for n in extents]
    indices += [state.int() for _ in range(3 - len(extents))]
    if state.chance(0.5):
        state.op("lds", state.rng.choice(state.floats if dtype.is_float else state.ints), a, *indices)
    else:
        state.op("sts", a, *indices, state.scalar(dtype))


def atomic(state: State) -> None:
    """An atomic on one element, or on a tile."""
    if not state.traits.atomics:
        transfer(state)
        return
    space = state.rng.choice(("L1", "L2", "L3"))
    dtype = state.dtype()
    if state.chance(0.25):
        extents = state.shape()
        target = (
            places.array_view(state, dtype, extents, loaded=True, stored=True)
            if space == "L3" or not state.traits.l2
            else places.view(state, "L2", dtype, extents)
        )
        state.op("tatomic_add", target, places.view(state, "L1", dtype, extents))
        return
    names = [name for name in _ATOMIC if not (dtype.is_float and name in ("and", "or", "xor"))]
    name = state.rng.choice(names)
    d = state.rng.choice(state.floats if dtype.is_float else state.ints)
    a = places.element(state, space, dtype)
    values = [state.scalar(dtype)] * (2 if name == "cas" and state.chance(0.3) else 1)
    if name == "cas" and len(values) == 1:
        values.insert(0, state.scalar(dtype))
    state.op(f"atomic_{name}", d, a, *values)


def printing(state: State) -> None:
    """A print of some scalars and perhaps a tile; or an assertion that holds."""
    if state.chance(0.2):
        state.op("ior", "odd", state.int(), state.asm.constant(1))
        state.op("assert", "odd", "never 0")
        return
    for _ in range(state.rng.randint(0, 3)):
        kind = state.rng.randrange(3)
        state.op("printarg", state.float() if kind == 1 else state.int(), kind)
    if state.chance(0.3):
        space = state.rng.choice(("L1", "L2"))
        state.op("printtile", places.view(state, space, state.dtype(), state.shape(limit=20)))
    state.op("print", state.rng.choice(("{} {} {}", "", "x = {}", "{{}}", "tête {}", "100%")))


def after(state: State) -> str:
    """The event that a transfer starts after: often none."""
    return state.rng.choice(state.events) if state.events and state.chance(0.3) else state.asm.constant(0)


def channel(state: State) -> int:
    """A channel of the DTE."""
    return state.rng.choice((0, 0, 1, 2, 3, 17, 254, 255))


def end(state: State, dtype: DType, extents: tuple[int, ...], *, stored: bool) -> str:
    """One end of a transfer."""
    space = state.rng.choice(("L1", "L1", "L2", "L3", "L3"))
    if space == "L3":
        return places.array_view(state, dtype, extents, loaded=not stored, stored=stored)
    return places.view(state, space, dtype, extents)


def transfer(state: State) -> None:
    """One transfer, mostly awaited at some time."""
    dtype = state.dtype()
    if state.chance(0.05):
        _many_axes(state, dtype)
        return
    extents = state.shape()
    event = f"e{state.rng.randrange(4)}"
    kind = state.rng.choice(("dma", "dma", "dma", "dmapad", "dmaclip", "dmaset"))
    start, line = after(state), channel(state)
    if kind == "dma":
        from_extents = extents
        if state.chance(0.15):  # broadcast
            from_extents = tuple(1 if state.chance(0.5) else n for n in extents)
        if state.chance(0.2):  # axes of extent 1 don't count
            at = state.rng.randint(0, len(from_extents))
            from_extents = (*from_extents[:at], 1, *from_extents[at:])
            if len(from_extents) > 3:
                from_extents = extents
        a = end(state, dtype, from_extents, stored=False)
        state.op(kind, event, end(state, dtype, extents, stored=True), a, start, line)
    elif kind == "dmapad":
        a = places.outside(state, dtype, extents, loaded=True)
        d = end(state, dtype, extents, stored=True)
        state.op(kind, event, d, a, state.scalar(dtype), start, line)
    elif kind == "dmaclip":
        d = places.outside(state, dtype, extents, stored=True)
        a = end(state, dtype, extents, stored=False)
        state.op(kind, event, d, a, start, line)
    else:
        state.op(kind, event, end(state, dtype, extents, stored=True), state.scalar(dtype), start, line)
    state.events = sorted({*state.events, event})
    if state.chance(0.6):
        state.op("wait", state.rng.choice(state.events))
    elif state.chance(0.2):
        state.op("waitall")


def _many_axes(state: State, dtype: DType) -> None:
    """Between arrays of four or five axes."""
    extents = state.shape(state.rng.choice((4, 5)), 300)
    a = places.array_view(state, dtype, extents, loaded=True)
    d = places.array_view(state, dtype, extents, stored=True)
    state.op("dma", "e0", d, a, state.asm.constant(0), channel(state))
    state.op("wait", "e0")


ALL = ((arithmetic, 6), (special, 2), (element, 4), (atomic, 1), (printing, 2), (transfer, 8))
