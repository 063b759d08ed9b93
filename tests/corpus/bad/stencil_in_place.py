"""A stencil stores into the array that its neighbours read."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32)):
    i = tops.thread_id() * 32 + 1
    left = tops.load(x[i - 1 : i + 31])  # other
    right = tops.load(x[i + 1 : i + 33])  # other
    tops.store(x[i : i + 32], (left + right) * 0.5)  # fault: race


def launch(kernel):
    return kernel[4, 1](np.ones(130, np.float32))
