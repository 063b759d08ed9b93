"""Two loads, and the wait is for the wrong one."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    a = tops.l1(tops.f32, (64,))
    b = tops.l1(tops.f32, (64,))
    first = tops.load_async(a, x[0:64])  # other
    second = tops.load_async(b, x[64:128])
    tops.wait(second)
    tops.store(y[0:64], a + 1.0)  # fault: not-awaited
    tops.wait(first)


def launch(kernel):
    return kernel[1](np.ones(128, np.float32), np.zeros(64, np.float32))
