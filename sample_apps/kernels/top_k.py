"""The K greatest of each row, greatest first, and their columns; of equal ones the first comes first."""

import numpy as np

import tops_kit as tops


@tops.kernel
def top_k(
    x: tops.ptr(ndim=2),
    values: tops.ptr(ndim=2),
    columns: tops.ptr(tops.i32, 2),
    rows: tops.i32,
    COLS: tops.constexpr,
    K: tops.constexpr,
    ROWS: tops.constexpr = 8,
):
    block = tops.l1(x.dtype, (ROWS, COLS), slots=2)
    best = tops.l1(values.dtype, (ROWS, K))
    where = tops.l1(tops.i32, (ROWS, K))
    number = tops.iota(tops.i32, (1, COLS))
    source = (block, lambda r: x[r : min(r + ROWS, rows)])
    for r in tops.pipeline(tops.thread_id() * ROWS, rows, tops.num_threads() * ROWS, load=source):
        left = block[r].to(tops.f32)
        n = left.shape[0]
        for k in tops.static_range(K):
            at = tops.argmax(left, 1)
            best[:n, k : k + 1] = tops.rowmax(left).to(values.dtype)
            where[:n, k : k + 1] = at
            left = tops.where(number == at, float("-inf"), left)
        tops.store(values[r : r + n], best[:n])
        tops.store(columns[r : r + n], where[:n])


@top_k.example
def _(rng, rows=512, COLS=1000, K=8, ROWS=8, dtype=tops.f32):
    x = (30 * rng.standard_normal((rows, COLS))).astype(dtype.numpy)
    values, columns = np.empty((rows, K), dtype.numpy), np.empty((rows, K), np.int32)
    return dict(x=x, values=values, columns=columns, rows=rows, COLS=COLS, K=K, ROWS=ROWS)


@top_k.reference
def _(x, K):
    columns = np.argsort(-x.astype(np.float64), axis=1, kind="stable")[:, :K]
    return np.take_along_axis(x, columns, axis=1), columns
