"""How a launch is to be run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from tops_kit.gcu import Specification

Mode = Literal["fast", "counted", "timed", "sanitized", "debug"]
MODES: tuple[Mode, ...] = ("fast", "counted", "timed", "sanitized", "debug")  # in the C machine's order

Extents = tuple[int, int, int]


def usable_cores() -> int:
    """The cores that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Options:
    """What `launch` was asked for; see there. `grid` and `block` have three extents here."""

    grid: Extents
    block: Extents
    mode: Mode
    host_threads: int
    budget_s: float
    defer: bool
    spec: Specification | None = None
    intervals: bool = False
    events: bool = False


def three(extents: tuple[int, ...]) -> Extents:
    """Extents of a grid or a block filled up to three axes. ValueError: none, too many, or not positive."""
    if not 1 <= len(extents) <= 3 or min(extents) < 1:
        raise ValueError(f"a grid or block has 1 to 3 positive extents, not {extents}")
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z
