"""Kernels by name and launch shape."""

from __future__ import annotations

from collections.abc import Sequence

from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary

_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def _label(keys: Sequence[object]) -> tuple[object, ...]:
    name, *sizes = keys
    return _triple(sizes[:3]), _triple(sizes[3:]), name


def _triple(sizes: Sequence[object]) -> str | None:
    return None if sizes[0] is None else " ".join("1" if size is None else str(size) for size in sizes)


REPORT = time_summary(
    "gcu_kern_gb_sum",
    "GCU Kernel/Grid/Block Summary",
    "Time that kernels ran, by kernel name, grid and block.",
    Source("kernel", ("name", *_SHAPE), _label),
    count="Instances",
    keys=("GridXYZ", "BlockXYZ", "Name"),
)
