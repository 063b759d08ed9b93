"""c = a @ b by tiles, and the DTE loads the next tiles of a and b while the matrix unit multiplies these."""

import numpy as np

import tops_kit as tops


@tops.kernel
def gemm_double_buffered(
    a: tops.ptr(),
    b: tops.ptr(),
    c: tops.ptr(),
    BM: tops.constexpr = 128,
    BN: tops.constexpr = 128,
    BK: tops.constexpr = 128,
):
    m, k = a.shape
    n = b.shape[1]
    assert b.shape[0] == k, "a @ b: columns of a, rows of b"
    left = tops.l1(a.dtype, (BM, BK), slots=2)
    right = tops.l1(b.dtype, (BK, BN), slots=2)
    across = tops.cdiv(n, BN)
    for tile in range(tops.thread_id(), tops.cdiv(m, BM) * across, tops.num_threads()):
        i, j = tile // across * BM, tile % across * BN
        acc = tops.zeros(tops.f32, (BM, BN))
        loads = [
            (left, lambda p: a[i : i + BM, p : p + BK]),
            (right, lambda p: b[p : p + BK, j : j + BN]),
        ]
        for p in tops.pipeline(0, k, BK, load=loads, pad=0):
            acc += left[p] @ right[p]
        tops.store(c[i : i + BM, j : j + BN], acc.to(c.dtype), clip=True)


@gemm_double_buffered.example
def _(rng, m=512, n=512, k=512, BM=128, BN=128, BK=128, dtype=tops.f32):
    a = rng.standard_normal((m, k), np.float32).astype(dtype.numpy)
    b = rng.standard_normal((k, n), np.float32).astype(dtype.numpy)
    return dict(a=a, b=b, c=np.empty((m, n), dtype.numpy), BM=BM, BN=BN, BK=BK)


@gemm_double_buffered.reference(rtol=1e-4, atol=1e-4)
def _(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)
