"""Sampling of Python programs, beside other profilers in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from benchmarks import python_accuracy, python_cost, python_live
from benchmarks.rows import Row

DESCRIPTION = (
    "sampling Python: cost, rate, accuracy, attach, dump; py-spy, austin, pyinstrument, scalene, ..."
)

PARTS: Final[Mapping[str, Callable[[], Iterator[Row]]]] = {
    "cost": python_cost.rows,
    "accuracy": python_accuracy.rows,
    "live": python_live.rows,
}


def rows() -> Iterator[Row]:
    """All claims; some ten minutes."""
    for part in PARTS.values():
        yield from part()
