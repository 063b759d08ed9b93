"""Whether a part can run a launch: threads of a block, blocks of a cooperative grid, memories."""

from __future__ import annotations

import math

from tops_kit.engine.options import Extents
from tops_kit.gcu import Specification
from tops_kit.isa.program import Program

MAX_THREADS = 1 << 24  # of a launch, in both machines


def check_limits(
    program: Program, spec: Specification, grid: Extents, block: Extents, *, cooperative: bool
) -> None:
    """ValueError, in one line, when the part can't run it. `cooperative`: threads meet at grid barriers."""
    threads, blocks = math.prod(block), math.prod(grid)
    if threads > spec.sips_per_cluster:
        raise ValueError(
            f"a block of {threads} threads: a cluster of {spec.name} has {spec.sips_per_cluster} SIPs"
        )
    for memory, needed, there in (
        ("L1", program.l1_bytes, spec.l1_bytes),
        ("L2", program.l2_bytes, spec.l2_bytes - spec.l2_reserved_bytes),
    ):
        if needed > there:
            raise ValueError(f"the kernel needs {needed:,} bytes of {memory}: {spec.name} has {there:,}")
    at_once = spec.clusters * (spec.sips_per_cluster // threads)
    if cooperative and blocks > at_once:
        raise ValueError(
            f"a grid barrier needs all {blocks} blocks at once: "
            f"{spec.name} holds {at_once} of {threads} threads"
        )
