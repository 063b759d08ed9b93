"""Softmax of each row of a matrix; a row is in L1 as a whole."""

import numpy as np

import tops_kit as tops


@tops.kernel
def softmax(x: tops.ptr(), y: tops.ptr(), rows: tops.i32, COLS: tops.constexpr):
    row = tops.l1(x.dtype, (1, COLS), slots=2)
    for r in tops.pipeline(tops.thread_id(), rows, tops.num_threads(), load=(row, lambda r: x[r : r + 1])):
        v = row[r].to(tops.f32)
        e = tops.exp(v - tops.rowmax(v))
        tops.store(y[r : r + 1], (e / tops.rowsum(e)).to(y.dtype))


@softmax.example
def _(rng, rows=1024, COLS=4096, dtype=tops.f32):
    x = (4 * rng.standard_normal((rows, COLS), np.float32)).astype(dtype.numpy)
    return dict(x=x, y=np.empty_like(x), rows=rows, COLS=COLS)


@softmax.reference
def _(x):
    x = x.astype(np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
