"""c = a @ b, a row at a time on the vector unit: what not to do, and what the other gemms improve on.

Every row of c reads all of b, and computing and the DTE take turns.
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def gemm_naive(
    a: tops.ptr(tops.f32, 2),
    b: tops.ptr(tops.f32, 2),
    c: tops.ptr(tops.f32, 2),
    m: tops.i32,
    N: tops.constexpr,
    K: tops.constexpr,
):
    for i in range(tops.thread_id(), m, tops.num_threads()):
        row = tops.load(a[i, 0:K])
        acc = tops.zeros(tops.f32, (N,))
        for k in range(K):
            acc += row[k] * tops.load(b[k, 0:N])
        tops.store(c[i, 0:N], acc)


@gemm_naive.example
def _(rng, m=96, N=96, K=96):
    a = rng.standard_normal((m, K), np.float32)
    b = rng.standard_normal((K, N), np.float32)
    return dict(a=a, b=b, c=np.empty((m, N), np.float32), m=m, N=N, K=K)


@gemm_naive.reference(rtol=1e-4, atol=1e-4)
def _(a, b):
    return a.astype(np.float64) @ b
