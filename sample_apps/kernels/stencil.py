"""Heat that spreads in a plate: each step, a point becomes the mean of itself and its 4 neighbours.

Two arrays take turns, and all threads meet after each step. Tiles are loaded with a border of one point,
which is 0 where it lies outside of the plate.
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def stencil(
    u: tops.ptr(tops.f32, 2),
    v: tops.ptr(tops.f32, 2),
    steps: tops.i32,  # even: the result is in u
    BM: tops.constexpr = 32,
    BN: tops.constexpr = 128,
):
    assert steps % 2 == 0, "steps is even: u and v take turns, and the result is in u"
    rows, cols = u.shape
    across = tops.cdiv(cols, BN)
    tile = tops.l1(tops.f32, (BM + 2, BN + 2), slots=2)

    def step(source, target):
        def part(work):
            i, j = work // across * BM, work % across * BN
            return source[i - 1 : i + BM + 1, j - 1 : j + BN + 1]

        works = tops.cdiv(rows, BM) * across
        for work in tops.pipeline(tops.thread_id(), works, tops.num_threads(), load=(tile, part), pad=0):
            t = tile[work]
            middle = t[1 : BM + 1, 1 : BN + 1]
            beside = t[1 : BM + 1, 0:BN] + t[1 : BM + 1, 2 : BN + 2]
            above = t[0:BM, 1 : BN + 1] + t[2 : BM + 2, 1 : BN + 1]
            i, j = work // across * BM, work % across * BN
            tops.store(target[i : i + BM, j : j + BN], (middle + beside + above) * 0.2, clip=True)
        tops.grid_barrier()

    for _ in range(steps // 2):
        step(u, v)
        step(v, u)


@stencil.example
def _(rng, rows=512, cols=512, steps=4, BM=32, BN=128):
    u = rng.uniform(0, 1, (rows, cols)).astype(np.float32)
    return dict(u=u, v=np.empty_like(u), steps=steps, BM=BM, BN=BN)


@stencil.reference
def _(u, steps):
    for _ in range(steps):
        before, t = u, np.pad(u, 1)
        u = (t[1:-1, 1:-1] + (t[1:-1, :-2] + t[1:-1, 2:]) + (t[:-2, 1:-1] + t[2:, 1:-1])) * np.float32(0.2)
    return dict(u=u, v=before) if steps else {}
