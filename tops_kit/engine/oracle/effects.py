"""Instructions that only do something to their thread: views, elements, prints, waits, vector moves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tops_kit.engine import tiles_twin
from tops_kit.engine.oracle import elements, views
from tops_kit.engine.oracle.memory import buffer_view
from tops_kit.engine.oracle.scalars import MASK, as_int, typed
from tops_kit.engine.oracle.thread import Thread
from tops_kit.engine.oracle.trap import ASSERT, EVENT, SPACE, Trap, shapes_trap, vector_trap
from tops_kit.engine.tiles_twin import Tile, TileFault
from tops_kit.engine.tiles_twin.tile import SPACE_L3
from tops_kit.isa.dtypes import DTYPES
from tops_kit.isa.program import Program

MAY_LOAD, MAY_STORE = 1, 2  # what a pointer parameter allows: the `slot` of views in L3


class Operands:
    """The operands of an instruction by the table's names, read from and written to a thread."""

    def __init__(self, program: Program, thread: Thread, numbers: dict[str, int]) -> None:
        self.program = program
        self.thread = thread
        self.numbers = numbers

    def immediate(self, name: str) -> int:
        """The number that stands in the instruction."""
        return self.numbers[name]

    def bits(self, name: str) -> int:
        """A scalar register, unsigned."""
        return self.thread.r[self.numbers[name]]

    def signed(self, name: str) -> int:
        """A scalar register, signed."""
        return as_int(self.bits(name))

    def several(self, *names: str) -> list[int]:
        """Several scalar registers, signed."""
        return [self.signed(name) for name in names]

    def tile(self, name: str) -> Tile:
        """A tile register."""
        return self.thread.t[self.numbers[name]]

    def vector(self, name: str) -> npt.NDArray[np.uint8]:
        """A vector register."""
        return self.thread.v[self.numbers[name]]

    def put(self, bits: int) -> None:
        """Write the scalar register `d`."""
        self.thread.r[self.numbers["d"]] = bits & MASK

    def put_tile(self, view: Tile) -> None:
        """Write the tile register `d`."""
        self.thread.t[self.numbers["d"]] = view


Effect = Callable[[Operands], None]


def allow(view: Tile, what: int) -> None:
    """Trap unless the kernel's declaration of the pointer says so: by it host threads are given work."""
    if view.space == SPACE_L3 and not view.slot & what:
        raise Trap(SPACE, view)


def check_event(thread: Thread, event: int) -> None:
    """Trap: a transfer that was never issued."""
    if event > thread.events:
        raise Trap(EVENT, None, (as_int(event), thread.events))


def _assert(o: Operands) -> None:
    if o.bits("a") == 0:
        raise Trap(ASSERT, None, (o.immediate("message"),))


def _wait(o: Operands) -> None:
    event = o.bits("event")
    check_event(o.thread, event)
    if o.thread.pending:
        o.thread.pending.complete(event)


def _wait_all(o: Operands) -> None:
    if o.thread.pending:
        o.thread.pending.complete_all()


def _buffer(o: Operands) -> None:
    number = o.immediate("buffer")
    buffer = o.program.buffers[number]
    memory = o.thread.l1 if buffer.space == "L1" else o.thread.l2
    o.put_tile(buffer_view(buffer, number, memory, o.signed("slot"), result=bool(o.immediate("result"))))


def _extents(o: Operands) -> list[int]:
    return o.several("n0", "n1", "n2")[: o.immediate("rank")]


def _set_extents(o: Operands) -> None:
    d, extents = o.tile("d"), _extents(o)
    try:
        tiles_twin.shape_extent(d, extents)
    except TileFault:
        raise shapes_trap(d, extents) from None


def _load_element(o: Operands) -> None:
    a = o.tile("a")
    o.put(elements.load(a, elements.address(a, o.several("i", "j", "k"))))


def _store_element(o: Operands) -> None:
    d = o.tile("d")
    elements.store(d, elements.address(d, o.several("i", "j", "k")), o.bits("a"))


def _atomic(operation: str) -> Effect:
    def effect(o: Operands) -> None:
        a = o.tile("a")
        elements.check_atomic(a)
        allow(a, MAY_STORE)
        o.put(elements.atomic(a, operation, o.bits("b")))

    return effect


def _compare_and_set(o: Operands) -> None:
    a = o.tile("a")
    elements.check_atomic(a)
    allow(a, MAY_STORE)
    o.put(elements.compare_and_set(a, o.bits("expected"), o.bits("b")))


def _vector_load(o: Operands) -> None:
    try:
        tiles_twin.vload(o.vector("d"), o.tile("a"), o.signed("i"))
    except TileFault as fault:
        raise vector_trap(fault, o.tile("a"), o.signed("i")) from None


def _vector_store(o: Operands) -> None:
    try:
        tiles_twin.vstore(o.tile("d"), o.signed("i"), o.vector("a"))
    except TileFault as fault:
        raise vector_trap(fault, o.tile("d"), o.signed("i")) from None


def _splat(o: Operands) -> None:
    dtype = DTYPES[o.immediate("dtype")]
    tiles_twin.vsplat(o.vector("d"), typed(o.bits("a"), dtype), dtype.code)


def _move(o: Operands) -> None:
    o.vector("d")[:] = o.vector("a")


EFFECTS: dict[str, Effect] = {
    "assert": _assert,
    "printarg": lambda o: o.thread.line.scalar(o.immediate("kind"), o.bits("a")),
    "printtile": lambda o: o.thread.line.tile(o.tile("a")),
    "print": lambda o: o.thread.finish_line(o.immediate("format")),
    "brk": lambda o: None,
    "special": lambda o: o.put(o.thread.special[o.immediate("which")]),
    "clock": lambda o: o.put(0),  # time is the timed machine's affair
    "select": lambda o: o.put(o.bits("a") if o.bits("c") else o.bits("b")),
    "fmov": lambda o: o.put(o.bits("a")),  # every bit, also of NaN
    "wait": _wait,
    "waitall": _wait_all,
    "tbuf": _buffer,
    "tptr": lambda o: o.put_tile(o.thread.arrays[o.immediate("parameter")].copy()),
    "tindex": lambda o: o.put_tile(views.index(o.tile("a"), o.immediate("axis"), o.signed("index"))),
    "tslice": lambda o: o.put_tile(views.part(o.tile("a"), o.immediate("axis"), *o.several("start", "stop"))),
    "tover": lambda o: o.put_tile(views.over(o.tile("a"), o.immediate("axis"), *o.several("start", "stop"))),
    "tstep": lambda o: o.put_tile(views.stepped(o.tile("a"), o.immediate("axis"), o.signed("step"))),
    "tperm": lambda o: o.put_tile(views.permuted(o.tile("a"), o.immediate("order"))),
    "tshape": lambda o: o.put_tile(views.reshaped(o.tile("a"), _extents(o))),
    "tdim": lambda o: o.put(views.extent(o.tile("a"), o.immediate("axis"))),
    "tcopyview": lambda o: o.put_tile(o.tile("a").copy()),
    "textent": _set_extents,
    "lds": _load_element,
    "sts": _store_element,
    "atomic_cas": _compare_and_set,
    "vld": _vector_load,
    "vst": _vector_store,
    "vsplat": _splat,
    "viota": lambda o: tiles_twin.viota(o.vector("d"), o.immediate("dtype")),
    "vmov": _move,
    **{f"atomic_{name}": _atomic(name) for name in ("add", "min", "max", "and", "or", "xor", "exchange")},
}
