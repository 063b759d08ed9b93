"""Lowering: a kernel's tree becomes a program.

`analysis` finds out what must be known beforehand; the layers up to `lowering.Lowering` turn nodes into
instructions whose registers have no numbers yet; `liveness` says which of them can share one; `encode` makes
the program.
"""

from __future__ import annotations

from tops_kit.isa.program import Program
from tops_kit.topscc.lower.encode import encode
from tops_kit.topscc.lower.lowering import Lowering
from tops_kit.topscc.memory import MemoryOverflowError
from tops_kit.topscc.tree import Kernel


def lower(kernel: Kernel) -> Program:
    """Compile a tree.

    KernelError when L1 overflows, with the compiler's own tiles, or the program gets too long.
    """
    try:
        return _lower(kernel, two_slots=True)
    except MemoryOverflowError:
        # stores that wait for the one before need one slot where two don't fit
        return _lower(kernel, two_slots=False)


def _lower(kernel: Kernel, *, two_slots: bool) -> Program:
    lowering = Lowering(kernel, two_slots=two_slots)
    lowering.run()
    return encode(lowering)
