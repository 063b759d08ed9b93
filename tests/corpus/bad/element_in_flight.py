"""A single element is read while the row is being loaded."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (64,))
    ready = tops.load_async(row, x[0:64])  # other
    first = row[0]  # fault: not-awaited
    tops.wait(ready)
    tops.store(y[0:64], row - first)


def launch(kernel):
    return kernel[1](np.ones(64, np.float32), np.zeros(64, np.float32))
