"""A launch's timing as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tops_kit.engine.timing_result import CAUSES

if TYPE_CHECKING:
    from tops_kit.engine.report.launch_timing import LaunchTiming

_WORDS = {
    "dma": "transfers", "vector": "vector unit", "matrix": "matrix unit", "queue": "a full queue",
    "barrier": "barriers", "atomic": "atomics", "launch": "launch", "tail": "others to end",
}  # fmt: skip
_SHORT = {"dma": "transfer", "queue": "full queue"}  # in the table of lines


def launch_text(timing: LaunchTiming, lines: int) -> str:
    """See LaunchTiming.text."""
    roof = timing.roofline
    threads = f"{timing.blocks} x {timing.block_threads} threads on {roof.sips_used} of {roof.sips} SIPs"
    use = sorted(roof.use.items(), key=lambda item: -item[1])
    used = ", ".join(f"{name} {share:.0%}" for name, share in use if share >= 0.005)
    out = [
        timing.heading,
        f"{timing.kernel}: {timing.cycles:,} cycles, {_time(timing.ns)}; {threads}",
        f"bound by {roof.bound} ({roof.kind}){': ' if used else ''}{used}",
        *([_rates(timing)] if roof.operations_per_s else []),
        *([_moved(timing)] if timing.moved else []),
        _where(timing),
        *(f"note: {note}" for note in timing.notes),
        *_costliest(timing, lines),
    ]
    return "\n".join(out)


def _rates(timing: LaunchTiming) -> str:
    roof = timing.roofline
    peak = f"{_si(roof.peak_operations_per_s)}op/s ({roof.unit} unit, {roof.dtype})"
    intensity = f"{roof.intensity:.3g} op/byte of L3, " if roof.intensity is not None else ""
    return f"{_si(roof.operations_per_s)}op/s of {peak}; {intensity}{roof.achieved:.0%} of the roof"


def _moved(timing: LaunchTiming) -> str:
    roof = timing.roofline
    parts = [
        f"{f'{source} to' if source != 'none' else 'into'} {to} {_si(size)}B"
        for (source, to), size in timing.moved.items()
    ]
    rate = f"L3 at {_si(roof.l3_bytes_per_s)}B/s of {_si(roof.peak_l3_bytes_per_s)}B/s"
    return f"moved: {', '.join(parts)}; {rate}"


def _where(timing: LaunchTiming) -> str:
    lifetime = max(timing.roofline.sips_used * timing.cycles, 1)
    stalls = sorted(timing.stalls().items(), key=lambda item: -item[1])
    parts = [
        f"{_WORDS[cause]} {cycles / lifetime:.0%}" for cause, cycles in stalls if cycles / lifetime >= 0.005
    ]
    issuing = timing.roofline.use["scalar unit"]
    return f"scalar units: issuing {issuing:.0%}, waiting for " + (", ".join(parts) or "nothing")


def _costliest(timing: LaunchTiming, count: int) -> list[str]:
    shown = [line for line in timing.lines[:count] if line.cost]
    if not shown:
        return []
    total = max(sum(line.cost for line in timing.lines), 1)
    rows = [("share", "cost", "issuing", "waited for it", "waited here", "bytes", "line")]
    for line in shown:
        waits = sorted(line.stalls.items(), key=lambda item: (-item[1], CAUSES.index(item[0])))
        waited = f"{waits[0][1]:,} {_SHORT.get(waits[0][0], waits[0][0])}" if waits else "-"
        blamed = f"{line.blamed:,}" if line.blamed else "-"
        moved = f"{_si(line.bytes)}B" if line.bytes else "-"
        where = f"{line.place}  {line.text}".rstrip()
        rows.append(
            (
                f"{line.cost / total:.0%}",
                f"{line.cost:,}",
                f"{line.scalar_cycles:,}",
                blamed,
                waited,
                moved,
                where,
            )
        )
    widths = [max(len(row[k]) for row in rows) for k in range(6)]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[6]])
        for row in rows
    ]


def _si(number: float) -> str:
    """With three digits and a prefix; a space before the unit's letter follows."""
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {prefix}"
    return f"{number:.3g} "


def _time(ns: int) -> str:
    for limit, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= limit:
            return f"{ns / limit:.4g} {unit}"
    return f"{ns} ns"
