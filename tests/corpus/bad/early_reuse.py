"""The buffer is written again while its store is still reading it."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    tops.load(row, x[0:64])
    stored = tops.store_async(y[0:64], row)  # other
    row[:] = 2.0  # fault: in-use
    tops.wait(stored)
    tops.store(y[64:128], row)


def launch(kernel):
    return kernel[1](np.ones(64, np.float32), np.zeros(128, np.float32))
