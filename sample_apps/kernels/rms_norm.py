"""RMS normalisation of rows: y = x / sqrt(mean(x * x) + eps) * weight, computed in f32."""

import numpy as np

import tops_kit as tops


@tops.kernel
def rms_norm(
    x: tops.ptr(),
    weight: tops.ptr(),
    y: tops.ptr(),
    rows: tops.i32,
    eps: tops.f32,
    COLS: tops.constexpr,
    ROWS: tops.constexpr = 4,
):
    w = tops.load(weight[0:COLS]).to(tops.f32)
    block = tops.l1(x.dtype, (ROWS, COLS), slots=2)
    source = (block, lambda r: x[r : min(r + ROWS, rows)])
    for r in tops.pipeline(tops.thread_id() * ROWS, rows, tops.num_threads() * ROWS, load=source):
        v = block[r].to(tops.f32)
        scale = tops.rsqrt(tops.rowsum(v * v) / COLS + eps)
        tops.store(y[r : min(r + ROWS, rows)], (v * scale * w).to(y.dtype))


@rms_norm.example
def _(rng, rows=1024, COLS=4096, ROWS=4, dtype=tops.f32):
    x = (2 * rng.standard_normal((rows, COLS), np.float32)).astype(dtype.numpy)
    weight = rng.standard_normal(COLS, np.float32).astype(dtype.numpy)
    return dict(x=x, weight=weight, y=np.empty_like(x), rows=rows, eps=1e-6, COLS=COLS, ROWS=ROWS)


@rms_norm.reference(rtol=1e-5, atol=1e-6)
def _(x, weight, eps):
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps) * weight.astype(np.float64)
