"""Seven elements are stored where eight are expected."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32), n: tops.i32):
    part = tops.load(x[0 : min(n, 8)])
    tops.store(y[0:8], part)  # fault: shape


def launch(kernel):
    return kernel[1](np.ones(8, np.float32), np.zeros(8, np.float32), 7)
