"""The second vector of a row whose first half was loaded."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    tops.load(row[0:32], x[0:32])
    v = tops.vload(row, 0) + tops.vload(row, 32)  # fault: uninitialised
    tops.vstore(row, 0, v)
    tops.store(y[0:32], row[0:32])


def launch(kernel):
    return kernel[1](np.ones(32, np.float32), np.zeros(32, np.float32))
