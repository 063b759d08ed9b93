"""The structured tree of a kernel: typed, frozen, independent of the language it was written in.

A block is a sequence of nodes in the order of evaluation. A node's result is a `Value`, defined once and used
after; what changes is a `Variable` (read and assigned by nodes) or memory (seen through views). Control is
structured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from tops_kit.isa.dtypes import DType
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import Kind
from tops_kit.topscc.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """The result of one node. Values are compared by identity; numbers count from 1."""

    number: int
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Value):
    """A number of a known type: a scalar that no node computes. Its `number` is 0."""

    value: int | float | bool


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable of the source. Its kind is that of its first value; extents with a bound keep to it."""

    number: int
    name: str
    kind: Kind
    where: Where


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """A DTE channel that several transfers share; its number is chosen when the program is made."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """L1 memory of a thread or L2 memory of a block: `slots` times `shape`."""

    number: int
    name: str
    space: str
    dtype: DType
    shape: tuple[int, ...]
    slots: int
    where: Where


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """A parameter: a pointer (`holds` the view of the whole array) or a scalar (`holds` its variable)."""

    name: str
    dtype: DType
    ndim: int
    holds: Value | Variable
    where: Where


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One step of a kernel. `USES` names the fields that hold values it uses."""

    where: Where
    USES: ClassVar[tuple[str, ...]] = ()


Block: TypeAlias = tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Computed(Node):
    """A node with a result."""

    result: Value


# arithmetic


@dataclass(frozen=True, slots=True, eq=False)
class Elementwise(Computed):
    """By elements of tiles, lanes of vectors, or on scalars: a unary function, a binary operation, a
    comparison, select, fma, cast (to the result's type) or truth (a scalar as bool)."""

    name: str
    operands: tuple[Value, ...]
    USES = ("operands",)


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(Computed):
    """Along an axis, which stays with extent 1; `axis` -1 for the lanes of a vector."""

    name: str
    a: Value
    axis: int
    USES = ("a",)


@dataclass(frozen=True, slots=True, eq=False)
class Cumsum(Computed):
    """Running sum along an axis."""

    a: Value
    axis: int
    USES = ("a",)


@dataclass(frozen=True, slots=True, eq=False)
class Gather(Computed):
    """result[i] = a[index[i]] along an axis."""

    a: Value
    index: Value
    axis: int
    USES = ("a", "index")


@dataclass(frozen=True, slots=True, eq=False)
class Matmul(Computed):
    """a @ b."""

    a: Value
    b: Value
    USES = ("a", "b")


@dataclass(frozen=True, slots=True, eq=False)
class Full(Computed):
    """One value everywhere; `extents` are i32 scalars."""

    value: Value
    extents: tuple[Value, ...]
    USES = ("value", "extents")


@dataclass(frozen=True, slots=True, eq=False)
class Iota(Computed):
    """start + step * index along an axis."""

    start: Value
    step: Value
    axis: int
    extents: tuple[Value, ...]
    USES = ("start", "step", "extents")


@dataclass(frozen=True, slots=True, eq=False)
class CopyTile(Computed):
    """What a view of L1 holds now, as a tile."""

    a: Value
    USES = ("a",)


@dataclass(frozen=True, slots=True, eq=False)
class Logical(Computed):
    """`a and b`, `a or b`: `block`, which computes b, runs only when a does not decide."""

    name: str
    a: Value
    block: Block
    b: Value
    USES = ("a", "b")


@dataclass(frozen=True, slots=True, eq=False)
class Special(Computed):
    """A number of the launch, by its name in `isa.table.SPECIAL`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Clock(Computed):
    """Cycles of this thread since its start."""


# views and elements


@dataclass(frozen=True, slots=True, eq=False)
class Slot(Computed):
    """A view of one slot of a buffer."""

    buffer: Buffer
    slot: Value
    USES = ("slot",)


@dataclass(frozen=True, slots=True, eq=False)
class Fix:
    """An item of a subscript that fixes an axis."""

    index: Value


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An item of a subscript that keeps part of an axis; None for the end of the axis and for step 1."""

    start: Value | None
    stop: Value | None
    step: Value | None


