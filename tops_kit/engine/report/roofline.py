"""What bounds a launch: how busy each resource was, and how near it came to the part's peaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tops_kit.engine.timing_result import CAUSES, MEMORIES, TimingResult
from tops_kit.gcu import Specification
from tops_kit.isa.dtypes import DTYPES, VECTOR_BYTES

_L1, _L2, _L3 = 1, 2, 3
_KINDS = {
    "matrix unit": "compute",
    "vector unit": "compute",
    "scalar unit": "compute",
    "SIP port": "memory",
    "L2": "memory",
    "cluster link": "memory",
    "L3": "memory",
}
_BUSY = 0.6  # from this share on a resource is what bounds a launch


@dataclass(frozen=True)
class Roofline:
    """Achieved and peak rates of a launch.

    `use`: share of its peak that each resource was used (units and ports: of the SIPs that ran threads, until
    the launch's end). `bound` is the resource or cause that bounds the launch, `kind` "compute", "memory",
    "latency" (neither is busy: what is waited for takes its time) or "overhead" (launch and tail).
    `operations_per_s` of all types, against `peak_operations_per_s` of the `unit` and `dtype` in which most
    was done (a multiply-accumulate is two); `l3_bytes_per_s` against its peak. `intensity`: operations a byte
    of L3, None without L3 traffic; `roof_operations_per_s` what the part could reach at it.
    """

    kind: str
    bound: str
    use: Mapping[str, float]
    sips_used: int
    sips: int
    unit: str
    dtype: str
    operations_per_s: float
    peak_operations_per_s: float
    l3_bytes_per_s: float
    peak_l3_bytes_per_s: float
    intensity: float | None
    roof_operations_per_s: float

    @property
    def achieved(self) -> float:
        """Share of the roof that was reached."""
        return self.operations_per_s / self.roof_operations_per_s if self.roof_operations_per_s else 0.0


def roofline(spec: Specification, result: TimingResult) -> Roofline:
    """From a launch's times."""
    cycles = max(result.cycles, 1)
    used = max(int((result.of_sips("threads") > 0).sum()), 1)
    through = _through(result)
    clusters = max(_clusters_used(spec, result), 1)
    use = {
        "matrix unit": int(result.of_sips("matrix_busy").sum()) / (used * cycles),
        "vector unit": int(result.of_sips("vector_busy").sum()) / (used * cycles),
        "scalar unit": int(result.of_sips("scalar").sum()) / (used * cycles),
        "SIP port": through["SIP port"] / (used * cycles * spec.port_bytes_per_cycle),
        "L2": through["L2"] / (clusters * cycles * spec.l2_bytes_per_cycle),
        "cluster link": through["L3"] / (clusters * cycles * spec.cluster_l3_bytes_per_cycle),
        "L3": through["L3"] / (cycles * spec.l3_bytes_per_cycle),
    }
    kind, bound = _bound(result, use, used * cycles)
    unit, dtype = _most_done(result)
    seconds = cycles / spec.clock_hz
    operations = float(result.flops.sum())
    peak = _peak(spec, unit, dtype)
    intensity = operations / through["L3"] if through["L3"] else None
    roof = peak if intensity is None else min(peak, intensity * spec.l3_bytes_per_s)
    return Roofline(
        kind, bound, use, used, spec.sips, unit, dtype, operations / seconds, peak,
        through["L3"] / seconds, float(spec.l3_bytes_per_s), intensity, roof,
    )  # fmt: skip


def _through(result: TimingResult) -> dict[str, int]:
    """Bytes that passed each resource: twice where both ends are in the same memory."""
    out = {"SIP port": 0, "L2": 0, "L3": 0}
    for source in range(len(MEMORIES)):
        for to in range(len(MEMORIES)):
            moved = int(result.moved[source, to])
            if _L1 in (source, to):
                out["SIP port"] += moved
            out["L2"] += moved * ((source == _L2) + (to == _L2))
            out["L3"] += moved * ((source == _L3) + (to == _L3))
    return out


def _clusters_used(spec: Specification, result: TimingResult) -> int:
    threads = result.of_sips("threads").reshape(spec.clusters, spec.sips_per_cluster)
    return int(threads.any(axis=1).sum())


def _bound(result: TimingResult, use: Mapping[str, float], lifetime: int) -> tuple[str, str]:
    """The busiest resource; where none is busy, what most time went to."""
    busiest = max(use, key=lambda name: use[name])
    if use[busiest] >= _BUSY:
        return _KINDS[busiest], busiest
    running = result.of_sips("threads") > 0
    lost = {cause: int(result.of_sips(cause)[running].sum()) for cause in ("launch", "tail", *CAUSES)}
    overhead = lost.pop("launch") + lost.pop("tail")
    worst = max(lost, key=lambda cause: lost[cause])
    if overhead >= max(lost[worst], lifetime // 2):
        return "overhead", "launch and tail"
    if worst in ("vector", "matrix", "queue") or lost[worst] < lifetime * use[busiest]:
        return _KINDS[busiest], busiest
    return "latency", {"dma": "transfers", "barrier": "barriers", "atomic": "atomics"}[worst]


def _most_done(result: TimingResult) -> tuple[str, str]:
    unit, dtype = divmod(int(result.flops.argmax()), result.flops.shape[1])
    return ("vector", "matrix")[unit], DTYPES[dtype].name


def _peak(spec: Specification, unit: str, dtype: str) -> float:
    """Operations a second of the whole part."""
    size = next(t.size_bytes for t in DTYPES if t.name == dtype)
    a_cycle = (
        spec.matrix_rate(dtype) if unit == "matrix" else spec.vector_rate(dtype) * (VECTOR_BYTES // size)
    )
    return 2 * a_cycle * spec.sips * spec.clock_hz
