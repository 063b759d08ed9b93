"""The events of the timed mode on the oracle (engine/trace.c): what leaves the scalar unit, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tops_kit.engine.oracle.steps import Numbers, Step
from tops_kit.engine.oracle.thread import Thread
from tops_kit.engine.result import EVENT, EVENT_KINDS
from tops_kit.engine.tiles_twin import Tile
from tops_kit.engine.tiles_twin.tile import SPACE_L1, SPACE_L2, SPACE_NONE
from tops_kit.engine.timing_parameters import SCALAR_CYCLES
from tops_kit.isa.dtypes import DTYPES, F32, VECTOR_BYTES, DType
from tops_kit.isa.program import Program
from tops_kit.isa.table import INSTRUCTIONS, Instruction

_NO_KEY = 0xFFFF
_MOST_CYCLES = 0xFFFFFFFF  # of one event
_KIND = {name: number for number, name in enumerate(EVENT_KINDS)}
_SYNCS = ("end", "barrier", "gridbarrier", "waitall")
_TOUCHES = {"lds": "a", "sts": "d", "printtile": "a"}  # scalar accesses, and the view that they touch

Rows = list[tuple[Any, ...]]
Emit = Callable[[Thread, dict[str, Tile]], None]


@dataclass(eq=False)
class Trace:
    """The events of one thread. `keys`: the key of slot 0 of each buffer. `clock` gives the cycles since the
    thread's start from its events."""

    keys: tuple[int, ...]
    clock: Callable[[npt.NDArray[Any]], int]
    rows: Rows = field(default_factory=list)
    cycles: int = 0  # issued since the last event
    after: int = 0  # the event that the transfer that is being issued starts after
    touched: set[int] = field(
        default_factory=set
    )  # slots that a unit used since the scalar unit waited for them

    def add(
        self,
        kind: str,
        pc: int,
        *,
        views: tuple[Tile | None, ...] = (),
        keys: tuple[int, ...] = (),
        work: float = 0,
        flops: float = 0,
        size: int = 0,
        event: int = 0,
        after: int = 0,
        dtype: DType = F32,
        route: tuple[int, int] = (SPACE_NONE, SPACE_NONE),
        channel: int = 0,
    ) -> None:
        """One more. `views` are used by a unit; `keys` only named."""
        while self.cycles > _MOST_CYCLES:
            self.rows.append((pc, _MOST_CYCLES, 0, 0, 0, 0, 0, [_NO_KEY] * 4, _KIND["wait"], 0, 0, 0, 0))
            self.cycles -= _MOST_CYCLES
        key = [*keys, *(self.key(view) for view in views)]
        self.touched.update(k for k in key[len(keys) :] if k != _NO_KEY)
        key += [_NO_KEY] * (4 - len(key))
        self.rows.append(
            (pc, self.cycles, work, size, flops, event, after, key, _KIND[kind], dtype.code, *route, channel)
        )
        self.cycles = 0

    def key(self, view: Tile | None) -> int:
        """Of a slot of a buffer; views of L3 have none."""
        if view is None or view.space not in (SPACE_L1, SPACE_L2):
            return _NO_KEY
        return self.keys[view.object] + view.slot

    def sync(self, pc: int, view: Tile) -> None:
        """The scalar unit touches a slot: it waits for what uses it, if anything does."""
        key = self.key(view)
        if key in self.touched:
            self.add("sync", pc, keys=(key,))
            self.touched.discard(key)

    def events(self) -> npt.NDArray[Any]:
        """All of them, of type EVENT."""
        return np.array(self.rows, EVENT)


def first_keys(program: Program) -> tuple[int, ...]:
    """Of each buffer: the key of its slot 0."""
    out, key = [], 0
    for buffer in program.buffers:
        out.append(key)
        key += buffer.slots
    return tuple(out)


def traced(program: Program, steps: list[Step]) -> list[Step]:
    """The steps of a program, each followed by its event, in threads that have a trace."""
    return [
        _traced(pc, row, step)
        for pc, (row, step) in enumerate(zip(program.code.tolist(), steps, strict=True))
    ]


def _traced(pc: int, row: list[int], step: Step) -> Step:
    x = INSTRUCTIONS[row[0]]
    numbers = {operand.name: row[1 + k] for k, operand in enumerate(x.operands)}
    cycles = int(SCALAR_CYCLES[row[0]])
    tiles = {o.name: numbers[o.name] for o in x.operands if o.kind == "t"}
    first = numbers.get("after")
    emit = _emit(pc, x, numbers)

    def run(thread: Thread) -> int | None:
        # a source may be in the register of the result: it is timed as it was before
        before = {name: thread.t[number].copy() for name, number in tiles.items()} if emit else {}
        trace = _of(thread)
        trace.after = thread.r[first] if first is not None else 0
        target = step(thread)
        trace.cycles += cycles
        if emit:
            after = {o.name: thread.t[tiles[o.name]] for o in x.operands if o.kind == "t" and o.writes}
            emit(thread, {**before, **after})
        return target

    return run


