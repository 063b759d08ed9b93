"""Running sums of an array: each thread sums its part, all meet, and each goes on from the sums before it.

`partial` has room for one sum of each thread. The threads wait for each other, so all must fit the part at
once: at most as many blocks as it has clusters.
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def prefix_scan(
    x: tops.ptr(ndim=1),
    y: tops.ptr(ndim=1),
    partial: tops.ptr(ndim=1),
    n: tops.i32,
    THREADS: tops.constexpr,
    BLOCK: tops.constexpr = 8192,
):
    me = tops.thread_id()
    size = tops.cdiv(tops.cdiv(n, THREADS), BLOCK) * BLOCK
    first, last = min(me * size, n), min(me * size + size, n)
    block = tops.l1(x.dtype, (BLOCK,), slots=2)
    source = (block, lambda i: x[i : min(i + BLOCK, last)])

    total = tops.zeros(x.dtype, (1,))
    for i in tops.pipeline(first, last, BLOCK, load=source):
        total += tops.sum(block[i], 0)
    tops.store(partial[me : me + 1], total)
    tops.grid_barrier()

    before = tops.iota(tops.i32, (THREADS,)) < me
    carry = tops.sum(tops.where(before, tops.load(partial[0:THREADS]), 0), 0)
    for i in tops.pipeline(first, last, BLOCK, load=source):
        running = tops.cumsum(block[i]) + carry
        tops.store(y[i : min(i + BLOCK, last)], running)
        carry += tops.sum(block[i], 0)


@prefix_scan.example
def _(rng, n=1_000_000, THREADS=24, BLOCK=8192, dtype=tops.i32):
    x = rng.integers(-100, 100, n).astype(dtype.numpy)
    partial = np.empty(THREADS, dtype.numpy)
    return dict(x=x, y=np.empty_like(x), partial=partial, n=n, THREADS=THREADS, BLOCK=BLOCK, threads=THREADS)


@prefix_scan.reference
def _(x):
    return dict(y=np.cumsum(x, dtype=x.dtype))
