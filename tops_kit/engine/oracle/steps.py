"""A program made ready for the oracle: each instruction becomes a function of the thread, its operands bound.

A step returns None (the next instruction follows), the number of the instruction to go on with, or one of
END, BARRIER, GRID_BARRIER. What an instruction is not able to do it says by raising a Trap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tops_kit.engine import tiles_twin
from tops_kit.engine.oracle.bodies import arguments, bodies
from tops_kit.engine.oracle.effects import EFFECTS, MAY_LOAD, MAY_STORE, Operands, allow, check_event
from tops_kit.engine.oracle.scalars import (
    MASK,
    as_float,
    as_int,
    from_arithmetic,
    from_float,
    from_typed,
    typed,
)
from tops_kit.engine.oracle.thread import Thread
from tops_kit.engine.oracle.transfers import Transfer
from tops_kit.engine.oracle.trap import DIVIDE, GATHER, Trap, index_trap, sources_trap, tiles_trap
from tops_kit.engine.tiles_twin import Tile, TileFault
from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.program import Program
from tops_kit.isa.table import INSTRUCTIONS, Instruction

Step = Callable[[Thread], int | None]
Numbers = dict[str, int]  # an instruction's operands by the table's names

END, BARRIER, GRID_BARRIER = -1, -2, -3

_CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "jmp": lambda a, b: True,
    "brz": lambda a, b: a == 0,
    "brnz": lambda a, b: a != 0,
    "blt": lambda a, b: a < b,
    "bge": lambda a, b: a >= b,
}
# these keep every bit of a NaN, or can't make one
_KEEP_NAN = ("fneg", "fabs", "roundf16", "roundbf16", "i2f")


def decode(program: Program) -> list[Step]:
    """The steps of a program, one an instruction."""
    steps = []
    for pc, row in enumerate(program.code.tolist()):
        x = INSTRUCTIONS[row[0]]
        numbers = {operand.name: row[1 + k] for k, operand in enumerate(x.operands)}
        steps.append(_step(program, pc, x, numbers))
    return steps


def _step(program: Program, pc: int, x: Instruction, numbers: Numbers) -> Step:
    if x.name in _CONDITIONS:
        return _jump(_CONDITIONS[x.name], numbers)
    match x.name:
        case "end":
            return _end
        case "barrier":
            return lambda thread: BARRIER
        case "gridbarrier":
            return lambda thread: GRID_BARRIER
        case name if name in EFFECTS:
            return _effect(program, name, numbers)
    if x.group == "scalar":
        return _scalar(x, numbers)
    if x.group == "dte":
        return _transfer(x, numbers, pc)
    return _vector(x, numbers) if x.group == "vector" else _tile(x, numbers)


def _jump(condition: Callable[[int, int], bool], numbers: Numbers) -> Step:
    a = numbers.get("a")
    b = numbers.get("b")
    target = numbers["target"]

    def step(thread: Thread) -> int | None:
        left = 0 if a is None else as_int(thread.r[a])
        right = 0 if b is None else as_int(thread.r[b])
        return target if condition(left, right) else None

    return step


def _end(thread: Thread) -> int | None:
    if thread.pending:
        thread.pending.complete_all()
    return END


def _effect(program: Program, name: str, numbers: Numbers) -> Step:
    effect = EFFECTS[name]

    def step(thread: Thread) -> int | None:
        effect(Operands(program, thread, numbers))
        return None

    return step


def _scalar(x: Instruction, numbers: Numbers) -> Step:
    body = bodies()[x.name]
    registers = [numbers[name] for name in arguments(x)]
    d = numbers["d"]
    read: Callable[[int], Any] = as_float if x.type[0] == "f" else as_int
    write = _int_bits if x.type[-1] == "i" else from_float if x.name in _KEEP_NAN else from_arithmetic
    divides = x.name in ("idiv", "imod")

    def step(thread: Thread) -> int | None:
        values = [read(thread.r[register]) for register in registers]
        if divides and values[1] == 0:
            raise Trap(DIVIDE, None, (values[0],))
        thread.r[d] = write(body(*values))
        return None

    return step


def _int_bits(value: Any) -> int:
    return int(value) & MASK


def _tile(x: Instruction, numbers: Numbers) -> Step:
    body = bodies()[x.name]
    kinds = {operand.name: operand.kind for operand in x.operands}
    written = next(o.name for o in x.operands if o.kind == "t" and o.writes)
    sources = [o.name for o in x.operands if o.kind == "t" and not o.writes]
    # the tile whose type says how a scalar operand is read
    typing = "b" if x.name.endswith("_rs") else "a" if "a" in sources else written

    def step(thread: Thread) -> int | None:
        tiles = {name: thread.t[numbers[name]] for name in (written, *sources)}
        if x.shape:
            for name in sources:  # a source in the destination's register is read as it was before
                if tiles[name] is tiles[written]:
                    tiles[name] = tiles[name].copy()
        try:
            _set_shape(x, tiles, numbers)
            if x.name == "tatomic_add":
                allow(tiles[written], MAY_STORE)
            given: dict[str, Any] = {**numbers, **tiles}
            for name, kind in kinds.items():
                if kind == "r":
                    given[name] = typed(thread.r[numbers[name]], tiles[typing].dtype)
            body(*(given[name] for name in arguments(x)))
        except TileFault as fault:
            if fault.number == GATHER:
                target = tiles["a" if x.name == "tgather" else "d"]
                raise index_trap(tiles, target, numbers["axis"]) from None
            raise sources_trap(fault, _sources_are(x), list(tiles.values())) from None
        return None

    return step


def _sources_are(x: Instruction) -> str:
    """How the extents of the sources go together: "product", "indexed" or "alike"."""
    return "product" if x.unit == "M" else "indexed" if x.shape == "gather" else "alike"


def _set_shape(x: Instruction, tiles: dict[str, Tile], numbers: Numbers) -> None:
    """Give a result its extents, and compare those of other destinations."""
    match x.shape:
        case "broadcast":
            sources = [tile for name, tile in tiles.items() if name != "d"]
            tiles_twin.shape_broadcast(tiles["d"], sources)
        case "same":
            tiles_twin.shape_same(tiles["d"], tiles["a"])
        case "reduce":
            tiles_twin.shape_reduce(tiles["d"], tiles["a"], numbers["axis"])
        case "matmul":
            tiles_twin.shape_matmul(tiles["d"], tiles["a"], tiles["b"])
        case "gather":
            tiles_twin.shape_gather(tiles["d"], tiles["a"], tiles["b"], numbers["axis"])


def _transfer(x: Instruction, numbers: Numbers, pc: int) -> Step:
    body = bodies()[x.name]

    def step(thread: Thread) -> int | None:
        after = thread.r[numbers["after"]]
        check_event(thread, after)
        d = thread.t[numbers["d"]]
        a = thread.t[numbers["a"]] if "a" in numbers else None
        if a is not None:
            allow(a, MAY_LOAD)
        allow(d, MAY_STORE)
        thread.events += 1
        value = typed(thread.r[numbers["value"]], d.dtype) if "value" in numbers else None
        if thread.pending is None:
            try:
                _move(x, body, d, a, value)
            except TileFault as fault:
                raise tiles_trap(fault, [d, a]) from None
        else:
            later = (d.copy(), a.copy() if a is not None else None)
            transfer = Transfer(
                thread.events, after, numbers["channel"], pc, lambda: _move(x, body, *later, value), [*later]
            )
            thread.pending.add(transfer)
        thread.r[numbers["event"]] = thread.events
        return None

    return step


def _move(x: Instruction, body: Callable[..., Any], d: Tile, a: Tile | None, value: Any) -> None:
    given = {"d": d, "a": a, "value": value}
    body(*(given.get(name) for name in arguments(x)))


def _vector(x: Instruction, numbers: Numbers) -> Step:
    body = bodies()[x.name]
    kinds = {operand.name: operand.kind for operand in x.operands}
    names = arguments(x)
    into_scalar = "d" not in names

    def step(thread: Thread) -> int | None:
        given = [thread.v[numbers[name]] if kinds[name] == "v" else numbers[name] for name in names]
        try:
            result = body(*given)
        except TileFault as fault:
            raise tiles_trap(fault, []) from None
        if into_scalar:
            thread.r[numbers["d"]] = from_typed(result, DTYPES[numbers["dtype"]])
        return None

    return step
