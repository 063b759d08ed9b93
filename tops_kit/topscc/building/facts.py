"""What follows for integers from a condition that holds, or does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tops_kit.isa.dtypes import I32
from tops_kit.topscc import tree
from tops_kit.topscc.building.affine import Affine
from tops_kit.topscc.kinds import ScalarKind
from tops_kit.topscc.tree import Computed, Value

OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
_MOST = 16  # sums that are looked at


def smaller_pairs(
    definitions: Mapping[Value, Computed], condition: Value, *, holds: bool
) -> Iterator[tuple[Value, Value, int]]:
    """(a, b, by) for each `a + by <= b` of i32 scalars that a condition tells; `by` is 0 or 1."""
    node = definitions.get(condition)
    if isinstance(node, tree.Logical):
        if holds == (node.name == "and"):
            yield from smaller_pairs(definitions, node.a, holds=holds)
            yield from smaller_pairs(definitions, node.b, holds=holds)
        return
    if not isinstance(node, tree.Elementwise):
        return
    if node.name == "lnot":
        yield from smaller_pairs(definitions, node.operands[0], holds=not holds)
    elif node.name in OPPOSITE and all(operand.kind == ScalarKind(I32) for operand in node.operands):
        name = node.name if holds else OPPOSITE[node.name]
        a, b = node.operands
        if name in ("le", "lt", "eq"):
            yield a, b, int(name == "lt")
        if name in ("ge", "gt", "eq"):
            yield b, a, int(name == "gt")


def limits(value: Affine, facts: Iterable[Affine]) -> list[Affine]:
    """Sums that `value` never exceeds, where no fact is greater than 0."""
    known = list(facts)
    out = [value]
    for sum_ in out:  # grows
        for fact in known if len(out) < _MOST else ():
            for symbol, coefficient in fact.terms:
                times, rest = divmod(dict(sum_.terms).get(symbol, 0), coefficient)
                if times > 0 and not rest:  # value <= value - times * fact, which is free of the symbol
                    limit = sum_.plus(fact, -times)
                    if limit not in out:
                        out.append(limit)
    return out[1:]
