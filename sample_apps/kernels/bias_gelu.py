"""y = gelu(x + bias) in one pass: what follows the first matrix product of a feed-forward layer."""

import math

import numpy as np

import tops_kit as tops


@tops.function
def gelu(v):
    return 0.5 * v * (1.0 + tops.erf(v * math.sqrt(0.5)))


@tops.kernel
def bias_gelu(
    x: tops.ptr(ndim=2),
    bias: tops.ptr(ndim=1),
    y: tops.ptr(ndim=2),
    rows: tops.i32,
    COLS: tops.constexpr,
    ROWS: tops.constexpr = 4,
):
    b = tops.load(bias[0:COLS]).to(tops.f32)
    block = tops.l1(x.dtype, (ROWS, COLS), slots=2)
    source = (block, lambda r: x[r : min(r + ROWS, rows)])
    for r in tops.pipeline(tops.thread_id() * ROWS, rows, tops.num_threads() * ROWS, load=source):
        out = gelu(block[r].to(tops.f32) + b)
        tops.store(y[r : min(r + ROWS, rows)], out.to(y.dtype))


@bias_gelu.example
def _(rng, rows=1024, COLS=2048, ROWS=4, dtype=tops.f32):
    x = (2 * rng.standard_normal((rows, COLS), np.float32)).astype(dtype.numpy)
    bias = rng.standard_normal(COLS, np.float32).astype(dtype.numpy)
    return dict(x=x, bias=bias, y=np.empty_like(x), rows=rows, COLS=COLS, ROWS=ROWS)


@bias_gelu.reference(rtol=1e-5, atol=1e-6)
def _(x, bias):
    v = x.astype(np.float64) + bias.astype(np.float64)
    return 0.5 * v * (1 + np.vectorize(math.erf)(v / math.sqrt(2)))
