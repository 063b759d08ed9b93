"""Two loads side by side in the same buffer."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (128,))
    first = tops.load_async(row[0:64], x[0:64])
    second = tops.load_async(row[64:128], x[64:128])
    tops.wait(first, second)
    tops.store(y[0:128], row)


def launch(kernel):
    return kernel[1](np.ones(128, np.float32), np.zeros(128, np.float32))
