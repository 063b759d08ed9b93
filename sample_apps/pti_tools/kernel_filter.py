"""Counters and the costliest source lines of those kernels whose name matches; all others cost nothing.

python kernel_filter.py [-k REGEX] PROGRAM ARGS
"""

from __future__ import annotations

import argparse
import atexit
import re
import sys
from collections import Counter, defaultdict

import topspti
from topspti import ActivityKind

METRICS = (
    "cycles",
    "SIP/BUSY",
    "SIP/1D_EFFICIENCY",
    "SIP/2D_EFFICIENCY",
    "use_l3",
    "roof_achieved",
)
LINES = 5


def report(trace: topspti.Trace) -> None:
    """For each kernel: its launches, time, counters (means), and lines with their top reason to wait."""
    trace.close()
    kernels = {each.grid_id: each for each in trace.of(topspti.KernelRecord)}
    metrics: dict[tuple[str, str], list[float]] = defaultdict(list)
    for metric in trace.of(topspti.KernelMetricRecord):
        metrics[kernels[metric.grid_id].name, metric.metric].append(metric.value)
    samples: dict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    reasons: dict[tuple[str, tuple[str, int]], Counter[str]] = defaultdict(Counter)
    for each in trace.of(topspti.PcSamplingRecord):
        name, line = kernels[each.grid_id].name, (each.file, each.line)
        samples[name][line] += each.samples
        reasons[name, line][each.stall_reason] += each.samples
    for name in dict.fromkeys(each.name for each in kernels.values()):
        launches = [each for each in kernels.values() if each.name == name]
        print(
            f"{name}: {len(launches)} launches, {sum(e.duration_ns for e in launches):,} ns", file=sys.stderr
        )
        for metric in METRICS:
            values = metrics[name, metric]
            if values:
                print(f"  {metric:<22} {sum(values) / len(values):>14,.3f}", file=sys.stderr)
        total = samples[name].total()
        for (file, line), count in samples[name].most_common(LINES):
            reason = reasons[name, (file, line)].most_common(1)[0][0]
            place = f"{file}:{line}" if line else "(no line)"
            print(f"  {100 * count / total:5.1f} % {reason:<10} {place}", file=sys.stderr)
    if not kernels:
        print("no kernel matched", file=sys.stderr)


def main() -> int:
    """The program's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, usage="kernel_filter.py [-k REGEX] PROGRAM ARGS")
    parser.add_argument("-k", "--kernel", default="", help="kernels whose full name has a match for this")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    wanted = re.compile(options.kernel)
    trace = topspti.Trace(ActivityKind.KERNEL, ActivityKind.KERNEL_METRIC, ActivityKind.PC_SAMPLING)
    trace.client.filter_kernels(lambda name: wanted.search(name) is not None)
    trace.client.choose_metrics(METRICS)
    atexit.register(report, trace.__enter__())  # after the runtime has finished all work
    return topspti.run_program(options.program)


if __name__ == "__main__":
    sys.exit(main())
