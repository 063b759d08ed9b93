"""Two loads to the same buffer at the same time."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    first = tops.load_async(row, x[0:64])  # other
    second = tops.load_async(row, x[64:128])  # fault: in-use
    tops.wait(first, second)
    tops.store(y[0:64], row)


def launch(kernel):
    return kernel[1](np.ones(128, np.float32), np.zeros(64, np.float32))
