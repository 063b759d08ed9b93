"""Attention of one new token of each sequence, whose keys and values lie in pages anywhere in a cache.

`pages` lists the numbers of a sequence's pages. Query heads that share a key head (grouped-query attention)
are worked on together, so that a page is loaded once for all of them.
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def paged_attention(
    q: tops.ptr(ndim=3),  # sequences, heads, D
    k_cache: tops.ptr(ndim=4),  # pages, key heads, PAGE, D
    v_cache: tops.ptr(ndim=4),
    pages: tops.ptr(tops.i32, 2),  # sequences, MOST: numbers of pages
    lengths: tops.ptr(tops.i32, 1),  # tokens of each sequence
    out: tops.ptr(ndim=3),
    scale: tops.f32,
    GROUP: tops.constexpr,  # query heads of a key head
    PAGE: tops.constexpr,
    MOST: tops.constexpr,
    D: tops.constexpr,
):
    sequences, heads, _ = q.shape
    groups = heads // GROUP
    number = tops.l1(tops.i32, (max(MOST, 2),))  # the first two pages are loaded ahead
    key = tops.l1(k_cache.dtype, (PAGE, D), slots=3)
    value = tops.l1(v_cache.dtype, (PAGE, D), slots=3)
    for work in range(tops.thread_id(), sequences * groups, tops.num_threads()):
        sequence, group = work // groups, work % groups
        first = group * GROUP
        length = tops.load(lengths[sequence])
        tops.load(number[0:MOST], pages[sequence])
        query = tops.load(q[sequence, first : first + GROUP, 0:D])
        acc = tops.zeros(tops.f32, (GROUP, D))
        total = tops.zeros(tops.f32, (GROUP, 1))
        m = tops.full(tops.f32, (GROUP, 1), float("-inf"))
        loads = [
            (key, lambda p: k_cache[number[p], group, 0 : min(PAGE, length - p * PAGE)]),
            (value, lambda p: v_cache[number[p], group, 0 : min(PAGE, length - p * PAGE)]),
        ]
        for p in tops.pipeline(0, tops.cdiv(length, PAGE), load=loads):
            scores = query @ key[p].T * scale
            greater = tops.maximum(m, tops.rowmax(scores))
            e = tops.exp(scores - greater)
            shrink = tops.exp(m - greater)
            total = total * shrink + tops.rowsum(e)
            acc = acc * shrink + e.to(v_cache.dtype) @ value[p]
            m = greater
        tops.store(out[sequence, first : first + GROUP], (acc / total).to(out.dtype))


@paged_attention.example
def _(rng, sequences=16, key_heads=4, GROUP=4, PAGE=32, MOST=16, D=64, dtype=tops.f32):
    q = rng.standard_normal((sequences, key_heads * GROUP, D), np.float32).astype(dtype.numpy)
    cache = (2, sequences * MOST, key_heads, PAGE, D)
    k_cache, v_cache = rng.standard_normal(cache, np.float32).astype(dtype.numpy)
    pages = rng.permutation(sequences * MOST).reshape(sequences, MOST).astype(np.int32)
    lengths = rng.integers(1, MOST * PAGE + 1, sequences).astype(np.int32)
    return dict(
        q=q, k_cache=k_cache, v_cache=v_cache, pages=pages, lengths=lengths, out=np.empty_like(q),
        scale=D**-0.5, GROUP=GROUP, PAGE=PAGE, MOST=MOST, D=D,
    )  # fmt: skip


@paged_attention.reference(rtol=1e-4, atol=1e-5, half_atol=1)
def _(q, k_cache, v_cache, pages, lengths, scale, GROUP):
    out = np.empty(q.shape, np.float64)
    for s, (numbers, length) in enumerate(zip(pages, lengths, strict=True)):
        # heads, tokens, D
        k, v = (c[numbers].astype(np.float64).swapaxes(0, 1) for c in (k_cache, v_cache))
        k, v = (c.reshape(len(c), -1, c.shape[-1])[:, :length].repeat(GROUP, axis=0) for c in (k, v))
        scores = scale * np.einsum("hd,htd->ht", q[s].astype(np.float64), k)
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[s] = np.einsum("ht,htd->hd", e / e.sum(axis=1, keepdims=True), v)
    return out
