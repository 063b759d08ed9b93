"""Programs of instructions with any operands: they mostly fault, and have to fault alike and harm nothing."""

from __future__ import annotations

import random

from tests.fuzz import places
from tests.fuzz.generator import Case, begin, dump, launch_arguments
from tests.fuzz.state import State, Traits
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import DTYPES, DType
from tops_kit.isa.table import INSTRUCTIONS, SPECIAL, Instruction, Operand

VIEWS = 10
_ANY = [x for x in INSTRUCTIONS if x.group != "control"]
_LIMITS = {"dtype": len(DTYPES), "which": len(SPECIAL), "result": 2, "kind": 3, "channel": 256, "rank": 4}


def generate_wild(seed: int) -> Case:
    """The program of a seed: some views, then a few instructions on any of them."""
    rng = random.Random(~seed)
    state = State(rng, Assembler(f"wild{seed}"), 1, Traits(True, False, True, True, False))
    begin(state)
    extents = state.shape(rng.choice((1, 2, 2, 3)), 200)
    types = [state.dtype(), state.dtype()]
    for number in range(VIEWS):
        _view(state, f"w{number}", rng.choice(types) if rng.random() < 0.8 else state.dtype(), extents)
    starts = []
    for _ in range(rng.randint(1, 8)):
        starts.append(len(state.asm))
        x = rng.choice(_ANY)
        state.op(x.name, *(_operand(state, x, operand) for operand in x.operands))
    at = len(state.asm)
    dump(state)
    program = state.asm.finish()
    arguments = launch_arguments(state, program)
    return Case(seed, program, arguments, (1, 1, 1), (1, 1, 1), tuple(starts), at)


def _view(state: State, register: str, dtype: DType, extents: tuple[int, ...]) -> None:
    """Into a register: a view with these extents, or some like them, in any memory."""
    rng = state.rng
    kind = rng.random()
    if kind < 0.3:
        extents = tuple(1 if rng.random() < 0.4 else n for n in extents)
    elif kind < 0.4:
        extents = state.shape(limit=200)
    elif kind < 0.5:
        extents = extents[::-1]
    where = rng.random()
    if where < 0.6:
        made = places.view(state, "L1", dtype, extents)
    elif where < 0.7:
        made = places.result(state, dtype, extents)
    elif where < 0.78:
        made = places.view(state, "L2", dtype, extents)
    elif where < 0.88:
        made = places.array_view(state, dtype, extents, loaded=rng.random() < 0.7, stored=rng.random() < 0.7)
    elif where < 0.97:
        made = places.outside(state, dtype, extents, loaded=True, stored=True)
    else:
        made = "never"
    state.op("tcopyview", register, made)


def _operand(state: State, x: Instruction, operand: Operand) -> object:
    rng = state.rng
    match operand.kind:
        case "t":
            return f"w{rng.randrange(VIEWS)}"
        case "v":
            return f"v{rng.randrange(5)}"
        case "b":
            return rng.randrange(len(state.buffers))
        case "g":
            return rng.randrange(len(state.arrays)) if state.arrays else _no_array(state)
        case "r":
            return _scalar(state, x, operand)
    match operand.name:
        case "axis":
            return rng.choice((0, 0, 0, 1, 1, 2, 3, 4))
        case "order":
            axes = list(range(rng.choice((1, 2, 3, 5))))
            rng.shuffle(axes)
            return tuple(axes)
        case name:
            return rng.randrange(_LIMITS[name])


def _scalar(state: State, x: Instruction, operand: Operand) -> str:
    floats = x.type[0] == "f" or (x.group in ("tile", "vector", "dte") and state.chance(0.3))
    if operand.writes:
        return state.rng.choice(state.floats if floats else state.ints)
    if operand.name in ("after", "event", "i", "j", "k", "slot", "index", "start", "step") and state.chance(
        0.8
    ):
        return state.asm.constant(state.rng.choice((0, 0, 0, 1, 1, 2, 3)))
    if operand.name in ("stop", "n0", "n1", "n2") and state.chance(0.8):
        return state.asm.constant(state.rng.choice((0, 1, 2, 3, 4, 6, 12)))
    return state.float() if floats else state.int()


def _no_array(state: State) -> int:
    return state.array(DTYPES[0], (4,), loaded=True, stored=True).index
