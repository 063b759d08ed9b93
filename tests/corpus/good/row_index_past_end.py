"""The last row is taken from the first."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2)):
    r = tops.thread_id()
    part = tops.load(x[(r + 1) % 4, 0:32])
    tops.store(y[r, 0:32], part)


def launch(kernel):
    return kernel[4](np.ones((4, 32), np.float32), np.zeros((4, 32), np.float32))
