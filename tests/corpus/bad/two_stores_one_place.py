"""Two stores to overlapping parts of the array, with nothing that orders them."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32)):
    a = tops.l1(tops.f32, (64,))
    b = tops.l1(tops.f32, (64,))
    a[:] = 1.0
    b[:] = 2.0
    first = tops.store_async(y[0:64], a)  # other
    second = tops.store_async(y[60:124], b)  # fault: in-use
    tops.wait(first, second)


def launch(kernel):
    return kernel[1](np.zeros(128, np.float32))
