"""The lowest layer of the translator: places, errors, and what Python objects mean as operands."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from tops_kit.isa.dtypes import DType
from tops_kit.topscc.builder import Builder, Operand
from tops_kit.topscc.diagnostics import KernelError, Where
from tops_kit.topscc.kinds import EventKind, Extent, ScalarKind, TileKind, VectorKind, ViewKind
from tops_kit.topscc.language.types import dtype_complaint, dtype_of
from tops_kit.topscc.language.words import word_of
from tops_kit.topscc.python.captures import Captures
from tops_kit.topscc.python.places import Placed
from tops_kit.topscc.python.scope import Local, LocalFunction, Lost, Method, Region, Scope, Static
from tops_kit.topscc.python.source import FunctionSource, source_of
from tops_kit.topscc.tree import Buffer, Constant, Value, Variable

# unrolled and inlined in a kernel: more than fit its 65,535 instructions, and compiled in some ten seconds
MAX_ROUNDS = 100_000
CALL_WEIGHT = 10  # a call is as much work for the compiler as so many rounds


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that is being translated. `events` of a pipeline are those of loads that run ahead."""

    unrolled: bool
    region: Region
    events: tuple[Variable, ...] = ()
    # of a pipeline: its loop variable, and for each buffer the view that a round works on
    counter: Variable | None = None
    views: dict[Buffer, Value] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Frame:
    """The kernel, or a function that is being inlined."""

    name: str
    identity: object  # what recursion is noticed by
    region: Region
    loops: list[Loop] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)  # the variables of returns inside of branches and loops
    returned: bool = False  # some return stood inside of a branch or loop
    result: Any = None  # of a return outside of them


