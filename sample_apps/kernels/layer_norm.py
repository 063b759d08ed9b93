"""Layer normalisation of rows, several rows a step: y = (x - mean) / sqrt(variance + eps) * weight + bias."""

import numpy as np

import tops_kit as tops


@tops.kernel
def layer_norm(
    x: tops.ptr(),
    weight: tops.ptr(tops.f32),
    bias: tops.ptr(tops.f32),
    y: tops.ptr(),
    rows: tops.i32,
    eps: tops.f32,
    COLS: tops.constexpr,
    ROWS: tops.constexpr = 4,
):
    w = tops.load(weight[0:COLS])
    b = tops.load(bias[0:COLS])
    block = tops.l1(x.dtype, (ROWS, COLS), slots=2)
    source = (block, lambda r: x[r : min(r + ROWS, rows)])
    for r in tops.pipeline(tops.thread_id() * ROWS, rows, tops.num_threads() * ROWS, load=source):
        v = block[r].to(tops.f32)
        v -= tops.rowsum(v) / COLS
        variance = tops.rowsum(v * v) / COLS
        out = v * tops.rsqrt(variance + eps) * w + b
        tops.store(y[r : min(r + ROWS, rows)], out.to(y.dtype))


@layer_norm.example
def _(rng, rows=1024, COLS=4096, ROWS=4, dtype=tops.f32):
    x = (3 + 2 * rng.standard_normal((rows, COLS), np.float32)).astype(dtype.numpy)
    weight, bias = rng.standard_normal((2, COLS), np.float32)
    return dict(x=x, weight=weight, bias=bias, y=np.empty_like(x), rows=rows, eps=1e-5, COLS=COLS, ROWS=ROWS)


# where a row's numbers are nearly equal, what their mean is rounded by counts up to 1 / sqrt(eps) times
@layer_norm.reference(rtol=1e-5, atol=2e-4)
def _(x, weight, bias, eps):
    x = x.astype(np.float64)
    v = x - x.mean(axis=1, keepdims=True)
    return v / np.sqrt((v * v).mean(axis=1, keepdims=True) + eps) * weight + bias
