"""A buffer is printed before it has a value."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32)):
    row = tops.l1(tops.f32, (8,))
    print("row", row)  # fault: uninitialised
    row[:] = 1.0
    tops.store(y[0:8], row)


def launch(kernel):
    return kernel[1](np.zeros(8, np.float32))
