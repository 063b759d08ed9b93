"""L2 can't be computed with: it has to be loaded first."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    shared = tops.l2(tops.f32, (64,))
    tops.copy(shared, x[0:64])
    tops.store(y[0:64], shared + 1.0)  # fault: compile


def launch(kernel):
    return kernel[1, 1](np.ones(64, np.float32), np.zeros(64, np.float32))
