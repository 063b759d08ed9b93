"""The last vector begins within the row and ends beyond it."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (80,))
    tops.load(row, x[0:80])
    for k in range(0, 80, 32):
        v = tops.vload(row, k)  # fault: index
        tops.vstore(row, k, v + v)
    tops.store(y[0:80], row)


def launch(kernel):
    return kernel[1](np.ones(80, np.float32), np.zeros(80, np.float32))
