"""The runtime in a minute: a device, memory, a kernel, events, and the result back on the host.

topsprof run --stats -- python first_steps.py
"""

from __future__ import annotations

import argparse

import numpy as np
import topstx

import tops_kit as tops

SIZES = {"small": 100_000, "medium": 1_000_000, "large": 10_000_000}


@tops.kernel
def scale_and_add(
    x: tops.ptr(), y: tops.ptr(), z: tops.ptr(), alpha: tops.f32, n: tops.i32, BLOCK: tops.constexpr = 8192
):
    """z = alpha * x + y. Each thread takes every num_threads-th block; the last one may be smaller."""
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        tops.store(z[i:j], alpha * tops.load(x[i:j]) + tops.load(y[i:j]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    n = SIZES[parser.parse_args().size]

    device = tops.device_properties()
    print(f"{tops.device_count()} device(s); device 0: {device['name']} (simulated), {device['sips']} SIPs")

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n), np.float32)
    with topstx.annotate("copy in"):
        a, b = tops.asarray(x), tops.asarray(y)
        c = tops.empty_like(a)

    with topstx.annotate("compile"):
        scale_and_add[device["sips"]].prepare(a, b, c, alpha=2.0, n=n)  # else its first launch does it
    start, end = tops.Event(), tops.Event()
    with topstx.annotate("compute"):
        start.record()
        scale_and_add[device["sips"]](a, b, c, alpha=2.0, n=n)  # returns before the device is done
        end.record()
        end.synchronize()

    with topstx.annotate("copy out"):
        z = c.numpy()
    assert np.allclose(z, 2 * x + y, atol=1e-5)
    free, total = tops.mem_get_info()
    print(f"z = 2 x + y of {n:,} numbers in {tops.elapsed_ms(start, end):.3f} ms from event to event")
    print(f"{(total - free) / 1e6:.1f} MB of the device's memory in use")


if __name__ == "__main__":
    main()
