"""Sum and greatest of an array in three steps: threads in L1, the threads of a block in L2, the blocks in L3.

`total` and `greatest` start with what they are to be added to and compared with: 0 and -inf.
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def block_reduction(
    x: tops.ptr(ndim=1),
    total: tops.ptr(tops.f32, 1),
    greatest: tops.ptr(tops.f32, 1),
    n: tops.i32,
    BLOCK: tops.constexpr = 8192,
):
    block_total = tops.l2(tops.f32, (1,))
    block_greatest = tops.l2(tops.f32, (1,))
    if tops.local_id() == 0:
        tops.memset(block_total, 0.0)
        tops.memset(block_greatest, float("-inf"))
    tops.barrier()

    sums = tops.zeros(tops.f32, (1,))
    most = tops.full(tops.f32, (1,), float("-inf"))
    part = tops.l1(x.dtype, (BLOCK,), slots=2)
    source = (part, lambda i: x[i : min(i + BLOCK, n)])
    for i in tops.pipeline(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK, load=source):
        v = part[i].to(tops.f32)
        sums += tops.sum(v)
        most = tops.maximum(most, tops.max(v))

    tops.atomic_add(block_total[0], sums[0])
    tops.atomic_max(block_greatest[0], most[0])
    tops.barrier()
    if tops.local_id() == 0:
        tops.atomic_add(total[0], block_total[0])
        tops.atomic_max(greatest[0], block_greatest[0])


@block_reduction.example
def _(rng, n=1_000_000, BLOCK=8192, dtype=tops.f32):
    x = (10 * rng.uniform(0, 1, n)).astype(dtype.numpy)
    total, greatest = np.zeros(1, np.float32), np.full(1, -np.inf, np.float32)
    return dict(x=x, total=total, greatest=greatest, n=n, BLOCK=BLOCK)


@block_reduction.reference(rtol=1e-5)
def _(x):
    return x.sum(dtype=np.float64, keepdims=True), x.max(keepdims=True).astype(np.float32)
