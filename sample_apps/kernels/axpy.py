"""y = alpha * x + y in place. The last block reaches past the arrays: loads pad it, the store clips it."""

import numpy as np

import tops_kit as tops


@tops.kernel
def axpy(alpha: tops.f32, x: tops.ptr(), y: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 16384):
    a = tops.l1(x.dtype, (BLOCK,), slots=2)
    b = tops.l1(y.dtype, (BLOCK,), slots=2)
    loads = [(a, lambda i: x[i : i + BLOCK]), (b, lambda i: y[i : i + BLOCK])]
    for i in tops.pipeline(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK, load=loads, pad=0):
        out = tops.fma(a[i].to(tops.f32), alpha, b[i].to(tops.f32))
        tops.store(y[i : i + BLOCK], out.to(y.dtype), clip=True)


@axpy.example
def _(rng, n=1_000_000, BLOCK=16384, dtype=tops.f32):
    x, y = rng.standard_normal((2, n), np.float32).astype(dtype.numpy)
    return dict(alpha=1.5, x=x, y=y, n=n, BLOCK=BLOCK)


@axpy.reference
def _(alpha, x, y):
    return np.float32(alpha) * x.astype(np.float32) + y.astype(np.float32)
