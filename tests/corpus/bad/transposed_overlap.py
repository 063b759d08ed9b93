"""Rows of one thread and columns of another cross."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2)):
    t = tops.thread_id()
    row = tops.load(x[t : t + 1, 0:32])
    if t == 2:
        tops.copy(y[:, 5:6], row.T)  # fault: race
    else:
        tops.store(y[t : t + 1], row)  # other


def launch(kernel):
    return kernel[4](np.ones((4, 32), np.float32), np.zeros((32, 32), np.float32))
