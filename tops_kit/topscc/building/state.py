"""What the builder knows while it builds: open blocks, what variables hold, what was computed before."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from tops_kit.isa.dtypes import BOOL, F32, I32
from tops_kit.topscc import tree
from tops_kit.topscc.building.affine import Affine
from tops_kit.topscc.building.facts import limits, smaller_pairs
from tops_kit.topscc.diagnostics import KernelError, Where
from tops_kit.topscc.kinds import AtMost, Extent, Kind, ScalarKind, TileKind, ViewKind, bound_of
from tops_kit.topscc.target import Target
from tops_kit.topscc.tree import Block, Computed, Constant, Node, Value, Variable
from tops_kit.topscc.words import Words

BOOL_KIND = ScalarKind(BOOL)
I32_KIND = ScalarKind(I32)
F32_KIND = ScalarKind(F32)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a variable holds at a point: `version` is new whenever it may have changed.

    `kind` is the variable's, with what is known of its extents here; `value` the scalar it was last assigned,
    if known.
    """

    version: int
    kind: Kind
    value: Value | None = None


_MAX_TERMS = 16  # of a sum, and how deep minima are followed: long unrolled code is not looked through
_MAX_MINIMA = 6

State = dict[Variable, Holding]  # the variables that certainly have a value


@dataclass(frozen=True, slots=True)
class Counting:
    """What a range loop counts: `counter` by steps; `variable` is what the source sees of it."""

    counter: Variable
    variable: Variable
    start: Value
    stop: Value
    step: Value
    down: bool


@dataclass(slots=True)
class Frame:
    """An open control construct, with the states that leave it by a jump."""

    kind: str  # "if", "else", "loop", "range", "inline", "logical"
    where: Where
    before: State
    dead_before: bool
    condition: Value | None = None  # of an if or loop
    first: Block = ()  # the then side, or the loop's head
    body: Block | None = None  # of a loop, once it is closed
    facts: list[Affine] = field(default_factory=list)  # what is known at the end of the then side
    aside: State | None = None  # the state after the then side (None: it is never left), or at a loop's exit
    counting: Counting | None = None  # of a range
    function: str = ""  # of an inlined function
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)
    returns: list[State] = field(default_factory=list)
    assigns: frozenset[Variable] | None = None
    first_variable: int = 0  # variables from this number on belong to the construct


