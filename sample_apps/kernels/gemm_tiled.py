"""c = a @ b by tiles on the matrix unit: what is loaded of a serves BN columns, what is of b BM rows.

Any m, n, k: tiles at the edges are filled up with zeros, and what lies outside of c is not stored.
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def gemm_tiled(
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
    across = tops.cdiv(n, BN)
    for tile in range(tops.thread_id(), tops.cdiv(m, BM) * across, tops.num_threads()):
        i, j = tile // across * BM, tile % across * BN
        acc = tops.zeros(tops.f32, (BM, BN))
        for p in range(0, k, BK):
            left = tops.load(a[i : i + BM, p : p + BK], pad=0)
            right = tops.load(b[p : p + BK, j : j + BN], pad=0)
            acc += left @ right
        tops.store(c[i : i + BM, j : j + BN], acc.to(c.dtype), clip=True)


@gemm_tiled.example
def _(rng, m=512, n=512, k=512, BM=128, BN=128, BK=128, dtype=tops.f32):
    a = rng.standard_normal((m, k), np.float32).astype(dtype.numpy)
    b = rng.standard_normal((k, n), np.float32).astype(dtype.numpy)
    return dict(a=a, b=b, c=np.empty((m, n), dtype.numpy), BM=BM, BN=BN, BK=BK)


@gemm_tiled.reference(rtol=1e-4, atol=1e-4)
def _(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)
