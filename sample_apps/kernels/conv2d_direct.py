"""Convolution of images as a sum over the filter's taps: a matrix product each, on a shifted view of L1.

For an output row the rows under the filter are loaded once, with zeros where they lie outside of the image.
A shift and a stride are only another view of them: nothing is copied (compare conv2d_im2col.py).
"""

import numpy as np

import tops_kit as tops


@tops.kernel
def conv2d_direct(
    x: tops.ptr(ndim=4),  # images, C, height, width
    weight: tops.ptr(ndim=4),  # OUT, C, R, S
    y: tops.ptr(ndim=4),  # images, OUT, height of y, width of y
    C: tops.constexpr,
    OUT: tops.constexpr,
    R: tops.constexpr = 3,
    S: tops.constexpr = 3,
    STRIDE: tops.constexpr = 1,
    PAD: tops.constexpr = 1,
    BX: tops.constexpr = 32,  # columns of y at a time
):
    images, _, height, width = y.shape
    wide = (BX - 1) * STRIDE + S
    taps = tops.l1(weight.dtype, (R * S, OUT, C))
    for tap in tops.static_range(R * S):
        tops.load_async(taps[tap], weight[:, :, tap // S, tap % S])
    tops.wait_all()
    window = tops.l1(x.dtype, (C, R, wide), slots=2)
    across = tops.cdiv(width, BX)

    def rows(work):
        top, left = work // across % height * STRIDE - PAD, work % across * BX * STRIDE - PAD
        return x[work // across // height, :, top : top + R, left : left + wide]

    works = images * height * across
    for work in tops.pipeline(tops.thread_id(), works, tops.num_threads(), load=(window, rows), pad=0):
        acc = tops.zeros(tops.f32, (OUT, BX))
        for r in tops.static_range(R):
            for s in tops.static_range(S):
                acc += taps[r * S + s] @ window[work][:, r, s : s + (BX - 1) * STRIDE + 1 : STRIDE]
        line, column = work // across, work % across * BX
        tops.store(y[line // height, :, line % height, column : column + BX], acc.to(y.dtype), clip=True)


@conv2d_direct.example
def _(rng, images=2, C=16, OUT=32, height=56, width=56, R=3, S=3, STRIDE=1, PAD=1, BX=32, dtype=tops.f32):
    x = rng.standard_normal((images, C, height, width), np.float32).astype(dtype.numpy)
    weight = rng.standard_normal((OUT, C, R, S), np.float32).astype(dtype.numpy)
    shape = (height + 2 * PAD - R) // STRIDE + 1, (width + 2 * PAD - S) // STRIDE + 1
    y = np.empty((images, OUT, *shape), dtype.numpy)
    return dict(x=x, weight=weight, y=y, C=C, OUT=OUT, R=R, S=S, STRIDE=STRIDE, PAD=PAD, BX=BX)


@conv2d_direct.reference(rtol=1e-4, atol=1e-4)
def _(x, weight, STRIDE, PAD):
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))[:, :, ::STRIDE, ::STRIDE]
    return np.einsum("nchwrs,ocrs->nohw", windows, weight.astype(np.float64))
