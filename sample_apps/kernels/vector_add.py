"""z = x + y: blocks go round robin to the threads, and the DTE loads the next while one is added."""

import numpy as np

import tops_kit as tops


@tops.kernel
def vector_add(x: tops.ptr(), y: tops.ptr(), z: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 16384):
    a = tops.l1(x.dtype, (BLOCK,), slots=2)
    b = tops.l1(y.dtype, (BLOCK,), slots=2)
    loads = [(a, lambda i: x[i : min(i + BLOCK, n)]), (b, lambda i: y[i : min(i + BLOCK, n)])]
    for i in tops.pipeline(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK, load=loads):
        # the last block is smaller, and so are a[i] and b[i]
        tops.store(z[i : min(i + BLOCK, n)], a[i] + b[i])


@vector_add.example
def _(rng, n=1_000_000, BLOCK=16384, dtype=tops.f32):
    x, y = (100 * rng.standard_normal((2, n), np.float32)).astype(dtype.numpy)
    return dict(x=x, y=y, z=np.empty_like(x), n=n, BLOCK=BLOCK)


@vector_add.reference
def _(x, y):
    return x + y
