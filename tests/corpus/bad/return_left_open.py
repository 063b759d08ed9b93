"""An early return skips the wait."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), limit: tops.f32):
    a = tops.l1(tops.f32, (64,))
    b = tops.l1(tops.f32, (64,))
    tops.load(a, x[0:64])
    ready = tops.load_async(b, x[64:128])  # fault: left-open
    if a[0] > limit:
        return
    tops.wait(ready)
    tops.store(y[0:64], a + b)


def launch(kernel):
    return kernel[1](np.ones(128, np.float32), np.zeros(64, np.float32), 0.5)
