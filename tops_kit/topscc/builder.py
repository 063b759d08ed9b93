"""Building a kernel's tree: one method for each thing a kernel can do, with its checks.

A front end calls these in the order in which the source evaluates; every call takes the place in the source it stands
for. Wrong types, shapes, slots, memory spaces raise `KernelError` at that place.

Operands are `Value`s or Python numbers. A Python number is a weak literal: it takes the type of the other operand
(an i32, f32 or bool on its own), and operations on numbers alone are computed at once and give numbers, so a front end
passes constexpr values as they are.

Scalars are i32, f32 or bool: i32 with f32 gives f32, bool counts as i32 in arithmetic. Tiles and vectors of different
element types never mix (cast one); a scalar beside a tile takes the tile's type, but a float with an int tile is
refused. A tile operand may be a tile or a view of L1.

Views refer to memory: who reads a view later sees what was written meanwhile. Tiles are values.

    b = Builder("double", where, target=S60)
    x = b.pointer("x", F32, 1, where)
    n = b.scalar("n", I32, where)
    t = b.load(b.index(x, [Slice(0, 64)], where), where)
    b.store(b.index(x, [Slice(0, 64)], where), b.binary("mul", t, 2.0, where), where)
    kernel = b.finish(where)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tops_kit.isa.dtypes import DType
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.target import S60, Target
from tops_kit.topscc.tree import Buffer, Value, Variable

Operand: TypeAlias = Value | int | float | bool


@dataclass(frozen=True, slots=True)
class Slice:
    """`start:stop:step` of a subscript; None as in Python. Literals below 0 count from the end."""

    start: Operand | None = None
    stop: Operand | None = None
    step: Operand | None = None


Item: TypeAlias = Operand | Slice


class Builder:
    """Builds one kernel."""

    def __init__(
        self,
        name: str,
        where: Where,
        *,
        target: Target = S60,
        constexprs: Mapping[str, int | float | bool | str] | None = None,
    ) -> None:
        """`constexprs` are only written down in the program."""
        raise NotImplementedError

    # parameters and memory

    def pointer(
        self, name: str, dtype: DType, ndim: int, where: Where, shape: Sequence[int | None] | None = None
    ) -> Value:
        """The next parameter, an array in L3 of `ndim` axes (1-5): a view of all of it.

        `shape` states extents known when compiling (None for unknown); the launch is not checked against it here.
        """
        raise NotImplementedError

    def scalar(self, name: str, dtype: DType, where: Where) -> Variable:
        """The next parameter, a number. Any dtype; it is i32, f32 or bool inside of the kernel."""
        raise NotImplementedError

    def buffer(
        self,
        name: str,
        space: str,
        dtype: DType,
        shape: Sequence[Operand],
        where: Where,
        *,
        slots: Operand = 1,
    ) -> Buffer:
        """L1 or L2 memory; extents (1-3 axes) and slots must be Python ints (else the error says so)."""
        raise NotImplementedError

    def slot(self, buffer: Buffer, slot: Operand, where: Where) -> Value:
        """A view of one slot of a buffer."""
        raise NotImplementedError

    # views

    def index(self, base: Value, items: Sequence[Item], where: Where, *, outside: bool = False) -> Value:
        """Part of a view or tile: a number fixes an axis, which disappears; a Slice keeps part of one.

        Items beyond those given are whole axes. Slices must lie inside, unless `outside`: such a view may only be
        loaded with `pad` or stored with `clip` (`load` and `store` make it so themselves when they get a view that
        comes straight from `index`). With every axis fixed the result is a view without axes: what atomics take, and
        what `element` reads.
        """
        raise NotImplementedError

    def permute(self, base: Value, order: Sequence[int], where: Where) -> Value:
        """Axes in another order, as numpy's transpose(order); a view."""
        raise NotImplementedError

    def transpose(self, base: Value, where: Where) -> Value:
        """The last two axes exchanged; a view."""
        raise NotImplementedError

    def reshape(self, base: Value, shape: Sequence[Operand], where: Where) -> Value:
        """Other extents (1-3 axes, one may be -1 when the rest is known) over a dense view or tile; a view."""
        raise NotImplementedError

    def extent(self, base: Value, axis: int, where: Where) -> Operand:
        """Extent of one axis: an int when known, else an i32 value."""
        raise NotImplementedError

    def element(self, base: Value, indices: Sequence[Operand], where: Where) -> Value:
        """One element of a view in L1 or L2, or of a tile, as a scalar. As many indices as axes (none for a view
        without axes)."""
        raise NotImplementedError

    def set_element(self, base: Value, indices: Sequence[Operand], value: Operand, where: Where) -> None:
        """Write one element of a view in L1 or L2."""
        raise NotImplementedError

    def write(self, view: Value, value: Operand, where: Where) -> None:
        """`view[...] = value`: a tile, a view of L1 or a scalar into a view of L1, by the vector unit."""
        raise NotImplementedError

    # arithmetic: scalars, tiles, vectors

    def unary(self, name: str, a: Operand, where: Where) -> Operand:
        """neg abs exp log sqrt rsqrt tanh erf sigmoid sin cos floor ceil recip; `not` (logical, gives bool); `invert`
        (bitwise; on bool logical)."""
        raise NotImplementedError

    def binary(self, name: str, a: Operand, b: Operand, where: Where) -> Operand:
        """add sub mul div floordiv mod min max, and on ints and bools and or xor shl shr (shifts: ints)."""
        raise NotImplementedError

    def compare(self, name: str, a: Operand, b: Operand, where: Where) -> Operand:
        """lt le gt ge eq ne: bool scalars and tiles; vectors of 1 and 0 in the vector's own type."""
        raise NotImplementedError

    def logical(self, name: str, a: Operand, b: Callable[[], Operand], where: Where) -> Operand:
        """`a and b`, `a or b` of scalars: `b` builds the right side, which only runs when it is needed; bool."""
        raise NotImplementedError

    def conditional(
        self, condition: Operand, then: Callable[[], Operand], otherwise: Callable[[], Operand], where: Where
    ) -> Operand:
        """`then if condition else otherwise`; only the side that is chosen runs."""
        raise NotImplementedError

    def select(self, condition: Operand, a: Operand, b: Operand, where: Where) -> Operand:
        """`where(condition, a, b)` by elements (or lanes); all are evaluated."""
        raise NotImplementedError

    def fma(self, a: Operand, b: Operand, c: Operand, where: Where) -> Operand:
        """a * b + c, rounded once (floats)."""
        raise NotImplementedError

    def cast(self, a: Operand, dtype: DType, where: Where) -> Operand:
        """Converted. Scalars: to f16 or bf16 gives an f32 rounded to their values, to a small int an i32 in its range."""
        raise NotImplementedError

    def truth(self, a: Operand, where: Where) -> Operand:
        """A scalar as a condition (`if a`): a != 0 as a bool; tiles are refused."""
        raise NotImplementedError

    # tiles

    def full(self, dtype: DType, shape: Sequence[Operand], value: Operand, where: Where) -> Value:
        """A tile of one value. Extents may be scalars that have a bound (`min(n, 64)`)."""
        raise NotImplementedError

    def iota(
        self, dtype: DType, shape: Sequence[Operand], axis: int, where: Where, *, start: Operand = 0, step: Operand = 1
    ) -> Value:
        """start + step * index along an axis."""
        raise NotImplementedError

    def copy_tile(self, a: Value, where: Where) -> Value:
        """The present content of a view of L1 as a tile."""
        raise NotImplementedError

    def reduce(self, name: str, a: Value, axis: int | None, where: Where) -> Value:
        """sum max min argmax argmin any all along an axis, which stays with extent 1 (axis None: all axes, not for
        argmax and argmin of several axes). Of a vector: sum max min, axis None, gives a scalar."""
        raise NotImplementedError

    def cumsum(self, a: Value, axis: int, where: Where) -> Value:
        """Running sum along an axis."""
        raise NotImplementedError

    def gather(self, a: Value, index: Value, axis: int, where: Where) -> Value:
        """result[i] = a[index[i]] along an axis; the other axes of `index` (i32) are as a's or 1."""
        raise NotImplementedError

    def scatter(
        self, target: Variable | Value, index: Value, values: Value, axis: int, where: Where, *, add: bool = False
    ) -> None:
        """target[index[i]] = values[i] along an axis (or += with `add`); a tile variable or a view of L1, in place."""
        raise NotImplementedError

    def matmul(self, a: Value, b: Value, where: Where) -> Value:
        """a @ b of matrices: f32, f16 and bf16 give f32, ints give i32. Either may be transposed."""
        raise NotImplementedError

    def mma(self, target: Variable | Value, a: Value, b: Value, where: Where) -> None:
        """target += a @ b; a tile variable or a view of L1, in place."""
        raise NotImplementedError

    # variables

    def declare(self, name: str, value: Operand, where: Where) -> Variable:
        """A new variable with its first value: scalars, tiles, views, vectors, events. Its kind stays.

        A view of memory makes the variable another name for that memory.
        """
        raise NotImplementedError

    def assign(self, variable: Variable, value: Operand, where: Where) -> None:
        """A new value. Tiles: extents known at the declaration must be the same, others at most its bound."""
        raise NotImplementedError

    def read(self, variable: Variable, where: Where) -> Value:
        """The value it has now. Refused where it may have none (assigned in only one branch, or in a loop)."""
        raise NotImplementedError

    # control

    def begin_if(self, condition: Operand, where: Where) -> None:
        """`if condition:`"""
        raise NotImplementedError

    def begin_else(self, where: Where) -> None:
        """`else:` of the innermost open if."""
        raise NotImplementedError

    def end_if(self, where: Where) -> None:
        """The end of the innermost open if."""
        raise NotImplementedError

    def begin_loop(self, where: Where, *, assigns: Collection[Variable] | None = None) -> None:
        """A loop: what follows, up to `loop_condition`, computes the condition anew before each round.

        `assigns`: the variables declared before that the loop assigns anywhere (also through inlined functions). None:
        unknown, then all that exist are taken to change, and less is known of slices and shapes inside. Assigning
        another one in the loop is an internal error.
        """
        raise NotImplementedError

    def loop_condition(self, condition: Operand, where: Where) -> None:
        """The loop's body follows; True makes it endless."""
        raise NotImplementedError

    def begin_step(self, where: Where) -> None:
        """What follows runs after each round, also after `continue`. Optional."""
        raise NotImplementedError

    def end_loop(self, where: Where) -> None:
        """The end of the innermost open loop."""
        raise NotImplementedError

    def begin_range(
        self,
        target: str | Variable,
        start: Operand,
        stop: Operand,
        step: Operand,
        where: Where,
        *,
        assigns: Collection[Variable] | None = None,
    ) -> Variable:
        """`for target in range(start, stop, step):`, its body follows; gives the loop variable.

        `target` names a new variable, or is one that exists (i32). The bounds are evaluated once. It has no value after
        the loop (but after `break` in a loop that the front end knows to be left so: assign it to another variable).
        A step that isn't a number must be positive, which the kernel asserts. `assigns` as in `begin_loop`; if the body
        assigns the loop variable itself, it must be among them (Python's meaning: rounds don't change).
        """
        raise NotImplementedError

    def end_range(self, where: Where) -> None:
        """The end of the innermost open range loop."""
        raise NotImplementedError

    def break_(self, where: Where) -> None:
        """Leave the innermost loop."""
        raise NotImplementedError

    def continue_(self, where: Where) -> None:
        """To the next round of the innermost loop."""
        raise NotImplementedError

    def return_(self, where: Where) -> None:
        """End the innermost inlined function, or the kernel. Returned values go through variables."""
        raise NotImplementedError

    def begin_inline(self, function: str, where: Where) -> None:
        """The body of a called function follows; `return_` in it goes to its end."""
        raise NotImplementedError

    def end_inline(self, where: Where) -> None:
        """The end of the innermost inlined function; its variables are gone."""
        raise NotImplementedError

    @property
    def reachable(self) -> bool:
        """Whether what is built now can run (not after break, continue, return)."""
        raise NotImplementedError

    # transfers

    def load(self, source: Value, where: Where, *, pad: Operand | None = None) -> Value:
        """A tile with what lies at `source` (L3, L2 or L1), there when the call is over. The bounds must be known.

        With `pad`, what lies outside of the array becomes that value.
        """
        raise NotImplementedError

    def transfer(
        self,
        destination: Value | Variable,
        source: Value,
        where: Where,
        *,
        pad: Operand | None = None,
        clip: bool = False,
        after: Value | None = None,
        channel: int | None = None,
    ) -> Value:
        """Start a copy by the DTE between any two memories (views; the source may be a tile); gives its event.

        It starts when event `after` is complete. `pad`: what of the source lies outside becomes that value; `clip`:
        what of the destination lies outside is left out. Element types must be equal; extents equal but for axes of
        extent 1, or 1 in the source, which is then repeated.
        """
        raise NotImplementedError

    def copy(
        self,
        destination: Value | Variable,
        source: Value,
        where: Where,
        *,
        pad: Operand | None = None,
        clip: bool = False,
        channel: int | None = None,
    ) -> None:
        """`transfer` and wait for it."""
        raise NotImplementedError

    def store(self, destination: Value, source: Operand, where: Where, *, clip: bool = False) -> None:
        """A tile, a view of L1 or L2, to a view. After it the source may be reused; complete for other threads at the
        next barrier, atomic operation or end. (A compiler's tile goes out while the kernel continues.)"""
        raise NotImplementedError

    def memset(
        self, destination: Value, value: Operand, where: Where, *, after: Value | None = None, channel: int | None = None
    ) -> Value:
        """Start filling a view with one value by the DTE; gives the event."""
        raise NotImplementedError

    def no_event(self, where: Where) -> Value:
        """An event that is complete, as a first value for a variable."""
        raise NotImplementedError

    def wait(self, event: Value, where: Where) -> None:
        """Until a transfer is complete."""
        raise NotImplementedError

    def wait_all(self, where: Where) -> None:
        """Until all transfers of this thread are complete."""
        raise NotImplementedError

    # atomics, synchronisation, the launch

    def atomic(
        self, name: str, target: Value, value: Operand, where: Where, *, expected: Operand | None = None
    ) -> Value:
        """add min max and or xor exchange cas on one element (a view without axes) of L1, L2 or L3: i32 or f32 (add,
        min, max, exchange); gives the old value. `cas` writes `value` where the element is `expected`."""
        raise NotImplementedError

    def atomic_add_tile(self, target: Value, tile: Value, where: Where) -> None:
        """Add a tile, element by element, atomically, to a view of L2 or L3."""
        raise NotImplementedError

    def barrier(self, where: Where) -> None:
        """Wait for all threads of the block."""
        raise NotImplementedError

    def grid_barrier(self, where: Where) -> None:
        """Wait for all threads of a cooperative grid."""
        raise NotImplementedError

    def special(self, name: str, where: Where) -> Value:
        """A number of the launch: a name of `isa.table.SPECIAL`, such as thread_id."""
        raise NotImplementedError

    def clock(self, where: Where) -> Value:
        """Cycles of this thread since its start."""
        raise NotImplementedError

    def assert_(self, condition: Operand, message: str, where: Where) -> None:
        """A fault with `message` unless the condition holds; a condition known to fail is a KernelError."""
        raise NotImplementedError

    def print_(self, parts: Sequence[str | Operand], where: Where) -> None:
        """One line of output: texts as they are, scalars and tiles (or views of L1) as values."""
        raise NotImplementedError

    def breakpoint_(self, where: Where) -> None:
        """Stop here under a debugger."""
        raise NotImplementedError

    # vectors

    def vector_load(self, view: Value, index: Operand, where: Where) -> Value:
        """128 bytes of a dense view of L1 (or a tile) from element `index`, counted over all axes."""
        raise NotImplementedError

    def vector_store(self, view: Value, index: Operand, vector: Value, where: Where) -> None:
        """128 bytes to a dense view of L1."""
        raise NotImplementedError

    def vector_splat(self, value: Operand, dtype: DType, where: Where) -> Value:
        """One value in all lanes."""
        raise NotImplementedError

    def vector_iota(self, dtype: DType, where: Where) -> Value:
        """0, 1, 2, ... in the lanes."""
        raise NotImplementedError

    # the end

    def finish(self, where: Where) -> object:
        """The kernel's tree, for `topscc.lower.lower(kernel)`; checks the sizes of L1 and L2 buffers."""
        raise NotImplementedError
