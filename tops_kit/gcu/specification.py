"""A part: how many of what, how fast, and how long things take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from tops_kit.gcu.figures import BY_NAME, FIELDS, Figure

# what-if: each resource's figures, and whether more of it makes the figure larger (1) or smaller (-1)
_SPEEDS: dict[str, tuple[tuple[str, int], ...]] = {
    "clock": (("clock_hz", 1),),
    "scalar": (("scalar_issue_cycles", -1),),
    "queue": (("queue_depth", 1),),
    "vector": (("vector_ops_per_cycle", 1), ("vector_startup_cycles", -1)),
    "matrix": (("macs_per_cycle", 1), ("matrix_startup_cycles", -1)),
    "channels": (("dte_channels", 1), ("dte_queue_depth", 1)),
    "latency": (("dte_latency_cycles", -1),),
    "port": (("port_bytes_per_cycle", 1),),
    "l2": (("l2_bytes_per_cycle", 1),),
    "cluster_l3": (("cluster_l3_bytes_per_cycle", 1),),
    "l3": (("l3_bytes_per_s", 1),),
    "synchronisation": (("barrier_cycles", -1), ("grid_barrier_cycles", -1), ("atomic_cycles", -1)),
    "launch": (("launch_cycles", -1), ("block_dispatch_cycles", -1)),
    "host": (("host_launch_ns", -1), ("host_api_ns", -1)),
    "pcie": (("pcie_bytes_per_s", 1), ("pcie_latency_ns", -1)),
    "link": (("link_bytes_per_s", 1), ("link_latency_ns", -1)),
    # what is stated in cycles follows the clock
    "everything": (
        ("clock_hz", 1), ("l3_bytes_per_s", 1), ("host_launch_ns", -1), ("host_api_ns", -1),
        ("pcie_bytes_per_s", 1), ("pcie_latency_ns", -1), ("link_bytes_per_s", 1), ("link_latency_ns", -1),
    ),
}  # fmt: skip
RESOURCES = tuple(_SPEEDS)


@dataclass(frozen=True, eq=False)
class Specification:
    """A part of the simulated device; units stand in the names, sources in `figures()`.

    Rates of the vector unit count 128-byte operations, those of the matrix unit multiply-accumulates; both
    by the type of their inputs. A "port" is what a SIP's DTE can move in and out of its L1.
    """

    name: str  # "s60"
    title: str  # "S60"
    architecture: str  # "gcu300"
    clusters: int
    sips_per_cluster: int
    clock_hz: int
    vf_slots: int
    power_w: int
    l1_bytes: int
    scalar_issue_cycles: int
    queue_depth: int
    vector_ops_per_cycle: Mapping[str, float]
    vector_startup_cycles: int
    macs_per_cycle: Mapping[str, float]
    matrix_startup_cycles: int
    dte_channels: int
    dte_queue_depth: int
    dte_latency_cycles: Mapping[str, int]
    port_bytes_per_cycle: float
    l2_bytes: int
    l2_reserved_bytes: int
    l2_bytes_per_cycle: float
    cluster_l3_bytes_per_cycle: float
    l3_bytes: int
    l3_bytes_per_s: int
    barrier_cycles: int
    grid_barrier_cycles: int
    atomic_cycles: Mapping[str, int]
    launch_cycles: int
    block_dispatch_cycles: int
    host_launch_ns: int
    host_api_ns: int
    pcie_bytes_per_s: int
    pcie_latency_ns: int
    link_bytes_per_s: int
    link_latency_ns: int
    sources: Mapping[str, str]  # by the figure's name

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes and copies: views of mappings can't be pickled, the mappings can."""
        values = [getattr(self, field.name) for field in fields(self)]
        return _specification, tuple(dict(one) if isinstance(one, Mapping) else one for one in values)

    @property
    def sips(self) -> int:
        """SIPs of the whole part."""
        return self.clusters * self.sips_per_cluster

    @property
    def l2_usable_bytes(self) -> int:
        """L2 of a cluster that kernels can have."""
        return self.l2_bytes - self.l2_reserved_bytes

    @property
    def l3_bytes_per_cycle(self) -> float:
        """L3's bandwidth in bytes a cycle, shared by all clusters."""
        return self.l3_bytes_per_s / self.clock_hz

    def vector_rate(self, dtype: str) -> float:
        """128-byte operations a cycle of one SIP on elements of a type."""
        return self.vector_ops_per_cycle[{"u8": "i8", "bool": "i8"}.get(dtype, dtype)]

    def matrix_rate(self, dtype: str) -> float:
        """Multiply-accumulates a cycle of one SIP for inputs of a type."""
        return self.macs_per_cycle[{"i32": "f32", "i16": "f32", "u8": "i8", "bool": "i8"}.get(dtype, dtype)]

    def nanoseconds(self, cycles: float) -> int:
        """How long so many cycles take, to the nearest ns."""
        return int(cycles * 1e9 / self.clock_hz + 0.5)

    def figures(self) -> tuple[Figure, ...]:
        """Every figure with its unit and source, in the order of the file."""
        out: list[Figure] = []
        for field in FIELDS:
            value = getattr(self, field.name)
            values = {f"{field.name}.{key}": value[key] for key in field.keys} or {field.name: value}
            out += [Figure(name, number, field.unit, self.sources[name]) for name, number in values.items()]
        return tuple(out)

    def assumed(self) -> int:
        """How many of the figures nothing public states."""
        return sum(figure.assumed for figure in self.figures())

    @property
    def heading(self) -> str:
        """What stands over every table and chart of modelled times."""
        return f"modelled on {self.name}: {self.assumed()} of {len(self.figures())} figures assumed"

    @property
    def hash(self) -> str:
        """16 hex digits that change with any value, and with nothing else."""
        values = {figure.name: float(figure.value) for figure in self.figures()}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

    def scaled(self, **factors: float) -> Specification:
        """The part with so many times more of some RESOURCES: `scaled(l3=2)`, `scaled(everything=3)`.

        Times are divided; whole figures are rounded, and all stay within what makes sense. Raises ValueError
        for an unknown resource or a factor that is not positive.
        """
        values: dict[str, Any] = {}
        sources = dict(self.sources)
        for resource, factor in factors.items():
            if resource not in _SPEEDS:
                raise ValueError(f"no resource {resource!r}: one of {', '.join(RESOURCES)}")
            if not factor > 0:
                raise ValueError(f"{resource} times {factor}: a factor is greater than 0")
            for name, power in _SPEEDS[resource]:
                old = values.get(name, getattr(self, name))
                values[name] = _times(name, old, factor, power)
                for figure in [key for key in sources if key.split(".")[0] == name]:
                    sources[figure] = f"what if: {resource} x{factor:g}; {sources[figure]}"
        what = ", ".join(f"{resource} x{factor:g}" for resource, factor in factors.items())
        name = f"{self.name} ({what})" if what else self.name
        return replace(self, name=name, sources=MappingProxyType(sources), **values)


def _times(name: str, value: Any, factor: float, power: int) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType({key: _times(name, number, factor, power) for key, number in value.items()})
    field = BY_NAME[name]
    number = value * factor if power > 0 else value / factor
    number = round(number) if field.whole else number
    return min(max(number, field.least), field.most)


def _specification(*values: Any) -> Specification:
    """A part that was pickled."""
    wrapped: list[Any] = [MappingProxyType(one) if isinstance(one, dict) else one for one in values]
    return Specification(*wrapped)
