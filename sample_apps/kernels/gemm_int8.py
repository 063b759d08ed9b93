"""c = a @ b.T of int8 matrices with int32 sums, dequantised: times the scale of a's row and of b's row.

b is stored as weights are, (n, k); the matrix unit reads it transposed.
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def gemm_int8(
    a: tops.ptr(tops.i8, 2),
    b: tops.ptr(tops.i8, 2),
    a_scale: tops.ptr(tops.f32, 1),
    b_scale: tops.ptr(tops.f32, 1),
    c: tops.ptr(),
    BM: tops.constexpr = 128,
    BN: tops.constexpr = 128,
    BK: tops.constexpr = 128,
):
    m, k = a.shape
    n = b.shape[0]
    assert b.shape[1] == k, "a @ b.T: columns of a, columns of b"
    left = tops.l1(tops.i8, (BM, BK), slots=2)
    right = tops.l1(tops.i8, (BN, BK), slots=2)
    across = tops.cdiv(n, BN)
    for tile in range(tops.thread_id(), tops.cdiv(m, BM) * across, tops.num_threads()):
        i, j = tile // across * BM, tile % across * BN
        acc = tops.zeros(tops.i32, (BM, BN))
        loads = [
            (left, lambda p: a[i : i + BM, p : p + BK]),
            (right, lambda p: b[j : j + BN, p : p + BK]),
        ]
        for p in tops.pipeline(0, k, BK, load=loads, pad=0):
            acc += left[p] @ right[p].T
        rows = tops.load(a_scale[i : i + BM], pad=0.0)
        cols = tops.load(b_scale[j : j + BN], pad=0.0)
        out = acc.to(tops.f32) * rows[:, None] * cols
        tops.store(c[i : i + BM, j : j + BN], out.to(c.dtype), clip=True)


@gemm_int8.example
def _(rng, m=512, n=512, k=512, BM=128, BN=128, BK=128, dtype=tops.f32):
    a = rng.integers(-128, 128, (m, k), np.int8)
    b = rng.integers(-128, 128, (n, k), np.int8)
    a_scale = rng.uniform(0.001, 0.01, m).astype(np.float32)
    b_scale = rng.uniform(0.001, 0.01, n).astype(np.float32)
    c = np.empty((m, n), dtype.numpy)
    return dict(a=a, b=b, a_scale=a_scale, b_scale=b_scale, c=c, BM=BM, BN=BN, BK=BK)


@gemm_int8.reference(rtol=1e-6, atol=1e-6)
def _(a, b, a_scale, b_scale):
    return (a.astype(np.int32) @ b.astype(np.int32).T) * a_scale[:, None].astype(np.float64) * b_scale
