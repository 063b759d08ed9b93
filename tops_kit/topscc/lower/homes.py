"""Where the compiler keeps tiles: L1 of their own, and what is waited for before they are written again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tops_kit.isa.dtypes import DType
from tops_kit.topscc import tree
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import Shape, TileKind, bound_of
from tops_kit.topscc.lower.analysis import Analysis
from tops_kit.topscc.lower.code import Register
from tops_kit.topscc.tree import Node, Value, Variable

Key: TypeAlias = Value | Variable  # whose home it is


@dataclass(slots=True, eq=False)
class Site:
    """A place in the source where a tile goes out without a wait: the event of its last run.

    `older`, of homes with two slots: the event of the run before, which used the other slot. `waited`: the
    compiler waits for it at barriers and at the end; else the kernel's author does.
    """

    node: Node
    newer: Register
    older: Register | None
    waited: bool
    roots: frozenset[object]  # the arrays it goes to
    chain: Register | None = None  # the event of the last store to these arrays, of any site


@dataclass(slots=True, eq=False)
class Home:
    """L1 for a tile: `register` is its view. One that is not `kept` shares memory with others in turns."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    where: Where
    register: Register
    kept: bool
    dynamic: bool  # extents may be less than `shape`
    number: int = -1  # of its buffer
    slots: int = 1
    slot: Register | None = None  # with two slots: the one in use
    sites: list[Site] = field(default_factory=list)
    writes: list[Node] = field(default_factory=list)  # what changes a variable's tile


def bounds(shape: Shape) -> tuple[int, ...]:
    """The most that each extent can be."""
    out = []
    for extent in shape:
        bound = bound_of(extent)
        if bound is None:
            raise ValueError(f"a tile of {shape} without a bound")
        out.append(bound)
    return tuple(out)


def sent_out(analysis: Analysis) -> dict[Key, list[tuple[Node, bool]]]:
    """Whose tiles go out without an immediate wait: (node, whether the compiler waits for it).

    A store is not awaited at once when it goes to arrays in L3 that the kernel never loads.
    """
    loaded: set[object] = set()
    for node in analysis.nodes():
        match node:
            case tree.Load() | tree.Transfer() | tree.Store():
                loaded |= analysis.roots(node.source)
            case tree.Atomic() | tree.AtomicTile():
                loaded |= analysis.roots(node.target)
    out: dict[Key, list[tuple[Node, bool]]] = {}
    for node in analysis.nodes():
        if isinstance(node, tree.Store) and isinstance(node.source.kind, TileKind):
            roots = analysis.roots(node.destination)
            if roots and all(isinstance(root, tree.Parameter) and root not in loaded for root in roots):
                out.setdefault(_owner(analysis, node.source), []).append((node, True))
        elif isinstance(node, tree.Transfer) and not node.waits:
            for root in analysis.roots(node.source):
                if isinstance(root, Value | Variable):
                    out.setdefault(_owner(analysis, node.source), []).append((node, False))
    return out


def _owner(analysis: Analysis, source: Value) -> Key:
    """Whose home a tile, or a part of one, lies in."""
    node = analysis.definition.get(source)
    while isinstance(node, tree.Index | tree.Permute | tree.Reshape):
        source = node.base
        node = analysis.definition.get(source)
    if isinstance(node, tree.Read) and not analysis.changes_before_last_use(node):
        return node.variable
    return source


def must_wait(analysis: Analysis, site: Node, write: Node, writes: list[Node]) -> bool:
    """Whether a write may be the first one to a home after a transfer that reads it was started.

    It is not when every way from the transfer to it passes another write: one in a block around it, between
    them.
    """
    start, goal = analysis.place[site], analysis.place[write]

    def blocked(after: int) -> bool:
        for other in writes:
            place = analysis.place[other]
            if after < place.position < goal.position and goal.blocks[: len(place.blocks)] == place.blocks:
                return True
        return False

    if start.position < goal.position and not blocked(start.position):
        return True
    common = [loop for loop in goal.loops if loop in start.loops]
    return any(not blocked(analysis.place[loop].position) for loop in common)
