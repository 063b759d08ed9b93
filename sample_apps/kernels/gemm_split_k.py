"""c += a @ b with k split among threads, for few tiles and long sums: each adds its part to c atomically."""

import numpy as np

import tops_kit as tops


@tops.kernel
def gemm_split_k(
    a: tops.ptr(),
    b: tops.ptr(),
    c: tops.ptr(tops.f32),
    SPLITS: tops.constexpr = 6,
    BM: tops.constexpr = 64,
    BN: tops.constexpr = 64,
    BK: tops.constexpr = 128,
):
    m, k = a.shape
    n = b.shape[1]
    assert b.shape[0] == k, "a @ b: columns of a, rows of b"
    left = tops.l1(a.dtype, (BM, BK), slots=2)
    right = tops.l1(b.dtype, (BK, BN), slots=2)
    across = tops.cdiv(n, BN)
    tiles = tops.cdiv(m, BM) * across
    part = tops.cdiv(tops.cdiv(k, SPLITS), BK) * BK
    for work in range(tops.thread_id(), tiles * SPLITS, tops.num_threads()):
        tile = work % tiles
        i, j = tile // across * BM, tile % across * BN
        first = work // tiles * part
        acc = tops.zeros(tops.f32, (BM, BN))
        loads = [
            (left, lambda p: a[i : i + BM, p : p + BK]),
            (right, lambda p: b[p : p + BK, j : j + BN]),
        ]
        for p in tops.pipeline(first, min(first + part, k), BK, load=loads, pad=0):
            acc += left[p] @ right[p]
        rows, cols = min(BM, m - i), min(BN, n - j)
        tops.atomic_add(c[i : i + rows, j : j + cols], acc[:rows, :cols])


@gemm_split_k.example
def _(rng, m=128, n=128, k=4096, SPLITS=6, BM=64, BN=64, BK=128, dtype=tops.f32):
    a = rng.standard_normal((m, k), np.float32).astype(dtype.numpy)
    b = rng.standard_normal((k, n), np.float32).astype(dtype.numpy)
    return dict(a=a, b=b, c=np.zeros((m, n), np.float32), SPLITS=SPLITS, BM=BM, BN=BN, BK=BK)


@gemm_split_k.reference(rtol=1e-4, atol=1e-3)
def _(a, b, c):
    return c + a.astype(np.float64) @ b.astype(np.float64)
