"""Attention without the matrix of scores in memory: keys stream past a block of queries that stays in L1.

The softmax is kept up to date as scores come in: `m` is each query's greatest score so far, `total` the sum
of exp(score - m); it and the output are scaled down when a greater score appears.
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def flash_attention(
    q: tops.ptr(ndim=3),  # heads, queries, D
    k: tops.ptr(ndim=3),  # heads, keys, D
    v: tops.ptr(ndim=3),
    out: tops.ptr(ndim=3),
    scale: tops.f32,
    D: tops.constexpr,
    CAUSAL: tops.constexpr = False,
    BQ: tops.constexpr = 128,
    BK: tops.constexpr = 128,
):
    heads, length, _ = q.shape
    keys = k.shape[1]
    key = tops.l1(k.dtype, (BK, D), slots=2)
    value = tops.l1(v.dtype, (BK, D), slots=2)
    blocks = tops.cdiv(length, BQ)
    for work in range(tops.thread_id(), heads * blocks, tops.num_threads()):
        head, i = work // blocks, work % blocks * BQ
        query = tops.load(q[head, i : i + BQ, 0:D], pad=0)
        acc = tops.zeros(tops.f32, (BQ, D))
        total = tops.zeros(tops.f32, (BQ, 1))
        m = tops.full(tops.f32, (BQ, 1), float("-inf"))
        stop = min(i + BQ, keys) if CAUSAL else keys
        loads = [
            (key, lambda j: k[head, j : min(j + BK, keys)]),
            (value, lambda j: v[head, j : min(j + BK, keys)]),
        ]
        for j in tops.pipeline(0, stop, BK, load=loads):
            scores = query @ key[j].T * scale
            if CAUSAL and j + BK > i:  # the block touches the diagonal
                rows = tops.iota(tops.i32, (BQ, 1), axis=0, start=i)
                columns = tops.iota(tops.i32, (1, scores.shape[1]), start=j)
                scores = tops.where(columns <= rows, scores, float("-inf"))
            greater = tops.maximum(m, tops.rowmax(scores))
            p = tops.exp(scores - greater)
            shrink = tops.exp(m - greater)
            total = total * shrink + tops.rowsum(p)
            acc = acc * shrink + p.to(v.dtype) @ value[j]
            m = greater
        tops.store(out[head, i : i + BQ], (acc / total).to(out.dtype), clip=True)


@flash_attention.example
def _(rng, heads=12, length=512, D=64, CAUSAL=False, BQ=128, BK=128, dtype=tops.f32):
    q, k, v = rng.standard_normal((3, heads, length, D), np.float32).astype(dtype.numpy)
    out = np.empty_like(q)
    return dict(q=q, k=k, v=v, out=out, scale=D**-0.5, D=D, CAUSAL=CAUSAL, BQ=BQ, BK=BK)


@flash_attention.reference(rtol=1e-4, atol=1e-5, half_atol=1)
def _(q, k, v, scale, CAUSAL):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * q @ k.swapaxes(1, 2)
    if CAUSAL:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=2, keepdims=True))
    return e / e.sum(axis=2, keepdims=True) @ v
