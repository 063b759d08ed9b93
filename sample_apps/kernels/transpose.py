"""y = x.T by tiles: the DTE loads them and stores them transposed; nothing is computed."""

import tops_kit as tops


@tops.kernel
def transpose(x: tops.ptr(ndim=2), y: tops.ptr(ndim=2), BM: tops.constexpr = 128, BN: tops.constexpr = 128):
    rows, cols = x.shape
    across = tops.cdiv(cols, BN)
    tile = tops.l1(x.dtype, (BM, BN), slots=3)

    def part(work):
        i, j = work // across * BM, work % across * BN
        return x[i : min(i + BM, rows), j : min(j + BN, cols)]

    works = tops.cdiv(rows, BM) * across
    stored = tops.no_event()
    for work in tops.pipeline(tops.thread_id(), works, tops.num_threads(), load=(tile, part), ahead=1):
        i, j = work // across * BM, work % across * BN
        # three slots: one is loaded while another is stored
        tops.wait(stored)
        stored = tops.store_async(y[j : min(j + BN, cols), i : min(i + BM, rows)], tile[work].T)
    tops.wait(stored)


@transpose.example
def _(rng, rows=1024, cols=1024, BM=128, BN=128, dtype=tops.f32):
    x = (100 * rng.standard_normal((rows, cols))).astype(dtype.numpy)
    return dict(x=x, y=x.T.copy() * 0, BM=BM, BN=BN)


@transpose.reference
def _(x):
    return x.T
