"""An array in device memory can't be computed with."""

import numpy as np

import tops_kit as tops


@tops.kernel
def kernel(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    tops.store(y[0:64], x[0:64] * 2.0)  # fault: compile


def launch(kernel):
    return kernel[1](np.ones(64, np.float32), np.zeros(64, np.float32))
