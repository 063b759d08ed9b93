"""One thread too many: its rows do not exist."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2)):
    r = tops.thread_id() * 4
    tops.store(y[r : r + 4], tops.load(x[r : r + 4, 0:32]))  # fault: view


def launch(kernel):
    return kernel[5](np.ones((16, 32), np.float32), np.zeros((16, 32), np.float32))
