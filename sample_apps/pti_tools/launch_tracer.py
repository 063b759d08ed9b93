"""Every kernel launch of a program, in the order the device did them, with where its time went.

python launch_tracer.py PROGRAM ARGS
"""

from __future__ import annotations

import atexit
import sys

import topspti
from topspti import ActivityKind

HEADER = f"{'start us':>12} {'us':>10} {'queued us':>10} {'strm':>4} {'call':>6}  kernel"


class LaunchTracer:
    """Records are printed as their buffers come back."""

    def __init__(self) -> None:
        self.launches = self.lost = self.total_ns = 0
        self.client = topspti.activity_register_callbacks(lambda: bytearray(1 << 18), self.complete)
        for kind in (ActivityKind.KERNEL, ActivityKind.RUNTIME):
            self.client.enable(kind)
        # before the program's own: so it comes after the runtime has finished all work
        atexit.register(self.finish)

    def complete(self, buffer: bytearray, valid_bytes: int, dropped: int) -> None:
        """Called by topspti with a full buffer."""
        self.lost += dropped
        for record in topspti.records(buffer, valid_bytes):
            if isinstance(record, topspti.ApiRecord) and record.return_value:
                print(f"{record.name} failed: {record.return_value}", file=sys.stderr)
            elif isinstance(record, topspti.KernelRecord):
                self.show(record)

    def show(self, kernel: topspti.KernelRecord) -> None:
        """One line for a launch."""
        if not self.launches:
            print(HEADER, file=sys.stderr)
        self.launches += 1
        self.total_ns += kernel.duration_ns
        waited = kernel.start_ns - kernel.submit_ns
        shape = f"({kernel.grid_x},{kernel.grid_y},{kernel.grid_z})x({kernel.block_x},{kernel.block_y})"
        node = f" node {kernel.graph_node_id} of graph {kernel.graph_id}" if kernel.graph_id else ""
        print(
            f"{kernel.start_ns / 1e3:12.3f} {kernel.duration_ns / 1e3:10.3f} {waited / 1e3:10.3f} "
            f"{kernel.stream_id:4} {kernel.correlation_id:6}  {kernel.name} {shape}{node}",
            file=sys.stderr,
        )

    def finish(self) -> None:
        """The program has ended, and so has the device's work."""
        topspti.activity_unregister(self.client)
        lost = f", {self.lost} records lost" if self.lost else ""
        print(f"{self.launches} launches, {self.total_ns:,} ns{lost}", file=sys.stderr)


if __name__ == "__main__":
    LaunchTracer()
    sys.exit(topspti.run_program(sys.argv[1:]))
