"""Counters of a launch, by name: the vendor's counter tool's words where it has them, plain ones elsewhere.

All are modelled: they come from the launch's timing, and hold for the part it was timed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from topspti.errors import PtiError, launch_timing, shown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tops_kit.engine.report import LaunchTiming


@dataclass(frozen=True, slots=True)
class Metric:
    """What a counter says, its unit ("ratio" is 0 to 1), and how it follows from a launch's timing."""

    name: str
    unit: str
    meaning: str
    of: Callable[[LaunchTiming], float]


def _of_running(timing: LaunchTiming, column: str) -> npt.NDArray[np.int64]:
    return timing.result.of_sips(column)[timing.result.of_sips("threads") > 0]


def _share_of(column: str) -> Callable[[LaunchTiming], float]:
    def share(timing: LaunchTiming) -> float:
        busy = _of_running(timing, column)
        return float(busy.sum()) / max(len(busy) * timing.cycles, 1)

    return share


def _busy(timing: LaunchTiming) -> npt.NDArray[np.float64]:
    """Share of the launch that each SIP ran threads: all but before its first one and after its last."""
    idle = _of_running(timing, "launch") + _of_running(timing, "tail")
    return 1.0 - idle / max(timing.cycles, 1)


def _moved(timing: LaunchTiming, source: str, to: str) -> float:
    return float(sum(n for (a, b), n in timing.moved.items() if source in ("", a) and to in ("", b)))


def _stalled(cause: str) -> Callable[[LaunchTiming], float]:
    return lambda timing: float(timing.stalls()[cause])


_SHARES: Final = {
    "SIP/1D_EFFICIENCY": ("vector_busy", "vector units were busy"),
    "SIP/2D_EFFICIENCY": ("matrix_busy", "matrix units were busy"),
    "SIP/SCALAR_EFFICIENCY": ("scalar", "scalar units issued"),
    "SIP/DTE_BUSY": ("dte_busy", "something was under way by DTE"),
}

_TABLE: Final = (
    Metric("duration_ns", "ns", "how long the launch took by itself", lambda t: float(t.ns)),
    Metric("cycles", "cycles", "the same in cycles of the part", lambda t: float(t.cycles)),
    Metric("SIP/BUSY", "ratio", "share that SIPs with threads ran them", lambda t: float(_busy(t).mean())),
    Metric("SIP/BUSY.min", "ratio", "of the SIP with the least", lambda t: float(_busy(t).min())),
    Metric("SIP/BUSY.max", "ratio", "of the SIP with the most", lambda t: float(_busy(t).max())),
    *(Metric(name, "ratio", f"share that {what}", _share_of(key)) for name, (key, what) in _SHARES.items()),
    Metric("sips_used", "SIPs", "SIPs that ran threads", lambda t: float(t.roofline.sips_used)),
    Metric("instructions", "count", "instructions issued", lambda t: float(sum(t.instructions.values()))),
    Metric("operations", "count", "operations of all units and types", lambda t: sum(t.operations.values())),
    Metric("flops", "count", "operations on floating-point types", lambda t: t.flops),
    Metric("l3_read_bytes", "bytes", "moved out of L3", lambda t: _moved(t, "L3", "")),
    Metric("l3_write_bytes", "bytes", "moved into L3", lambda t: _moved(t, "", "L3")),
    Metric("l2_read_bytes", "bytes", "moved out of L2", lambda t: _moved(t, "L2", "")),
    Metric("l2_write_bytes", "bytes", "moved into L2", lambda t: _moved(t, "", "L2")),
    Metric(
        "bytes_l1_by_units", "bytes", "read and written in L1 by units", lambda t: float(t.result.l1_bytes)
    ),
    Metric("l3_bytes_per_s", "bytes/s", "of L3, both ways", lambda t: t.roofline.l3_bytes_per_s),
    Metric("use_l3", "ratio", "of L3's peak", lambda t: t.roofline.use["L3"]),
    Metric("operations_per_s", "1/s", "operations of all units", lambda t: t.roofline.operations_per_s),
    Metric("roof_achieved", "ratio", "of what the part could reach here", lambda t: t.roofline.achieved),
    *(
        Metric(f"stall_{cause}_cycles", "cycles", f"scalar units waited: {cause}", _stalled(cause))
        for cause in ("dma", "vector", "matrix", "queue", "barrier", "atomic")
    ),
)

METRICS: Final[Mapping[str, Metric]] = MappingProxyType({metric.name: metric for metric in _TABLE})


def metric_values(timing: LaunchTiming, names: tuple[str, ...] | None = None) -> dict[str, float]:
    """The counters of a launch, all or some. Raises PtiError: no timing, or no such counter."""
    if not isinstance(timing, launch_timing()):
        raise PtiError(f"a launch's timing is Launch.timing, not {shown(timing)}")
    for name in () if names is None else names:
        if not isinstance(name, str) or name not in METRICS:
            raise PtiError(f"no metric {shown(name)}: topspti.METRICS has them all")
    return {name: METRICS[name].of(timing) for name in (METRICS if names is None else names)}
