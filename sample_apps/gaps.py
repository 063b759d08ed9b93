"""The device idles between kernels, because the host prepares a batch only when the one before is done.

topsprof run --stats -- python gaps.py
"""

from __future__ import annotations

import argparse

import numpy as np
import topstx

import tops_kit as tops

SIZES = {"small": 5, "medium": 20, "large": 100}  # batches
N = 4_000_000
PREPARE_NS = 400_000  # what making a batch takes the host
THREADS = tops.device_properties()["sips"]


@tops.kernel
def work(x: tops.ptr(), y: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 16384):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        v = tops.load(x[i:j])
        tops.store(y[i:j], tops.exp(-v * v))


@topstx.annotate("prepare batch")
def prepare(number: int, batch: np.ndarray) -> None:
    """A batch in pinned memory. `host_work` stands for reading and decoding it: time passes on the host."""
    batch[:] = number
    tops.host_work(PREPARE_NS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    batches = SIZES[parser.parse_args().size]
    batch = tops.host_malloc(N, np.float32)
    x, y = tops.empty(N), tops.empty(N)
    work[THREADS].prepare(x, y, N)
    for number in range(batches):
        prepare(number, batch)
        with topstx.annotate("step"):
            tops.memcpy_async(x, batch)
            work[THREADS](x, y, N)
            tops.synchronize()  # the next batch is prepared after this: the device waits for the host
    assert np.allclose(y[:1].numpy(), np.exp(-(np.float32(number) ** 2)))
    tops.host_free(batch)
    print(f"{batches} batches")


if __name__ == "__main__":
    main()
