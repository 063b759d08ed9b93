"""Instructions that fault, or do for some threads: each stands in an otherwise good program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz import places
from tests.fuzz.state import State
from tops_kit.isa.dtypes import F32, I32, DType
from tops_kit.isa.program import Program
from tops_kit.isa.table import INSTRUCTIONS


def _l1(state: State, dtype: DType = F32, extents: tuple[int, ...] = (3, 4)) -> str:
    return places.view(state, "L1", dtype, extents)


def _bad_slot(state: State) -> None:
    buffer = state.buffer("L1", F32, (4,), 2)
    state.op("tbuf", state.tile(), buffer.index, state.number(state.rng.choice((-1, 2, 1 << 30))), 0)


def _bad_index(state: State) -> None:
    state.op("tindex", state.tile(), _l1(state), 1, state.number(state.rng.choice((-1, 4))))


def _bad_slice(state: State) -> None:
    start, stop = state.rng.choice(((-1, 2), (0, 5), (5, 5), (4, 9)))
    state.op("tslice", state.tile(), _l1(state), 1, state.number(start), state.number(stop))


def _bad_step(state: State) -> None:
    state.op("tstep", state.tile(), _l1(state), 0, state.number(state.rng.choice((0, -1))))


def _bad_reshape(state: State) -> None:
    view = places.view(state, "L1", F32, (3, 4))
    state.op("tshape", state.tile(), view, 2, state.number(5), state.number(2), state.number(0))


def _bad_element(state: State) -> None:
    state.op("lds", "other", _l1(state), state.number(3), state.number(0), state.int())


def _l3_element(state: State) -> None:
    view = places.array_view(state, F32, (3,), loaded=True)
    state.op("lds", "other", view, state.number(0), state.number(0), state.number(0))


def _bad_shapes(state: State) -> None:
    state.op("tadd", _l1(state), _l1(state), _l1(state, F32, (3, 5)))


def _bad_types(state: State) -> None:
    state.op("tadd", _l1(state), _l1(state, I32), _l1(state))


def _bits_of_floats(state: State) -> None:
    state.op("txor", _l1(state), _l1(state), _l1(state))


def _wrong_space(state: State) -> None:
    state.op("tadd", _l1(state), places.view(state, "L2", F32, (3, 4)), _l1(state))


def _unset_tile(state: State) -> None:
    state.op(state.rng.choice(("tneg", "tcopy", "tcopyview")), state.tile(), "never")
    state.op("tadd", "never2", "never", "never")


def _scalar_division(state: State) -> None:
    state.op(state.rng.choice(("idiv", "imod")), "other", state.int(), state.asm.constant(0))


def _tile_division(state: State) -> None:
    dtype = state.rng.choice((I32, state.dtype("iu")))
    zero = _l1(state, dtype)
    state.op("tfill", zero, state.asm.constant(0))
    state.op(state.rng.choice(("tdiv", "tmod", "tfloordiv")), _l1(state, dtype), _l1(state, dtype), zero)


def _false_assertion(state: State) -> None:
    state.op("assert", state.asm.constant(0), "always 0")


def _bad_gather(state: State) -> None:
    index = _l1(state, I32, (5,))
    state.op("tfill", index, state.number(state.rng.choice((-1, 4, 1 << 30))))
    name = state.rng.choice(("tgather", "tscatter", "tscatter_add"))
    if name == "tgather":
        state.op(name, _l1(state, F32, (5,)), _l1(state, F32, (4,)), index, 0)
    else:
        state.op(name, _l1(state, F32, (4,)), index, _l1(state, F32, (5,)), 0)


def _bad_event(state: State) -> None:
    state.op("wait", state.asm.constant(state.rng.choice((100000, -1))))


def _bad_after(state: State) -> None:
    state.op("dmaset", "other", _l1(state), state.float(), state.asm.constant(100000), 0)


def _reaching_out(state: State) -> None:
    view = places.array_view(state, F32, (4,), loaded=True, stored=True)
    over = state.tile()
    state.op("tover", over, view, 0, state.number(2), state.number(6))
    operands = [_l1(state, F32, (4,)), over]
    if state.chance(0.5):
        operands.reverse()
    state.op("dma", "other", *operands, state.asm.constant(0), 0)


def _unlike_transfer(state: State) -> None:
    if state.chance(0.5):
        state.op("dma", "other", _l1(state), _l1(state, F32, (4, 3)), state.asm.constant(0), 0)
    else:
        state.op("dma", "other", _l1(state), _l1(state, I32), state.asm.constant(0), 0)


def _undeclared(state: State) -> None:
    view = places.array_view(state, F32, (4,), loaded=True)
    state.op("dmaset", "other", view, state.float(), state.asm.constant(0), 0)


def _full_result(state: State) -> None:
    small = state.buffer("L1", F32, (2, 4), 1)
    d = state.tile()
    state.op("tbuf", d, small.index, state.number(0), 1)
    state.op("tadd", d, _l1(state), _l1(state))


def _empty_maximum(state: State) -> None:
    state.op("trmax", _l1(state, F32, (3, 1)), _l1(state, F32, (3, 0)), 1)


def _far_vector(state: State) -> None:
    state.op("vld", "v0", _l1(state, F32, (40,)), state.number(state.rng.choice((-1, 9, 1 << 30))))


def _bad_axis(state: State) -> None:
    state.op("trsum", _l1(state, F32, (3, 1)), _l1(state), state.rng.choice((2, 3, 4)))


def _unlike_matrices(state: State) -> None:
    state.op("mma", _l1(state, F32, (3, 5)), _l1(state), _l1(state, F32, (5, 5)))


def _wrong_mask(state: State) -> None:
    state.op("tselect", _l1(state), _l1(state), _l1(state), _l1(state))


def _divergent_barrier(state: State) -> None:
    label = state.name("d")
    state.op("special", "other", "local_id")
    state.op("brz", "other", label)
    state.op("barrier")
    state.asm.label(label)


FAULTS: tuple[Callable[[State], None], ...] = (
    _bad_slot, _bad_index, _bad_slice, _bad_step, _bad_reshape, _bad_element, _l3_element, _bad_shapes,
    _bad_types, _bits_of_floats, _wrong_space, _unset_tile, _scalar_division, _tile_division,
    _false_assertion, _bad_gather, _bad_event, _bad_after, _reaching_out, _unlike_transfer, _undeclared,
    _full_result, _empty_maximum, _far_vector, _bad_axis, _unlike_matrices, _wrong_mask, _divergent_barrier,
)  # fmt: skip


def fault(state: State) -> None:
    """An instruction that faults; often for one thread only."""
    make = state.rng.choice(FAULTS)
    if state.chance(0.5):
        make(state)
        return
    label = state.name("f")
    state.op("special", "other", "thread_id")
    state.op("ine", "other", "other", state.asm.constant(state.rng.randrange(state.threads)))
    state.op("brnz", "other", label)
    make(state)
    state.asm.label(label)


def mutate(program: Program, rng: np.random.Generator) -> None:
    """Other tile registers, immediates and types in a few instructions, in place: mostly that faults.

    What loops count in is never touched, so that programs still end.
    """
    rows = [
        pc
        for pc, row in enumerate(program.code.tolist())
        if INSTRUCTIONS[row[0]].group in ("view", "tile", "matrix", "dte", "vector", "memory", "atomic")
    ]
    for pc in rng.choice(rows, min(len(rows), int(rng.integers(1, 4))), replace=False) if rows else ():
        x = INSTRUCTIONS[program.code[pc, 0]]
        limits = {"t": program.tiles, "v": program.vectors, "axis": 3, "dtype": 8, "result": 2, "rank": 4}
        places_ = [
            (1 + k, limits.get(o.kind) or limits[o.name])
            for k, o in enumerate(x.operands)
            if o.kind in limits or (o.kind == "i" and o.name in limits)
        ]
        if places_:
            position, limit = places_[int(rng.integers(len(places_)))]
            program.code[pc, position] = rng.integers(limit)
