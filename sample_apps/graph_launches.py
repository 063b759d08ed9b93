"""A step of many small kernels, launched one by one: each launch costs the host more than the device.

topsprof run --stats -- python graph_launches.py        # then the same with graph_replay.py
"""

from __future__ import annotations

import argparse

import numpy as np
import topstx

import tops_kit as tops

SIZES = {"small": (10, 8), "medium": (50, 16), "large": (200, 16)}  # steps, kernels in each
N = 24_576
THREADS = tops.device_properties()["sips"]


@tops.kernel
def smooth(x: tops.ptr(), y: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 1024):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        v = tops.load(x[i:j])
        tops.store(y[i:j], v - 0.01 * v * v * v)


def step(x: tops.Array, y: tops.Array, kernels: int) -> None:
    for _ in range(kernels // 2):
        smooth[THREADS](x, y, N)
        smooth[THREADS](y, x, N)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    steps, kernels = SIZES[parser.parse_args().size]
    start = np.linspace(-1, 1, N, dtype=np.float32)

    x, y = tops.asarray(start), tops.empty(N)
    smooth[THREADS].prepare(x, y, N)  # compiled before the time is taken
    begin = tops.now_ns()
    for _ in range(steps):
        with topstx.annotate("step"):
            step(x, y, kernels)
    tops.synchronize()
    print(f"{steps} steps of {kernels} kernels: {(tops.now_ns() - begin) / steps / 1e3:.1f} us a step")

    expected = start
    for _ in range(steps * kernels):
        expected = expected - np.float32(0.01) * expected * expected * expected
    assert np.allclose(x.numpy(), expected, atol=1e-4)


if __name__ == "__main__":
    main()