class BuilderState:
    """The lowest layer: emitting nodes, sharing pure ones, following variables through control."""

    def __init__(
        self,
        name: str,
        where: Where,
        target: Target,
        words: Words,
        constexprs: Mapping[str, int | float | bool | str],
    ) -> None:
        self._name = name
        self._where = where
        self._part = target
        self._words = words
        self._constexprs = dict(constexprs)
        self._parameters: list[tree.Parameter] = []
        self._buffers: list[tree.Buffer] = []
        self._open: list[list[Node]] = [[]]
        self._computed: list[dict[Hashable, Value]] = [{}]  # per open block: pure nodes that ran for certain
        self._facts: list[list[Affine]] = [[]]  # per open block: sums that are not greater than 0 in it
        self._most: dict[int, int] = {}  # by the symbol of what a variable holds where paths meet: its bound
        self._definitions: dict[Value, Computed] = {}
        self._affines: dict[Value, Affine] = {}
        self._state: State = {}
        self._known: dict[Value, Value] = {}  # results of Read whose value is known
        self._frames: list[Frame] = []
        self._dead = False
        self._value_numbers = itertools.count(1)
        self._variable_numbers = itertools.count()
        self._versions = itertools.count()
        self._keys = itertools.count()

    # nodes

    def _new(self, kind: Kind) -> Value:
        return Value(next(self._value_numbers), kind)

    def _emit(self, node: Node) -> None:
        """The next node of the block; what can't run is left out, though still checked."""
        if isinstance(node, Computed):
            self._definitions[node.result] = node
        if not self._dead:
            self._open[-1].append(node)

    def _give(self, node: Computed) -> Value:
        self._emit(node)
        return node.result

    def _shared(self, key: Hashable) -> Value | None:
        """The result of an equal pure node that certainly ran before, or None."""
        for computed in reversed(self._computed):
            value = computed.get(key)
            if value is not None:
                return value
        return None

    def _share(self, key: Hashable, node: Computed) -> Value:
        self._computed[-1][key] = node.result
        return self._give(node)

    @staticmethod
    def _key(operand: Value | None) -> Hashable:
        """What makes an operand the same as another."""
        if isinstance(operand, Constant):
            return (operand.kind, type(operand.value), repr(operand.value))
        return operand

    def _open_block(self) -> None:
        self._open.append([])
        self._computed.append({})
        self._facts.append([])

    def _close_block(self) -> Block:
        self._computed.pop()
        self._facts.pop()
        return tuple(self._open.pop())

    @property
    def reachable(self) -> bool:
        """Whether what is built now can run (not after break, continue, return)."""
        return not self._dead

    def _error(
        self, what: str, where: Where, hint: str = "", notes: tuple[tuple[str, Where], ...] = ()
    ) -> KernelError:
        return KernelError(what, where, hint, notes)

    # what is known of integers

    def _constant_int(self, value: Value | None) -> int | None:
        return int(value.value) if isinstance(value, Constant) else None

    def _affine(self, value: Value) -> Affine:
        """A scalar integer as a sum; itself where nothing is known of it."""
        if isinstance(value, Constant):
            return Affine(int(value.value))
        found = self._affines.get(value)
        if found is None:
            found = self._derive(value)
            if len(found.terms) > _MAX_TERMS:
                found = Affine.symbol(value.number)
            self._affines[value] = found
        return found

    def _derive(self, value: Value) -> Affine:
        known = self._known.get(value)
        if known is not None:
            return self._affine(known)
        node = self._definitions.get(value)
        if isinstance(node, tree.Elementwise) and value.kind == I32_KIND:
            operands = node.operands
            if node.name == "add":
                return self._affine(operands[0]).plus(self._affine(operands[1]))
            if node.name == "sub":
                return self._affine(operands[0]).plus(self._affine(operands[1]), -1)
            if node.name == "neg":
                return self._affine(operands[0]).times(-1)
            if node.name == "mul":
                for a, b in (operands, operands[::-1]):
                    factor = self._constant_int(a)
                    if factor is not None:
                        return self._affine(b).times(factor)
        return Affine.symbol(value.number)

    def _least(self, value: Value, depth: int = 0, *, facts: bool = True) -> list[Affine]:
        """Sums that an integer never exceeds: itself first, then what `facts` and minima in it tell."""
        source = self._assigned(value)
        out = [self._affine(value)]
        if facts and depth < _MAX_MINIMA:
            out += limits(out[0], self._all_facts(out[0]))
        node = self._definitions.get(source)
        if isinstance(node, tree.Elementwise) and source.kind == I32_KIND and depth < _MAX_MINIMA:
            out += self._limits(node, depth + 1, facts)
        extent = self._measured(source)
        if isinstance(extent, AtMost) and extent.bound is not None:
            out.append(Affine(extent.bound))
        return list(dict.fromkeys(out))[:_MAX_TERMS]

    def _all_facts(self, sum_: Affine) -> list[Affine]:
        """What is known here, and of the variables in a sum."""
        bounds = [(symbol, self._most[symbol]) for symbol, _ in sum_.terms if symbol in self._most]
        facts = [Affine.symbol(symbol).plus(Affine(-most)) for symbol, most in bounds]
        return [*facts, *itertools.chain.from_iterable(self._facts)]

    def _learn(self, condition: Value, *, holds: bool) -> None:
        """From here to the end of the block a condition holds, or does not."""
        for a, b, by in smaller_pairs(self._definitions, condition, holds=holds):
            self._facts[-1] += [self._affine(a).plus(limit, -1).plus(Affine(by)) for limit in self._least(b)]

    def _greatest(self, value: Value) -> int | None:
        """A number that an integer never exceeds, if one is known."""
        return min((limit.constant for limit in self._least(value) if not limit.terms), default=None)

    def _limits(self, node: tree.Elementwise, depth: int, facts: bool) -> list[Affine]:
        """Sums that the result of arithmetic never exceeds, from those of its operands."""
        if node.name not in ("min", "max", "add", "sub", "mul", "select"):
            return []
        first, second = node.operands[-2:]
        if node.name == "min":
            return self._least(first, depth, facts=facts) + self._least(second, depth, facts=facts)
        if node.name == "mul":
            for a, b in ((first, second), (second, first)):
                factor = self._constant_int(a)
                if factor is not None and factor > 0:
                    return [limit.times(factor) for limit in self._least(b, depth, facts=facts)]
            return []
        left = self._least(first, depth, facts=facts)
        if node.name == "sub":
            return [limit.plus(self._affine(second), -1) for limit in left]
        pairs = [(a, b) for a in left for b in self._least(second, depth, facts=facts)]
        if node.name == "add":
            return [a.plus(b) for a, b in pairs]
        return [Affine(max(a.constant, b.constant), a.terms) for a, b in pairs if a.terms == b.terms]

    def _assigned(self, value: Value) -> Value:
        """The value that a variable was last given, through variables given from one another."""
        while (known := self._known.get(value)) is not None:
            value = known
        return value

    def _measured(self, value: Value) -> Extent | None:
        """The extent that an integer was taken from (`t.shape[0]`); None for others."""
        node = self._definitions.get(self._assigned(value))
        if isinstance(node, tree.ExtentOf) and isinstance(node.base.kind, TileKind | ViewKind):
            return node.base.kind.shape[node.axis]
        return None

    def _distance(self, start: Value, stop: Value) -> Extent:
        """How many elements lie between two indices."""
        origin = self._affine(start)
        for facts in (False, True):  # a bound that is written takes the place of what else is known
            spans = [limit.plus(origin, -1) for limit in self._least(stop, facts=facts)]
            if not spans[0].terms:
                return max(0, spans[0].constant)
            bounds = [span.constant for span in spans if not span.terms]
            if bounds:
                return AtMost(max(0, min(bounds)), ("span", spans[0]))
        return AtMost(None, ("span", spans[0]))

    def _extent_of(self, value: Value) -> Extent:
        """An i32 scalar as an extent: that of another tile where it is one's."""
        measured = self._measured(value)
        if measured is not None:
            return measured
        return self._distance(Constant(0, I32_KIND, 0), value)

    def _unknown(self, bound: int | None) -> AtMost:
        return AtMost(bound, ("unknown", next(self._keys)))

    # variables through control

    def _forget(self, variable: Variable) -> Holding:
        """A variable that may hold anything of its kind."""
        kind = variable.kind
        if isinstance(kind, TileKind | ViewKind):
            shape = tuple(n if isinstance(n, int) else self._unknown(bound_of(n)) for n in kind.shape)
            kind = (
                TileKind(kind.dtype, shape)
                if isinstance(kind, TileKind)
                else ViewKind(kind.dtype, shape, kind.space, kind.outside)
            )
        return Holding(next(self._versions), kind)

    def _merge(self, states: Iterable[State], facts: Sequence[list[Affine]] = ()) -> State:
        """What holds where several paths meet; `facts`: what each of them knows besides."""
        first, *others = states
        if not others:
            return dict(first)
        out: State = {}
        for variable, holding in first.items():
            if all(variable in other for other in others):
                same = all(other[variable].version == holding.version for other in others)
                out[variable] = holding if same else self._forget(variable)
                if not same and variable.kind == I32_KIND:
                    ways = [state[variable] for state in (first, *others)]
                    bounds = [self._bound_of(*way) for way in zip_longest(ways, facts)]
                    self._keep_bound(out[variable], bounds)
        return out

    def _bound_of(self, holding: Holding, facts: list[Affine] | None) -> int | None:
        """What an integer variable holds at most at the end of a path, if that is known."""
        if holding.value is None:
            known = Affine.symbol(-1 - holding.version)
            found = limits(known, [*self._all_facts(known), *(facts or ())])
            return min((limit.constant for limit in found if not limit.terms), default=None)
        self._facts.append(facts or [])
        try:
            return self._greatest(holding.value)
        finally:
            self._facts.pop()

    def _keep_bound(self, holding: Holding, bounds: Iterable[int | None]) -> None:
        known = list(bounds)
        found = [bound for bound in known if bound is not None]
        if len(found) == len(known):
            self._most[-1 - holding.version] = max(found)

    def _join(self, frame: Frame, states: list[State], facts: Sequence[list[Affine]] = ()) -> None:
        """Go on after a construct that is left in these states; none: what follows can't run."""
        self._dead = not states or frame.dead_before
        if states:
            self._state = self._merge(states, facts)
