"""How often each value occurs: each thread counts in its L1, and adds its counts to the result atomically."""

import numpy as np

import tops_kit as tops


@tops.kernel
def histogram(
    x: tops.ptr(ndim=1),  # integers; those outside of 0 to BINS - 1 count as the nearest
    counts: tops.ptr(tops.i32, 1),
    n: tops.i32,
    BINS: tops.constexpr = 256,
    BLOCK: tops.constexpr = 8192,
):
    mine = tops.zeros(tops.i32, (BINS,))
    part = tops.l1(x.dtype, (BLOCK,), slots=2)
    source = (part, lambda i: x[i : min(i + BLOCK, n)])
    for i in tops.pipeline(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK, load=source):
        bins = tops.minimum(tops.maximum(part[i].to(tops.i32), 0), BINS - 1)
        tops.scatter_add(mine, bins, tops.full(tops.i32, bins.shape, 1))
    tops.atomic_add(counts[0:BINS], mine)


@histogram.example
def _(rng, n=1_000_000, BINS=256, BLOCK=8192, dtype=tops.u8):
    x = np.clip(rng.normal(BINS / 2, BINS / 6, n), 0, BINS - 1).astype(dtype.numpy)
    return dict(x=x, counts=np.zeros(BINS, np.int32), n=n, BINS=BINS, BLOCK=BLOCK)


@histogram.reference
def _(x, counts, BINS):
    return counts + np.bincount(np.clip(x, 0, BINS - 1), minlength=BINS)
