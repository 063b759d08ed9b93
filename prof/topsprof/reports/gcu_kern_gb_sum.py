"""Kernels by name and launch shape."""

from __future__ import annotations

from collections.abc import Sequence

from topsprof.reports._kernels import BASE, FULL
from topsprof.reports.model import Report, Source
from topsprof.reports.shapes import time_summary

_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def _shaped(source: Source) -> Source:
    """The source, its groups told apart by grid and block."""

    def label(keys: Sequence[object]) -> tuple[object, ...]:
        name, *sizes = source.label(keys)
        return _triple(sizes[:3]), _triple(sizes[3:]), name

    return Source(source.table, (*source.group, *_SHAPE), label)


def _triple(sizes: Sequence[object]) -> str | None:
    return None if sizes[0] is None else " ".join("1" if size is None else str(size) for size in sizes)


def _report(source: Source, **variants: Report) -> Report:
    return time_summary(
        "gcu_kern_gb_sum",
        "GCU Kernel/Grid/Block Summary",
        "Time that kernels ran, by kernel name, grid and block; argument `base`: by the short name.",
        _shaped(source),
        count="Instances",
        keys=("GridXYZ", "BlockXYZ", "Name"),
        variants=variants,
    )


REPORT = _report(FULL, base=_report(BASE))
