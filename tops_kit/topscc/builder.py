"""Building a kernel's tree: one method for each thing a kernel can do, with its checks.

A front end calls these in the order in which the source evaluates; every call takes the place in the source
it stands for. Wrong types, shapes, slots, memory spaces raise `KernelError` at that place.

Operands are `Value`s or Python numbers. A Python number is a weak literal: it takes the type of the other
operand (an i32, f32 or bool on its own), and operations on numbers alone are computed at once and give
numbers, so a front end passes constexpr values as they are.

Scalars are i32, f32 or bool: i32 with f32 gives f32, bool counts as i32 in arithmetic. Tiles and vectors of
different element types never mix (cast one); a scalar beside a tile takes the tile's type, but a float with
an int tile is refused. A tile operand may be a tile or a view of L1.

Views refer to memory: who reads a view later sees what was written meanwhile. Tiles are values.

    b = Builder("double", where, target=S60)
    x = b.pointer("x", F32, 1, where)
    part = b.index(x, [Slice(0, 64)], where)
    b.store(part, b.binary("mul", b.load(part, where), 2.0, where), where)
    kernel = b.finish(where)

The methods stand in the layers of `topscc.building`, each of which adds one subject:

- views: pointer, scalar, buffer, slot, index, permute, transpose, reshape, extent, element, set_element,
  write
- arithmetic: unary, binary, compare, select, fma, cast, truth
- tiles: full, iota, copy_tile, reduce, cumsum, gather, scatter, matmul, mma
- variables: declare, assign, read, has_value
- control: begin_if, begin_else, end_if, begin_loop, loop_condition, begin_step, end_loop, begin_range,
  end_range, break_, continue_, begin_inline, return_, end_inline, reachable, logical, conditional, assert_
- transfers: load, transfer, copy, store, memset, no_event, wait, wait_all
- threads: atomic, atomic_add_tile, barrier, grid_barrier, special, clock, print_, breakpoint_
- vectors: vector_load, vector_store, vector_splat, vector_iota
"""

from __future__ import annotations

from collections.abc import Mapping

from tops_kit.topscc.building.values import Item, Operand, Slice
from tops_kit.topscc.building.vectors import VectorBuilder
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.memory import check_buffers
from tops_kit.topscc.target import S60, Target
from tops_kit.topscc.tree import Kernel
from tops_kit.topscc.words import Words

__all__ = ["Builder", "Item", "Operand", "Slice"]


class Builder(VectorBuilder):
    """Builds one kernel."""

    def __init__(
        self,
        name: str,
        where: Where,
        *,
        target: Target = S60,
        constexprs: Mapping[str, int | float | bool | str] | None = None,
        words: Words | None = None,
    ) -> None:
        """`constexprs` are only written down in the program; `words` spells hints (default: TopsKit's)."""
        super().__init__(name, where, target, words or Words(), constexprs or {})

    def finish(self, where: Where) -> Kernel:
        """The kernel's tree, for `topscc.lower.lower(kernel)`; checks the sizes of L1 and L2 buffers."""
        if self._frames:
            raise RuntimeError(f"{where}: {self._frames[-1].kind} of {self._frames[-1].where} is still open")
        check_buffers(self._buffers, self._part)
        (body,) = self._open
        return Kernel(
            self._name,
            self._where,
            self._part,
            tuple(self._parameters),
            tuple(self._buffers),
            tuple(body),
            next(self._value_numbers),
            self._constexprs,
        )