def _emit(pc: int, x: Instruction, numbers: Numbers) -> Emit | None:
    """What adds the events of an instruction, from its views; None: it has none."""
    if x.name in _SYNCS:
        return lambda thread, views: _of(thread).add(x.name, pc)
    if x.name in _TOUCHES:
        return lambda thread, views: _of(thread).sync(pc, views[_TOUCHES[x.name]])
    match x.name:
        case "wait":
            return lambda thread, views: _of(thread).add("wait", pc, event=thread.r[numbers["event"]])
        case "clock":
            return lambda thread, views: _read_clock(thread, pc, numbers["d"])
    match x.group:
        case "dte":
            return lambda thread, views: _transfer(thread, pc, views, numbers)
        case "atomic":
            return lambda thread, views: _atomic(thread, pc, views, _expression(x, x.flops))
        case "tile" | "matrix":
            return _tile(pc, x)
        case "vector":
            return _vector(pc, x, numbers)
    return None


def _of(thread: Thread) -> Trace:
    assert thread.trace is not None
    return thread.trace


def _read_clock(thread: Thread, pc: int, register: int) -> None:
    trace = _of(thread)
    trace.add("wait", pc)  # for nothing: it carries the scalar unit's cycles
    thread.r[register] = trace.clock(trace.events()) & 0xFFFFFFFF


def _transfer(thread: Thread, pc: int, views: dict[str, Tile], numbers: Numbers) -> None:
    d, a = views["d"], views.get("a")
    count = 1  # of what is written: a clipped transfer leaves the rest out
    for lo, hi in zip(d.lo, d.hi, strict=True):
        count *= max(hi - lo, 0)
    _of(thread).add(
        "dma", pc, views=(d, a), size=count * d.dtype.size_bytes, event=thread.events,
        after=_of(thread).after, dtype=d.dtype, route=(a.space if a else SPACE_NONE, d.space),
        channel=numbers["channel"],
    )  # fmt: skip


def _atomic(thread: Thread, pc: int, views: dict[str, Tile], flops: Callable[..., float]) -> None:
    source = views["a"] if "d" in views else None  # a tile of atomics adds `a` to `d`
    view = views["d"] if source else views["a"]
    counted = source or view
    _of(thread).add(
        "atomic", pc, views=(view, source), work=_elements(counted), size=_bytes(counted),
        flops=flops(**views), dtype=view.dtype, route=(source.space if source else SPACE_NONE, view.space),
    )  # fmt: skip


def _tile(pc: int, x: Instruction) -> Emit:
    names = [o.name for o in x.operands if o.kind == "t" and o.writes]
    names += [o.name for o in x.operands if o.kind == "t" and not o.writes]
    work, flops = _expression(x, x.cost), _expression(x, x.flops)
    matrix = x.unit == "M"

    def emit(thread: Thread, views: dict[str, Tile]) -> None:
        given: dict[str, Any] = dict(views)
        used = [views[name] for name in names]
        size = sum(_bytes(view) for view in used)
        dtype = used[0].dtype
        for view in used:
            if view.dtype.size_bytes > dtype.size_bytes:
                dtype = view.dtype
        if matrix:
            given["macs"] = _elements(views["d"]) * views["a"].n[-1]
            dtype = views["a"].dtype
            size += _bytes(views["d"])  # read and written
        _of(thread).add(
            "matrix" if matrix else "vector", pc, views=tuple(used), work=work(**given), flops=flops(**given),
            size=size, dtype=dtype, route=(SPACE_L1, SPACE_L1),
        )  # fmt: skip

    return emit


def _vector(pc: int, x: Instruction, numbers: Numbers) -> Emit:
    name = next((o.name for o in x.operands if o.kind == "t"), None)
    into_scalar = x.operands[0].kind == "r"

    def emit(thread: Thread, views: dict[str, Tile]) -> None:
        view = views[name] if name else None
        dtype = DTYPES[numbers["dtype"]] if "dtype" in numbers else view.dtype if view else F32
        lanes = VECTOR_BYTES // dtype.size_bytes
        flops = {"0": 0, "lanes": lanes, "2 * lanes": 2 * lanes}[x.flops]
        trace = _of(thread)
        trace.add(
            "vector", pc, views=(view,) if view else (), work=int(x.cost), flops=flops,
            size=VECTOR_BYTES if view else 0, dtype=dtype,
        )  # fmt: skip
        if into_scalar:  # the scalar unit waits for the result
            trace.add("sync", pc)

    return emit


def _expression(x: Instruction, text: str) -> Callable[..., float]:
    """A cost or flops expression of the table as a function of the views by their names."""
    names = [o.name for o in x.operands if o.kind == "t"]
    source = f"lambda {', '.join([*names, 'macs=0'])}: {text}"
    namespace = {"__builtins__": {}, "groups": _groups, "elements": _elements, "max": max}
    function: Callable[..., float] = eval(
        source, namespace
    )  # the text is the table's: nothing else gets here
    return function


def _elements(view: Tile) -> int:
    out = 1
    for extent in view.n:
        out *= extent
    return out


def _bytes(view: Tile) -> int:
    return _elements(view) * view.dtype.size_bytes


def _groups(view: Tile) -> int:
    """128-byte vectors that a tile occupies, row by row."""
    if not view.n:
        return 1
    rows = 1
    for extent in view.n[:-1]:
        rows *= extent
    return rows * -(-view.n[-1] * view.dtype.size_bytes // VECTOR_BYTES)
