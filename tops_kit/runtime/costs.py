"""How long copies and fills take alone, and what they move: closed forms over a part's figures."""

from __future__ import annotations

from tops_kit.gcu import Specification


def bus_ns(spec: Specification, size_bytes: int) -> int:
    """A transfer between host and device: a round trip, then the bytes at the bus's rate."""
    return spec.pcie_latency_ns + _at(size_bytes, spec.pcie_bytes_per_s)


def local_copy_ns(spec: Specification, size_bytes: int) -> int:
    """A copy within a device's memory: each byte is read and written."""
    return _latency_ns(spec) + _at(2 * size_bytes, spec.l3_bytes_per_s)


def fill_ns(spec: Specification, size_bytes: int) -> int:
    """A fill of a device's memory."""
    return _latency_ns(spec) + _at(size_bytes, spec.l3_bytes_per_s)


def has_link(first: Specification, second: Specification) -> bool:
    """Whether two devices have a link between them; else their copies go over the bus, through the host."""
    return first.link_bytes_per_s > 0 and second.link_bytes_per_s > 0


def peer_copy_ns(source: Specification, target: Specification, size_bytes: int) -> int:
    """A copy between devices: over their link, else up one bus and down the other at once."""
    if has_link(source, target):
        rate = min(source.link_bytes_per_s, target.link_bytes_per_s)
        return max(source.link_latency_ns, target.link_latency_ns) + _at(size_bytes, rate)
    rate = min(source.pcie_bytes_per_s, target.pcie_bytes_per_s)
    return source.pcie_latency_ns + target.pcie_latency_ns + _at(size_bytes, rate)


def launch_ns(spec: Specification) -> int:
    """What a launch takes at least: all that is known of one that was not timed."""
    return spec.nanoseconds(spec.launch_cycles + spec.block_dispatch_cycles)


def _latency_ns(spec: Specification) -> int:
    return spec.nanoseconds(spec.dte_latency_cycles["l3"])


def _at(size_bytes: int, bytes_per_s: int) -> int:
    return -(-size_bytes * 1_000_000_000 // bytes_per_s)
