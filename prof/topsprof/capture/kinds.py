"""What -t, --metrics and the kernel filters ask of programs, as the control file of a session says it."""

from __future__ import annotations

import re
from typing import Final

from topstx.recorder import layout, rows

from tops_kit.errors import UserError

TX: Final = (layout.KIND_RANGE, layout.KIND_MARK, layout.KIND_COUNTER)

TRACE_KINDS: Final[dict[str, tuple[int, ...]]] = {
    "topstx": TX,
    "runtime": (rows.KIND_API, rows.KIND_EXTERNAL),
    "driver": (rows.KIND_DRIVER_API,),
    "kernel": (
        rows.KIND_KERNEL,
        rows.KIND_KERNEL_METRIC,
        rows.KIND_KERNEL_LINE,
        rows.KIND_PRINT,
        rows.KIND_STREAM_RACE,
    ),
    "memory": (rows.KIND_MEMCPY, rows.KIND_MEMSET, rows.KIND_MEMORY),
    "memcpy": (rows.KIND_MEMCPY,),
    "memset": (rows.KIND_MEMSET,),
    "sync": (rows.KIND_SYNC, rows.KIND_GCU_EVENT),
    "graph": (rows.KIND_GRAPH, rows.KIND_HOST_FUNCTION, rows.KIND_GRAPH_NODE),
    "python": (layout.KIND_CALL, layout.KIND_CALLS_SKIPPED),
    "osrt": (rows.KIND_OSRT, rows.KIND_OSRT_SHORT),
    "pymem": (rows.KIND_PYMEM,),
    "system": (),  # read from outside
}
"""Names of -t that can be recorded, and the records that each switches on. Others are always recorded."""

DEFAULT_TRACES: Final = ("topstx", "runtime", "kernel", "memory", "sync", "graph")

METRICS: Final = {
    "roofline": layout.METRICS_ROOFLINE,
    "memory": layout.METRICS_MEMORY,
    "stalls": layout.METRICS_STALLS,
    "per-line": layout.METRICS_LINES,
}

BACKTRACE_FRAMES: Final = 32
_REGEX_BYTES: Final = 511


def rows_off(traces: tuple[str, ...]) -> int:
    """The kinds of records that these names leave out, as bits; no names: every kind there is."""
    every = {kind for kinds in TRACE_KINDS.values() for kind in kinds}
    if not traces:
        every.update(rows.KINDS)
    on = {kind for name in traces for kind in TRACE_KINDS[name]}
    return sum(1 << kind for kind in every - on)


def metric_bits(text: str | None) -> int:
    """The checked list of --metrics: names separated by commas, or all. Raises UserError."""
    bits = 0
    for word in filter(None, (part.strip().lower() for part in (text or "").split(","))):
        if word == "none":
            continue
        if word == "all":
            bits |= sum(METRICS.values())
        elif word in METRICS:
            bits |= METRICS[word]
        else:
            raise UserError(f"--metrics {word}: unknown; there are {', '.join(METRICS)} and all")
    return bits


def kernel_regex(option: str, text: str | None) -> str:
    """A checked regular expression for names of kernels; "" for none. Raises UserError."""
    if not text:
        return ""
    try:
        re.compile(text)
    except re.error as error:
        raise UserError(f"{option} {text!r} is no regular expression: {error}") from None
    if len(text.encode("utf-8", "surrogateescape")) > _REGEX_BYTES:
        raise UserError(f"{option}: the expression is longer than {_REGEX_BYTES} bytes")
    return text
