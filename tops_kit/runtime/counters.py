"""Counters of launches for a session: launches with the same counters share one set, told once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from topstx.recorder import layout, rows
from topstx.recorder.rows import RowWriter

if TYPE_CHECKING:
    from tops_kit.engine.report import LaunchTiming

_MOST = 1 << 16  # sets that are remembered; what comes then is told again


class Counters:
    """Numbers of the sets of counters of one process. `metrics` says which counters: METRICS_*, bits."""

    def __init__(self, writer: RowWriter, metrics: int) -> None:
        self._writer = writer
        self._metrics = metrics
        self._known: dict[bytes, int] = {}
        self._told = 0
        self._metric = rows.KINDS[rows.KIND_KERNEL_METRIC]
        self._line = rows.KINDS[rows.KIND_KERNEL_LINE]

    def of(self, activity: Any) -> int:
        """The number of a launch's counters, which are written when they are new; 0: it was not timed."""
        result = getattr(activity.launch, "result", None)
        if result is None or result.times is None or result.counts is None:
            return 0
        times = result.times
        digest = hashlib.blake2b(activity.full_name.encode("utf-8", "surrogatepass"), digest_size=16)
        for part in (times.sip, times.pc, times.channel, times.moved, times.flops, result.counts):
            digest.update(part.tobytes())
        key = digest.digest()
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= _MOST:
            self._known.clear()
        self._told += 1
        number = self._known[key] = self._told
        self._tell(number, activity, activity.launch.report)
        return number

    def _tell(self, number: int, activity: Any, timing: LaunchTiming) -> None:
        writer, correlation_id = self._writer, activity.correlation_id
        intern = writer.intern
        for counter, value in counters(timing, self._metrics):
            body = self._metric.body.pack(value, number, intern(counter))
            writer.write(self._metric.number | layout.ROW_LATE, 0, 0, activity.name, body, correlation_id)
        if not self._metrics & layout.METRICS_LINES:
            return
        for line in timing.lines:
            file = intern(line.place.path)
            for counter, value in _of_line(line):
                body = self._line.body.pack(value, number, intern(counter), file, line.place.line)
                writer.write(self._line.number | layout.ROW_LATE, 0, 0, activity.name, body, correlation_id)


def counters(timing: LaunchTiming, metrics: int) -> Iterator[tuple[str, float]]:
    """(name, value) of a launch's counters, over all SIPs, of the sets that `metrics` has. Names carry units
    where they are not plain counts.
    """
    yield "cycles", float(timing.cycles)
    yield "duration_ns", float(timing.ns)
    yield "blocks", float(timing.blocks)
    yield "block_threads", float(timing.block_threads)
    if metrics & layout.METRICS_ROOFLINE:
        roofline = timing.roofline
        yield "flops", timing.flops
        for dtype, operations in timing.operations.items():
            yield f"operations_{dtype}", float(operations)
        yield "operations_per_s", roofline.operations_per_s
        yield "peak_operations_per_s", roofline.peak_operations_per_s
        yield "roof_operations_per_s", roofline.roof_operations_per_s
        yield "l3_bytes_per_s", roofline.l3_bytes_per_s
        yield "peak_l3_bytes_per_s", roofline.peak_l3_bytes_per_s
        yield "roof_achieved", roofline.achieved
        if roofline.intensity is not None:
            yield "intensity_operations_per_byte", roofline.intensity
        yield "sips_used", float(roofline.sips_used)
        yield "sips", float(roofline.sips)
        for resource, share in roofline.use.items():
            yield f"use_{_word(resource)}", float(share)
        yield f"bound_{roofline.kind}", 1.0
        yield f"bound_by_{_word(roofline.bound)}", 1.0
    if metrics & layout.METRICS_MEMORY:
        for (source, to), moved in timing.moved.items():
            yield f"bytes_{_word(source)}_to_{_word(to)}", float(moved)
        yield "bytes_l1_by_units", float(timing.result.l1_bytes)
        yield "transfers", float(timing.result.transfers)
        for channel in timing.channels():
            yield f"dte_{channel['channel']:.0f}_busy_cycles", float(channel["busy"])
            yield f"dte_{channel['channel']:.0f}_bytes", float(channel["bytes"])
    if metrics & layout.METRICS_STALLS:
        for column in ("scalar", "vector_busy", "matrix_busy", "dte_busy"):
            yield f"{column}_cycles", float(timing.result.of_sips(column).sum())
        for cause, cycles in timing.stalls().items():
            yield f"stall_{cause}_cycles", float(cycles)
        for group, count in timing.instructions.items():
            yield f"instructions_{_word(group)}", float(count)


def _of_line(line: Any) -> Iterator[tuple[str, float]]:
    yield "cycles", float(line.cycles)
    yield "cost_cycles", float(line.cost)
    yield "issued", float(line.issued)
    yield "scalar_cycles", float(line.scalar_cycles)
    yield "blamed_cycles", float(line.blamed)
    yield "unit_cycles", float(line.unit_cycles)
    if line.bytes:
        yield "bytes", float(line.bytes)
    for cause, cycles in line.stalls.items():
        yield f"stall_{cause}_cycles", float(cycles)


def _word(name: str) -> str:
    return name.lower().replace(" ", "_")
