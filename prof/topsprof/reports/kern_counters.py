"""Counters of kernels: rates against the part's peaks, what bounds each, and what it waited for."""

from __future__ import annotations

from topsprof.reports._counters import BY_KERNEL
from topsprof.reports._kernels import with_base
from topsprof.reports.model import Report, column

REPORT = with_base(
    Report(
        "kern_counters",
        "Kernel Counters",
        "Kernels by time, with the counters of their launches. Bound is the kernel's own: memory, "
        "compute, launch (beginning and ending took most of it), or latency (no resource was busy: what "
        "it waited for, Bound By, took its time). Starved is the share of launches for which the device "
        "had nothing to do and whose call took longer than the kernel, outside of graphs: these wait for "
        "the host, whatever bounds the kernel. Op are operations of all types, a multiply-accumulate is "
        "two; Peak is that of the unit and type in which most was done; Roof is what the part could reach "
        "at the kernel's Op/B, operations a byte of L3. Stall is the share of the time of the SIPs in "
        "use. Contention: how much of the time came from sharing with others.",
        requires=("kernel", "kernel_metric"),
        columns=(
            column("Time (%)", "percent"),
            column("Total Time", "time"),
            column("Instances", "count", 4),
            column("Avg Cycles", "count", 6),
            column("Bound", rank=0),
            column("Bound By", rank=2),
            column("Starved (%)", "percent", 1),
            column("Gop/s", "number", 3),
            column("Op Peak (%)", "percent", 4),
            column("L3 GB/s", "number", 3),
            column("L3 Peak (%)", "percent", 4),
            column("Op/B", "number", 7),
            column("Roof (%)", "percent", 2),
            column("Top Stall", rank=1),
            column("Stall (%)", "percent", 1),
            column("SIPs", "number", 6),
            column("SIPs (%)", "percent", 5),
            column("Contention (%)", "percent", 8),
            column("Name"),
        ),
        sql=BY_KERNEL,
        record="topsprof run --metrics roofline,stalls",
    )
)
