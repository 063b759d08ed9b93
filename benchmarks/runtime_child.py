"""What the runtime's benchmark runs in processes of its own; each prints one line `BENCH {...}`.

`python -m benchmarks.runtime_child launch|annotated|python|varied|graph REPETITIONS`: us of CPU for one
launch of a small kernel, the least of bursts. `many COUNT`: launches without a wait; bytes by which the
process's peak grew after the first 20,000.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable

import topstx

import tops_kit as tops

BURST = 500
NODES = 100
_BEFORE = 20_000


@tops.kernel
def tiny(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
    for i in range(0, n, 64):
        tops.store(y[i : i + 64], tops.load(x[i : i + 64]) * 2.0)


class Launches:
    """Bursts of launches of one thread on arrays of the device."""

    def __init__(self) -> None:
        self.x, self.y = tops.zeros(256, "f32"), tops.zeros(256, "f32")
        self.kernel = tiny[1, 1]

    def launch(self, count: int) -> None:
        kernel, x, y = self.kernel, self.x, self.y
        for _ in range(count):
            kernel(x, y, 64)

    def annotated(self, count: int) -> None:
        """Each within a range of its own."""
        kernel, x, y = self.kernel, self.x, self.y
        step = topstx.annotate("step")
        for _ in range(count):
            with step:
                kernel(x, y, 64)

    def varied(self, count: int) -> None:
        """No launch like the one before it, of seven sorts."""
        kernel, x, y = self.kernel, self.x, self.y
        for k in range(count):
            kernel(x, y, 32 * (k % 7))

    def graph(self, count: int) -> None:
        """As nodes of a graph of many launches."""
        for _ in range(count // NODES):
            self.replayed.launch()

    def capture(self) -> None:
        stream = tops.Stream()
        with stream:
            stream.begin_capture()
            self.launch(NODES)
            self.replayed = stream.end_capture().instantiate()


def least(burst: Callable[[int], None], repetitions: int) -> float:
    """Microseconds of CPU for one launch; the wait for a burst's end is not counted."""
    best = 1 << 62
    for _ in range(repetitions):
        begin = time.thread_time_ns()
        burst(BURST)
        best = min(best, time.thread_time_ns() - begin)
        tops.synchronize()
    return best / BURST / 1e3


def many(count: int) -> int:
    """Bytes by which the peak grew."""
    launches = Launches()
    launches.annotated(_BEFORE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    launches.annotated(count - _BEFORE)
    tops.synchronize()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def main(mode: str, number: int) -> dict[str, float]:
    """What one mode measures."""
    if mode == "many":
        return {"grown_bytes": many(number)}
    launches = Launches()
    if mode == "python":
        from tops_kit.runtime import launcher

        launcher.described = lambda *_: None  # nothing is learned: all launches go the long way
    if mode == "graph":
        launches.capture()
    burst = launches.launch if mode == "python" else getattr(launches, mode)
    for _ in range(4):
        burst(BURST)
        tops.synchronize()
    gc.disable()
    return {"us": least(burst, number)}


if __name__ == "__main__":
    print("BENCH", json.dumps(main(sys.argv[1], int(sys.argv[2]))))
