"""Device memory that a program never gave back, by the line that asked for it.

python memory_leak_finder.py PROGRAM ARGS
"""

from __future__ import annotations

import sys
from collections import defaultdict

import topspti
from topspti import ActivityKind


def leaks(records: list[topspti.MemoryRecord]) -> dict[int, topspti.MemoryRecord]:
    """What was not freed, by the allocation's number: addresses come back, numbers don't."""
    held: dict[int, topspti.MemoryRecord] = {}
    for record in records:
        if record.operation_name == "alloc":
            held[record.serial] = record
        else:
            held.pop(record.serial, None)
    return held


def report(trace: topspti.Trace) -> None:
    """One line for each place that leaks, the largest first."""
    records = trace.of(topspti.MemoryRecord)
    by_place: dict[str, list[int]] = defaultdict(list)
    for record in leaks(records).values():
        by_place[record.note or "(unknown)"].append(record.bytes)
    peak = max((record.in_use_bytes for record in records), default=0)
    total = sum(map(sum, by_place.values()))
    print(f"device memory: peak {peak:,} bytes, {total:,} bytes never freed", file=sys.stderr)
    for place, sizes in sorted(by_place.items(), key=lambda item: -sum(item[1])):
        print(f"  {sum(sizes):>14,} bytes in {len(sizes):>6,} allocations  {place}", file=sys.stderr)
    if trace.dropped:
        print(f"  {trace.dropped} records were lost: this is not all", file=sys.stderr)


def main() -> int:
    """The program's exit code; 1 where it is 0 and something leaks, so that a script can tell."""
    with topspti.Trace(ActivityKind.MEMORY) as trace:
        code = topspti.run_program(sys.argv[1:])
        trace.client.flush_all()
    if code == 2 and not list(trace):
        return code  # there was no program
    report(trace)
    return code or int(bool(leaks(trace.of(topspti.MemoryRecord))))


if __name__ == "__main__":
    sys.exit(main())
