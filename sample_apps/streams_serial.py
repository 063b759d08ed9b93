"""Copy in, compute, copy out, chunk by chunk on one stream: no engine works while another one does.

TOPS_CLOCK=model topsprof run --stats -- python streams_serial.py    # then the same with streams_overlap.py
"""

from __future__ import annotations

import argparse

import numpy as np
import topstx

import tops_kit as tops

SIZES = {"small": (6, 500_000), "medium": (8, 2_000_000), "large": (16, 4_000_000)}  # chunks, numbers in each
THREADS = tops.device_properties()["sips"]


@tops.kernel
def wave(x: tops.ptr(), y: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 8192):
    block = tops.l1(x.dtype, (BLOCK,), slots=2)
    source = (block, lambda i: x[i : min(i + BLOCK, n)])
    for i in tops.pipeline(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK, load=source):
        v = block[i]
        for _ in tops.static_range(6):
            v = tops.sin(v) + 0.5 * v
        tops.store(y[i : min(i + BLOCK, n)], v)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="medium")
    chunks, n = SIZES[parser.parse_args().size]

    data = tops.host_malloc((chunks, n), np.float32)  # pinned: copies of other memory would wait
    result = tops.host_malloc((chunks, n), np.float32)
    data[:] = np.linspace(-1, 1, n, dtype=np.float32)
    x, y = tops.empty(n), tops.empty(n)

    stream = tops.Stream()
    wave[THREADS].prepare(x, y, n)  # compiled before the time is taken
    begin = tops.now_ns()
    with stream, topstx.annotate("pipeline"):
        for number in range(chunks):
            with topstx.annotate(f"chunk {number}"):
                tops.memcpy_async(x, data[number])
                wave[THREADS](x, y, n)
                tops.memcpy_async(result[number], y)
        stream.synchronize()
    print(f"{chunks} chunks of {n:,} numbers in {(tops.now_ns() - begin) / 1e6:.3f} ms")

    assert (result == result[0]).all()
    tops.host_free(data)
    tops.host_free(result)


if __name__ == "__main__":
    main()