@dataclass(frozen=True, slots=True, eq=False)
class Index(Computed):
    """Part of a view or tile: one item for each axis, None for a whole one."""

    base: Value
    items: tuple[Fix | Part | None, ...]
    outside: bool
    USES = ("base", "item_values")

    @property
    def item_values(self) -> tuple[Value | None, ...]:
        """The values in the items, in order."""
        out: list[Value | None] = []
        for item in self.items:
            if isinstance(item, Fix):
                out.append(item.index)
            elif isinstance(item, Part):
                out += [item.start, item.stop, item.step]
        return tuple(out)


@dataclass(frozen=True, slots=True, eq=False)
class Permute(Computed):
    """Axes in another order."""

    base: Value
    order: tuple[int, ...]
    USES = ("base",)


@dataclass(frozen=True, slots=True, eq=False)
class Reshape(Computed):
    """Other extents over the same elements."""

    base: Value
    extents: tuple[Value, ...]
    USES = ("base", "extents")


@dataclass(frozen=True, slots=True, eq=False)
class ExtentOf(Computed):
    """The extent of an axis."""

    base: Value
    axis: int
    USES = ("base",)


@dataclass(frozen=True, slots=True, eq=False)
class Element(Computed):
    """One element as a scalar."""

    base: Value
    indices: tuple[Value, ...]
    USES = ("base", "indices")


@dataclass(frozen=True, slots=True, eq=False)
class SetElement(Node):
    """Write one element."""

    base: Value
    indices: tuple[Value, ...]
    value: Value
    USES = ("base", "indices", "value")


@dataclass(frozen=True, slots=True, eq=False)
class Write(Node):
    """`view[...] = value`: a tile or a scalar into a view of L1."""

    view: Value
    value: Value
    USES = ("view", "value")


# in place


@dataclass(frozen=True, slots=True, eq=False)
class Mma(Node):
    """target += a @ b."""

    target: Value | Variable
    a: Value
    b: Value
    USES = ("target", "a", "b")


@dataclass(frozen=True, slots=True, eq=False)
class Scatter(Node):
    """target[index[i]] = values[i] along an axis, or += with `add`."""

    target: Value | Variable
    index: Value
    values: Value
    axis: int
    add: bool
    USES = ("target", "index", "values")


# vectors


@dataclass(frozen=True, slots=True, eq=False)
class VectorLoad(Computed):
    """128 bytes of a view, from an element."""

    view: Value
    index: Value
    USES = ("view", "index")


@dataclass(frozen=True, slots=True, eq=False)
class VectorStore(Node):
    """128 bytes to a view, from an element."""

    view: Value
    index: Value
    vector: Value
    USES = ("view", "index", "vector")


@dataclass(frozen=True, slots=True, eq=False)
class VectorSplat(Computed):
    """One value in all lanes."""

    value: Value
    USES = ("value",)


@dataclass(frozen=True, slots=True, eq=False)
class VectorIota(Computed):
    """0, 1, 2, ... in the lanes."""


# transfers


@dataclass(frozen=True, slots=True, eq=False)
class Load(Computed):
    """A tile with what lies at `source`."""

    source: Value
    pad: Value | None
    USES = ("source", "pad")


@dataclass(frozen=True, slots=True, eq=False)
class Transfer(Computed):
    """Start a copy; the result is its event. `waits`: go on when it is complete."""

    destination: Value
    source: Value
    pad: Value | None
    clip: bool
    after: Value | None
    channel: int | Channel | None
    waits: bool
    USES = ("destination", "source", "pad", "after")


