"""Rotary embedding: the halves of each head's vector, as pairs, are turned by the angles of its token."""

import numpy as np

import tops_kit as tops


@tops.kernel
def rotary(
    x: tops.ptr(ndim=3),  # tokens, HEADS, D
    cos: tops.ptr(tops.f32, 2),  # tokens, D / 2
    sin: tops.ptr(tops.f32, 2),
    y: tops.ptr(ndim=3),
    n: tops.i32,
    HEADS: tops.constexpr,
    D: tops.constexpr,
    BLOCK: tops.constexpr = 8,
):
    HALF: tops.constexpr = D // 2
    vectors = tops.l1(x.dtype, (BLOCK, HEADS, D), slots=2)
    cosines = tops.l1(tops.f32, (BLOCK, 1, HALF), slots=2)
    sines = tops.l1(tops.f32, (BLOCK, 1, HALF), slots=2)
    turned = tops.l1(y.dtype, (BLOCK, HEADS, D))
    loads = [
        (vectors, lambda i: x[i : min(i + BLOCK, n)]),
        (cosines, lambda i: cos[i : min(i + BLOCK, n), None]),
        (sines, lambda i: sin[i : min(i + BLOCK, n), None]),
    ]
    for i in tops.pipeline(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK, load=loads):
        v, c, s = vectors[i].to(tops.f32), cosines[i], sines[i]
        first, second = v[:, :, :HALF], v[:, :, HALF:]
        count = v.shape[0]
        turned[:count, :, :HALF] = (first * c - second * s).to(y.dtype)
        turned[:count, :, HALF:] = (second * c + first * s).to(y.dtype)
        tops.store(y[i : i + count], turned[:count])


@rotary.example
def _(rng, n=512, HEADS=8, D=64, BLOCK=8, dtype=tops.f32):
    x = rng.standard_normal((n, HEADS, D), np.float32).astype(dtype.numpy)
    angles = np.arange(n)[:, None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    return dict(x=x, cos=cos, sin=sin, y=np.empty_like(x), n=n, HEADS=HEADS, D=D, BLOCK=BLOCK)


@rotary.reference
def _(x, cos, sin):
    first, second = np.split(x.astype(np.float64), 2, axis=2)
    c, s = cos[:, None], sin[:, None]
    return np.concatenate([first * c - second * s, second * c + first * s], axis=2)
