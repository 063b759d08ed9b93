"""Slices of a device (virtual functions): 1, 2 or 4 equal shares that see nothing of each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tops_kit.gcu.specification import Specification

COUNTS = (1, 2, 4)


@dataclass(frozen=True)
class Profile:
    """A way to divide a device: how many slices, and what each has."""

    slices: int
    clusters: int
    sips_per_cluster: int
    memory_bytes: int
    bandwidth_bytes_per_s: int

    @property
    def sips(self) -> int:
        """SIPs of a slice."""
        return self.clusters * self.sips_per_cluster


def profiles(spec: Specification) -> tuple[Profile, ...]:
    """The ways in which a part can be divided: as many slices as it has virtual functions, of whole SIPs."""
    out = []
    for count in COUNTS:
        shape = _shape(spec, count)
        if count <= spec.vf_slots and shape:
            out.append(Profile(count, *shape, spec.l3_bytes // count, spec.l3_bytes_per_s // count))
    return tuple(out)


def slice_specification(spec: Specification, number: int, count: int) -> Specification:
    """The part that a program on slice `number` of `count` sees: its share of everything that is shared.

    Figures of a SIP stay; a slice of less than a cluster has that share of the cluster's L2.
    """
    shape = _shape(spec, count)
    if not 0 <= number < count or not shape:
        raise ValueError(f"{spec.name} has no slice {number} of {count}")
    clusters, sips_per_cluster = shape
    of_cluster = sips_per_cluster / spec.sips_per_cluster
    values: dict[str, Any] = {"clusters": clusters, "sips_per_cluster": sips_per_cluster, "vf_slots": 1}
    for name in ("l2_bytes", "l2_reserved_bytes", "l2_bytes_per_cycle"):
        values[name] = type(getattr(spec, name))(getattr(spec, name) * of_cluster)
    for name in ("l3_bytes", "l3_bytes_per_s", "pcie_bytes_per_s", "link_bytes_per_s", "power_w"):
        values[name] = getattr(spec, name) // count
    if count > 1:
        # alone in its cluster or not, a slice has no more of L3 than its share
        most = values["l3_bytes_per_s"] / spec.clock_hz
        values["cluster_l3_bytes_per_cycle"] = min(spec.cluster_l3_bytes_per_cycle * of_cluster, most)
    sources = dict(spec.sources)
    for name in [name for name, value in values.items() if value != getattr(spec, name)]:
        sources[name] = f"slice {number} of {count}; {sources[name]}"
    return replace(
        spec,
        name=f"{spec.name} ({_title(number, count)})",
        title=f"{spec.title} ({_title(number, count)})",
        sources=MappingProxyType(sources),
        **values,
    )


def first_sip(spec: Specification, number: int, count: int) -> int:
    """The device's SIP at which a slice begins; slices lie one after another, cluster by cluster."""
    return number * (spec.sips // count)


def _title(number: int, count: int) -> str:
    return f"slice {number} of {count}"


def _shape(spec: Specification, count: int) -> tuple[int, int] | None:
    """Clusters and SIPs a cluster of a slice; None where it does not come out even."""
    if spec.clusters % count == 0:
        return spec.clusters // count, spec.sips_per_cluster
    if count % spec.clusters == 0 and spec.sips_per_cluster % (count // spec.clusters) == 0:
        return 1, spec.sips_per_cluster // (count // spec.clusters)
    return None