@dataclass(frozen=True, slots=True, eq=False)
class Memset(Computed):
    """Start filling a view; the result is the event."""

    destination: Value
    value: Value
    after: Value | None
    channel: int | Channel | None
    waits: bool
    USES = ("destination", "value", "after")


@dataclass(frozen=True, slots=True, eq=False)
class Store(Node):
    """A tile or view to a view; the compiler chooses when to wait."""

    destination: Value
    source: Value
    clip: bool
    USES = ("destination", "source")


@dataclass(frozen=True, slots=True, eq=False)
class Wait(Node):
    """Until a transfer is complete."""

    event: Value
    USES = ("event",)


@dataclass(frozen=True, slots=True, eq=False)
class WaitAll(Node):
    """Until all transfers of the thread are complete."""


# other threads, the outside


@dataclass(frozen=True, slots=True, eq=False)
class Atomic(Computed):
    """An atomic operation on one element; the result is the old value."""

    name: str
    target: Value
    value: Value
    expected: Value | None
    USES = ("target", "value", "expected")


@dataclass(frozen=True, slots=True, eq=False)
class AtomicTile(Node):
    """Add a tile atomically."""

    target: Value
    tile: Value
    USES = ("target", "tile")


@dataclass(frozen=True, slots=True, eq=False)
class Barrier(Node):
    """Wait for the threads of the block, or of the grid."""

    grid: bool


@dataclass(frozen=True, slots=True, eq=False)
class Assert(Node):
    """A fault unless the condition holds."""

    condition: Value
    message: str
    USES = ("condition",)


@dataclass(frozen=True, slots=True, eq=False)
class Print(Node):
    """One line of output; `format` has a {} for each value."""

    format: str
    values: tuple[Value, ...]
    USES = ("values",)


@dataclass(frozen=True, slots=True, eq=False)
class Breakpoint(Node):
    """Stop under a debugger."""


# variables and control


@dataclass(frozen=True, slots=True, eq=False)
class Read(Computed):
    """What a variable holds now."""

    variable: Variable


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Node):
    """A variable's new value; `first` where the variable begins."""

    variable: Variable
    value: Value
    first: bool
    USES = ("value",)


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    """One of two blocks."""

    condition: Value
    then: Block
    otherwise: Block
    USES = ("condition",)


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Node):
    """`head` computes the condition before each round; `step` runs after each."""

    head: Block
    condition: Value
    body: Block
    step: Block
    USES = ("condition",)


@dataclass(frozen=True, slots=True, eq=False)
class Range(Node):
    """The counter from start to stop by steps, of a known sign; the body runs for each."""

    counter: Variable
    start: Value
    stop: Value
    step: Value
    down: bool
    body: Block
    USES = ("start", "stop", "step")


@dataclass(frozen=True, slots=True, eq=False)
class Inline(Node):
    """The body of a called function; Return in it goes to its end."""

    function: str
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Break(Node):
    """Leave the innermost loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Node):
    """To the next round of the innermost loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Return(Node):
    """End the innermost inlined function, or the kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel as it was built; lists are in the order of construction."""

    name: str
    where: Where
    target: Target
    parameters: tuple[Parameter, ...]
    buffers: tuple[Buffer, ...]
    body: Block
    values: int  # values are numbered below this
    constexprs: dict[str, int | float | bool | str]


def uses(node: Node) -> list[Value | Variable]:
    """The values (and variables changed in place) that a node uses, in order; not those inside its blocks."""
    out: list[Value | Variable] = []
    for name in node.USES:
        used = getattr(node, name)
        if isinstance(used, tuple):
            out += [value for value in used if value is not None]
        elif used is not None:
            out.append(used)
    return out


def blocks(node: Node) -> tuple[Block, ...]:
    """The blocks inside of a node, in order of evaluation."""
    match node:
        case If():
            return (node.then, node.otherwise)
        case Loop():
            return (node.head, node.body, node.step)
        case Range() | Inline():
            return (node.body,)
        case Logical():
            return (node.block,)
    return ()