class Core:
    """State and helpers that all layers use."""

    def __init__(self, builder: Builder, scope: Scope, captures: Captures, frame: Frame) -> None:
        self.builder = builder
        self.scope = scope
        self.captures = captures
        self.frames = [frame]
        self.region: Region = ()
        self.jump = (
            ""  # "break", "continue" or "return" that is certain: what follows in the block is not read
        )
        self.find_source: Callable[[FunctionType], FunctionSource] = source_of
        self.sources: dict[CodeType, FunctionSource] = {}  # of the functions that were called
        self.reaching: set[ast.expr] = set()  # subscripts that may reach outside: of a load with pad, ...
        self.axes: set[Extent] = set()  # the extents of whole axes of arrays
        self.counters: set[Variable] = set()  # variables of loops
        self.naming = ""  # the name that the value being read will get
        self._regions = 0
        self._rounds = 0
        self.deepest: Where | None = None  # the statement in which Python's stack was used up

    # what the layers above give

    def value(self, node: ast.expr, *, view: bool = False) -> Any:
        """What an expression stands for: a Value, a Python object, a buffer, a function, a method.

        With `view`, an element `x[i]` stays a place in memory.
        """
        raise NotImplementedError

    def block(self, body: list[ast.stmt]) -> None:
        """Translate statements in order, up to what can't be reached."""
        raise NotImplementedError

    # places and errors

    @property
    def frame(self) -> Frame:
        """The function that is being translated."""
        return self.frames[-1]

    def where(self, node: Placed) -> Where:
        """The place of a node."""
        return self.scope.places.of(node, self.scope.call)

    def head(self, node: ast.stmt, last: Placed) -> Where:
        """The place of a compound statement's first line."""
        return self.scope.places.head(node, last, self.scope.call)

    def error(
        self, what: str, at: Placed | Where, hint: str = "", notes: tuple[tuple[str, Where], ...] = ()
    ) -> KernelError:
        """A refusal."""
        return KernelError(what, at if isinstance(at, Where) else self.where(at), hint, notes)

    def count_round(self, at: Placed | Where, *, weight: int = 1) -> None:
        """A round that is unrolled, or a call that is inlined: their number must stay small in all."""
        self._rounds += weight
        if self._rounds > MAX_ROUNDS:
            raise self.error(
                f"too long: {MAX_ROUNDS:,} rounds to unroll or {MAX_ROUNDS // CALL_WEIGHT:,} calls to inline",
                at,
                "loop on the device: for i in range(n):",
            )

    # regions: branches and loops that are decided when the kernel runs

    @contextmanager
    def inner_region(self) -> Iterator[None]:
        """Inside of a branch or loop. What names stood for around it is settled at its end."""
        outer = self.region
        names = self.scope.names
        around = dict(names)
        self._regions += 1
        self.region = (*outer, self._regions)
        try:
            yield
        finally:
            self.region = outer
            for name, bound in list(names.items()):
                old = around.get(name)
                if bound is old or (old is None and isinstance(bound, Local)):
                    continue  # a variable that begins here: whether it has a value, the builder knows
                if isinstance(bound, Local | Static):
                    at = bound.where if isinstance(bound, Static) else bound.variable.where
                    counted = isinstance(bound, Local) and bound.variable in self.counters
                    names[name] = Lost(at, counted)

    def around(self, region: Region) -> bool:
        """Whether a region is one around the present one: what it binds may still be read in other rounds."""
        return region != self.region and self.region[: len(region)] == region

    # Python objects as operands

    def static(self, value: Any) -> Any:
        """The Python object behind a value that is known when compiling; others as they are."""
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, tuple):
            return tuple(self.static(item) for item in value)
        return value

    def known(self, value: Any) -> bool:
        """Whether the compiler knows a value."""
        if isinstance(value, tuple):
            return all(self.known(item) for item in value)
        return not isinstance(value, Value | Buffer | Variable) or isinstance(value, Constant)

    def static_of(self, value: Any, what: str, node: Placed) -> Any:
        """A value that must be known when compiling."""
        if not self.known(value):
            raise self.error(
                f"{what} must be known when compiling, this is {self.describe(value)}",
                node,
                self._constexpr_hint(node),
            )
        return self.static(value)

    def _constexpr_hint(self, node: Placed) -> str:
        """Which parameter to make a constexpr, where a parameter of the kernel is what isn't known."""
        for one in ast.walk(node):
            bound = self.scope.names.get(one.id) if isinstance(one, ast.Name) else None
            if isinstance(bound, Local) and self.builder.is_parameter(bound.variable):
                name = bound.variable.name
                return f"annotate it, {name}: tops.constexpr"
        return "make it a parameter with the type tops.constexpr, or compute it from such"

    def integer(self, value: Any, what: str, node: Placed) -> int:
        """An int that must be known when compiling."""
        number = self.plain(self.static_of(value, what, node), node)
        if isinstance(number, bool) or not isinstance(number, int):
            raise self.error(
                f"{what} must be an int, this is {number!r}", node, "write a whole number; // divides to one"
            )
        return number

    def plain(self, value: Any, node: Placed) -> Any:
        """numpy's scalars and enumerations as Python numbers, which have no width while compiling."""
        if isinstance(value, Value | Buffer):
            return value
        if isinstance(value, np.longdouble):
            raise self.error("a longdouble of numpy", node, "make it a Python number: float(...)")
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, enum.Enum) and not isinstance(value, int | float):
            return self.plain(value.value, node)
        if isinstance(value, int | float) and type(value) not in (int, float, bool):
            return int(value) if isinstance(value, int) else float(value)
        return value

    def operand(self, value: Any, node: Placed) -> Operand:
        """A value as an operand of the builder: a number or a Value."""
        if isinstance(value, Value):
            return value
        if isinstance(value, Buffer):
            return self.whole(value, node)
        value = self.plain(value, node)
        if isinstance(value, bool | int | float):
            return value
        raise self.error(f"{self.describe(value)} is no number or tile", node, self._operand_hint(value))

    def computed(self, value: Any, node: ast.expr) -> Operand:
        """A value as an operand of arithmetic: what lies outside of L1 must be loaded first."""
        operand = self.operand(value, node)
        kind = operand.kind if isinstance(operand, Value) else None
        if isinstance(kind, EventKind):
            raise self.error("an event is no number", node, f"wait for it: tops.wait({ast.unparse(node)})")
        if isinstance(kind, ViewKind) and (kind.space != "L1" or kind.outside):
            element = kind.rank == 0 and kind.space == "L2" and not kind.outside
            if not element:
                raise self.error(
                    f"arithmetic works on L1, this is {self.describe(value)}",
                    node,
                    f"load a part of it: tops.load({_part_of(node.id, kind.rank)})"
                    if isinstance(node, ast.Name) and kind.space == "L3" and kind.rank
                    else f"load it first: tops.load({ast.unparse(node)})",
                )
        return operand

    def _operand_hint(self, value: Any) -> str:
        if type(value).__module__.partition(".")[0] in ("numpy", "torch"):
            return "arrays come in as parameters: x: tops.ptr(tops.f32)"
        if isinstance(value, Method):
            return f"call it: .{value.name}(...)"
        if isinstance(value, LocalFunction) or callable(value):
            return "call it"
        if isinstance(value, tuple):
            return "take one of its elements: t[0]"
        if value is None:
            return "give it a number first, or test for it: `is None`"
        if isinstance(value, list):
            return "make it a tuple: lists change, and are not known when compiling"
        return "write a number, a tile or a part of a buffer"

    def whole(self, buffer: Buffer, node: Placed) -> Value:
        """A buffer that is used without a subscript."""
        loop = self.pipeline_of(buffer)
        if loop is not None and loop.counter is not None:
            raise self.error(
                f"inside of its pipeline {buffer.name} needs the loop variable",
                node,
                f"write {buffer.name}[{loop.counter.name}]",
            )
        if buffer.slots > 1:
            raise self.error(
                f"{buffer.name} has {buffer.slots} slots: which one?", node, f"write {buffer.name}[slot]"
            )
        return self.builder.slot(buffer, 0, self.where(node))

    def pipeline_of(self, buffer: Buffer) -> Loop | None:
        """The pipeline that is filling a buffer here, also one around the call of this function."""
        for frame in reversed(self.frames):
            for loop in reversed(frame.loops):
                if buffer in loop.views:
                    return loop
        return None

    def dtype(self, value: Any, node: Placed) -> DType:
        """An element type; numpy's and torch's are taken too."""
        found = None if isinstance(value, str) else dtype_of(value)
        if found is None:
            what, hint = dtype_complaint(value)
            raise self.error(what, node, hint)
        return found

    def describe(self, value: Any) -> str:
        """A value in a sentence."""
        match value:
            case Constant():
                return repr(value.value)
            case Value():
                return self._kind(value)
            case Buffer():
                return f"the buffer {value.name}"
            case LocalFunction():
                return f"the function {value.name}"
            case Method():
                return f"the method {value.name}"
            case tuple():
                return f"a tuple of {len(value)}"
            case DType():
                return f"the type tops.{value.name}"
            case str():
                return f"the text {value!r}" if len(value) < 40 else "a text"
            case None:
                return "None"
        word = word_of(value)
        if word:
            return f"tops.{word}"
        if callable(value):
            return f"the function {getattr(value, '__name__', value)}"
        if isinstance(value, bool | int | float):
            return repr(value)
        return f"a Python {type(value).__name__}"

    def _kind(self, value: Value) -> str:
        kind = value.kind
        match kind:
            case ScalarKind():
                return f"a scalar ({kind.dtype}) of the running kernel"
            case TileKind():
                return f"a tile of {kind.dtype}"
            case ViewKind() if kind.rank == 0:
                return f"an element of {kind.dtype} in {kind.space}"
            case ViewKind():
                return f"a view of {kind.dtype} in {kind.space}"
            case VectorKind():
                return f"a vector of {kind.dtype}"
            case EventKind():
                return "an event"
        return str(kind)


def _part_of(name: str, rank: int) -> str:
    """A part of an array as people write it: x[i:i+B, j:j+C]."""
    letters = zip("ijklm", "BCDEF", strict=True)
    return f"{name}[{', '.join(f'{i}:{i}+{n}' for (i, n), _ in zip(letters, range(rank), strict=False))}]"
