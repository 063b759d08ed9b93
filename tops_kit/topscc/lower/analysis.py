"""What lowering must know of a tree beforehand: who uses a value, where variables change, what is dead."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from tops_kit.topscc import tree
from tops_kit.topscc.kinds import ScalarKind, TileKind, VectorKind, ViewKind
from tops_kit.topscc.tree import Block, Computed, Constant, Kernel, Node, Value, Variable

# nodes that only compute: without a user they are left out, and they may run later than they stand
PURE = (
    tree.Elementwise, tree.Reduce, tree.Cumsum, tree.Gather, tree.Matmul, tree.Full, tree.Iota,
    tree.CopyTile, tree.Special, tree.Slot, tree.Index, tree.Permute, tree.Reshape, tree.ExtentOf,
    tree.Element,    tree.VectorLoad, tree.VectorSplat, tree.VectorIota, tree.Read,
)  # fmt: skip
_VIEWS = (tree.Slot, tree.Index, tree.Permute, tree.Reshape)
_PARTS = (tree.Index, tree.Permute, tree.Reshape)
_STARTS = (tree.Transfer, tree.Memset, tree.Atomic)  # results that are written by what acts on other memory
_JUMPED = ("lt", "le", "gt", "ge", "eq", "ne", "lnot")


@dataclass(slots=True, eq=False)
class Place:
    """Where a node stands: its number in order of evaluation; blocks and loops around it, outermost first."""

    position: int
    blocks: tuple[int, ...]
    loops: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Analysis:
    """Facts about one kernel."""

    kernel: Kernel
    definition: dict[Value, Computed] = field(default_factory=dict)
    users: dict[Value, list[Node]] = field(default_factory=dict)
    place: dict[Node, Place] = field(default_factory=dict)
    end: dict[Node, int] = field(
        default_factory=dict
    )  # of loops: the position of what runs last in each round
    head_end: dict[Node, int] = field(default_factory=dict)
    changes: dict[Variable, list[Node]] = field(default_factory=dict)  # Assign, Range, Mma, Scatter
    change_positions: dict[Variable, list[int]] = field(default_factory=dict)
    all_blocks: list[tuple[Block, Value | None, Node | None]] = field(default_factory=list)
    dead: set[Node] = field(default_factory=set)
    later: dict[Value, Node] = field(default_factory=dict)  # values computed where their only user stands
    parameters: dict[Value, tree.Parameter] = field(default_factory=dict)
    _position: int = 0
    _blocks: int = 0
    _roots: dict[Value, frozenset[object]] = field(default_factory=dict)

    def run(self) -> Analysis:
        """Work everything out."""
        self.parameters = {p.holds: p for p in self.kernel.parameters if isinstance(p.holds, Value)}
        self._walk(self.kernel.body, (), (), None, None)
        self._bury()
        for block, final, owner in self.all_blocks:
            self._postpone(block, final, owner)
        for block, _, _ in self.all_blocks:
            self._adopt(block)
        return self

    def _next(self) -> int:
        self._position += 1
        return self._position

    def _walk(
        self,
        block: Block,
        blocks: tuple[int, ...],
        loops: tuple[Node, ...],
        final: Value | None,
        owner: Node | None,
    ) -> None:
        self._blocks += 1
        blocks = (*blocks, self._blocks)
        self.all_blocks.append((block, final, owner))
        users = self.users
        for node in block:
            self.place[node] = Place(self._next(), blocks, loops)
            if isinstance(node, Computed):
                self.definition[node.result] = node
            for used in tree.uses(node):
                if isinstance(used, Variable):
                    self._changed(used, node, self._position)
                elif not isinstance(used, Constant):
                    users.setdefault(used, []).append(node)
            match node:
                case tree.Assign():
                    self._changed(node.variable, node, self._position)
                case tree.If():
                    self._walk(node.then, blocks, loops, None, None)
                    self._walk(node.otherwise, blocks, loops, None, None)
                case tree.Inline():
                    self._walk(node.body, blocks, loops, None, None)
                case tree.Logical():
                    self._walk(node.block, blocks, loops, node.b, node)
                case tree.Loop():
                    inside = (*loops, node)
                    self._walk(node.head, blocks, inside, node.condition, node)
                    self.head_end[node] = self._next()
                    self._walk(node.body, blocks, inside, None, None)
                    self._walk(node.step, blocks, inside, None, None)
                    self.end[node] = self._next()
                case tree.Range():
                    self._changed(node.counter, node, self._position)
                    self._walk(node.body, blocks, (*loops, node), None, None)
                    self._changed(node.counter, node, self._next())
                    self.end[node] = self._next()

    def _changed(self, variable: Variable, node: Node, position: int) -> None:
        self.changes.setdefault(variable, []).append(node)
        self.change_positions.setdefault(variable, []).append(position)

    # nodes without a use

    def _bury(self) -> None:
        """Find pure nodes whose results nobody needs."""
        users = self.users
        waiting = [
            node for value, node in self.definition.items() if isinstance(node, PURE) and value not in users
        ]
        while waiting:
            node = waiting.pop()
            self.dead.add(node)
            for used in tree.uses(node):
                if isinstance(used, Variable | Constant):
                    continue
                left = users[used]
                left.remove(node)
                if not left:
                    del users[used]
                    source = self.definition.get(used)
                    if source is not None and isinstance(source, PURE):
                        waiting.append(source)

    # values computed where they are used

    def _postpone(self, block: Block, final: Value | None, owner: Node | None) -> None:
        """Find the values that are best computed into the place where their only user wants them."""
        alive = [node for node in block if node not in self.dead]
        index = {node.result: number for number, node in enumerate(alive) if isinstance(node, Computed)}
        for number, node in enumerate(alive):
            for value in _wanted(node):
                self._try(value, node, alive, index, number)
        if final is not None and owner is not None:
            self._try(final, owner, alive, index, len(alive))

    def _try(self, value: Value, user: Node, alive: list[Node], index: dict[Value, int], number: int) -> None:
        at = index.get(value)
        if at is None or len(self.users[value]) != 1:
            return
        node = alive[at]
        between = alive[at + 1 : number]
        if isinstance(user, tree.Element | tree.SetElement):
            fits = isinstance(node, tree.Index) and all(isinstance(item, tree.Fix) for item in node.items)
        elif isinstance(user, tree.Assign):
            fits = isinstance(node, (*PURE, tree.Load, *_STARTS)) and not isinstance(
                node, tree.Read | tree.Special
            )
            if isinstance(node, tree.Clock):
                fits = not between
        elif isinstance(user, tree.Write):
            fits = (
                isinstance(value.kind, TileKind)
                and isinstance(node, PURE)
                and not isinstance(node, tree.Read)
            )
        elif isinstance(node, tree.Logical):
            fits = not between
        else:
            fits = isinstance(node, tree.Elementwise) and node.name in _JUMPED
        if isinstance(node, _STARTS):
            fits = fits and all(_is_scalar_or_view(other) for other in between)
        if not fits or not all(isinstance(other, (*PURE, tree.Load)) for other in between):
            return
        self.later[value] = user
        if isinstance(node, tree.Elementwise) and node.name == "lnot" and isinstance(value.kind, ScalarKind):
            self._try(node.operands[0], node, alive, index, number)
        if isinstance(node, tree.Logical):
            self._try(node.a, node, alive, index, at)

    def _adopt(self, block: Block) -> None:
        """Let variables hold values that others need as well: for `j = i + n`, while j stays, i + n is j."""
        index: dict[Value, int] = {}
        alive = [node for node in block if node not in self.dead]
        for number, node in enumerate(alive):
            if isinstance(node, tree.Elementwise) and isinstance(node.result.kind, ScalarKind | VectorKind):
                index[node.result] = number
            if not isinstance(node, tree.Assign):
                continue
            value, at = node.value, index.get(node.value)
            if at is None or value in self.later:
                continue
            if not all(isinstance(other, (*PURE, tree.Load)) for other in alive[at + 1 : number]):
                continue
            here = self.place[node].position
            others = [user for user in self.users[value] if user is not node]
            if all(self.use_position(user, value)[0] > here for user in others):
                changes = self.change_positions[node.variable]
                following = bisect_right(changes, here)
                if following == len(changes) or changes[following] >= self.last_use(value):
                    self.later[value] = node

    # positions

    def use_position(self, user: Node, value: Value) -> tuple[int, tuple[Node, ...]]:
        """When a user reads a value, and the loops around that."""
        while isinstance(user, Computed) and user.result in self.later:
            value, user = user.result, self.later[user.result]
        place = self.place[user]
        if isinstance(user, tree.Loop):
            return self.head_end[user], (*place.loops, user)
        if isinstance(user, tree.Range) and value in (user.stop, user.step):
            return self.end[user], (*place.loops, user)
        if isinstance(user, tree.Logical) and value is user.b:
            inner = self.place[user.block[-1]] if user.block else place
            return inner.position, place.loops
        return place.position, place.loops

    def last_use(self, value: Value) -> int:
        """The last position at which a value may be read, also in later rounds of loops."""
        defined = self.place[self.definition[value]]
        last = defined.position
        for user in self.users.get(value, ()):
            position, loops = self.use_position(user, value)
            if len(loops) > len(defined.loops):
                position = self.end[loops[len(defined.loops)]]
            last = max(last, position)
            if isinstance(user, _PARTS) and isinstance(value.kind, TileKind | ViewKind):
                last = max(last, self._last_use_of_part(user.result, defined))
        return last

    def _last_use_of_part(self, part: Value, defined: Place) -> int:
        last = 0
        for user in self.users.get(part, ()):
            position, loops = self.use_position(user, part)
            if len(loops) > len(defined.loops):
                position = self.end[loops[len(defined.loops)]]
            last = max(last, position)
            if isinstance(user, _PARTS):
                last = max(last, self._last_use_of_part(user.result, defined))
        return last

    def changes_before_last_use(self, node: tree.Read) -> bool:
        """Whether the variable changes while somebody still needs what was read."""
        positions = self.change_positions.get(node.variable, [])  # they ascend
        following = bisect_right(positions, self.place[node].position)
        return following < len(positions) and positions[following] < self.last_use(node.result)

    def may_follow(self, first: Node, second: Node) -> bool:
        """Whether `second` may run after `first`."""
        a, b = self.place[first], self.place[second]
        return a.position < b.position or bool(set(a.loops) & set(b.loops))

    # memory

    def roots(self, value: Value) -> frozenset[object]:
        """What memory a view may lie in: parameters, buffers, variables (tiles), values (tiles)."""
        found = self._roots.get(value)
        if found is not None:
            return found
        self._roots[value] = frozenset()  # a view variable may be assigned from itself
        node = self.definition.get(value)
        out: frozenset[object]
        if value in self.parameters:
            out = frozenset((self.parameters[value],))
        elif isinstance(node, tree.Slot):
            out = frozenset((node.buffer,))
        elif isinstance(node, _PARTS):
            out = self.roots(node.base)
        elif isinstance(node, tree.Read):
            if isinstance(value.kind, ViewKind):
                sources = [c.value for c in self.changes.get(node.variable, ()) if isinstance(c, tree.Assign)]
                out = frozenset(root for source in sources for root in self.roots(source))
            else:
                out = frozenset((node.variable,))
        else:
            out = frozenset((value,))
        self._roots[value] = out
        return out

    def nodes(self) -> Iterator[Node]:
        """All nodes that are needed."""
        return (node for node in self.place if node not in self.dead)


def _wanted(node: Node) -> tuple[Value, ...]:
    """The values that a node takes best when they are computed for it."""
    match node:
        case tree.Assign() | tree.Write():
            return (node.value,)
        case tree.If() | tree.Assert():
            return (node.condition,)
        case tree.Logical():
            return (node.a,)
        case tree.Element() | tree.SetElement():
            return (node.base,) if not node.indices else ()
    return ()


def _is_scalar_or_view(node: Node) -> bool:
    if isinstance(node, (*_VIEWS, tree.Read, tree.Special, tree.ExtentOf)):
        return True
    return isinstance(node, tree.Elementwise) and isinstance(node.result.kind, ScalarKind)
