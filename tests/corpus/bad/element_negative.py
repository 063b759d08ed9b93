"""The element before the first one is written."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32)):
    line = tops.l1(tops.f32, (32,))
    line[:] = 0.0
    for k in range(32):
        line[k - 1] = 1.0  # fault: index
    tops.store(y[0:32], line)


def launch(kernel):
    return kernel[1](np.zeros(32, np.float32))
