"""One element is changed while the row is being stored."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    row[:] = 1.0
    stored = tops.store_async(y[0:64], row)  # other
    row[5] = 7.0  # fault: in-use
    tops.wait(stored)


def launch(kernel):
    return kernel[1](np.zeros(64, np.float32))
