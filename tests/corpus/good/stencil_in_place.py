"""Two arrays: one is read, one is written."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    i = tops.thread_id() * 32 + 1
    left = tops.load(x[i - 1 : i + 31])
    right = tops.load(x[i + 1 : i + 33])
    tops.store(y[i : i + 32], (left + right) * 0.5)


def launch(kernel):
    return kernel[4, 1](np.ones(130, np.float32), np.zeros(130, np.float32))
