"""What the compiler needs to know of the part it compiles for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A part: its name, and how much memory a thread (L1) and a block (L2) have, in bytes."""

    name: str
    l1_bytes: int
    l2_bytes: int


# the S60's sizes; who has a specification makes the target from it
S60 = Target("s60", 1536 << 10, 60 << 20)
