"""All device work by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topsprof.reports._kernels import FULL
from topsprof.reports._operations import MEMCPY, MEMSET
from topsprof.reports.model import Source
from topsprof.reports.shapes import time_summary


def _in(
    category: str, label: Callable[[Sequence[object]], tuple[object, ...]]
) -> Callable[[Sequence[object]], tuple[object, ...]]:
    return lambda keys: (category, *label(keys))


KERNELS = Source("kernel", FULL.group, _in("KERNEL", FULL.label))
MEMORY = (
    Source("memcpy", MEMCPY.group, _in("MEMORY_OPER", MEMCPY.label)),
    Source("memset", MEMSET.group, _in("MEMORY_OPER", MEMSET.label)),
)
CALLS = Source("api", ("name",), _in("API", tuple))

REPORT = time_summary(
    "gcu_sum",
    "GCU Summary (Kernels/MemOps)",
    "Kernels, copies and fills together, by name.",
    KERNELS,
    *MEMORY,
    count="Instances",
    keys=("Category", "Operation"),
)
