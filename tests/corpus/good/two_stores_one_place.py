"""Stores to alternating columns at the same time: they share no element."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(y: tops.ptr(tops.f32, 2)):
    a = tops.l1(tops.f32, (8, 4))
    b = tops.l1(tops.f32, (8, 4))
    a[:] = 1.0
    b[:] = 2.0
    first = tops.store_async(y[0:8, 0:4], a)
    second = tops.store_async(y[0:8, 4:8], b)
    tops.wait(first, second)


def launch(kernel):
    return kernel[1](np.zeros((8, 8), np.float32))
